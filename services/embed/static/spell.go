package static

import (
	"math"
	"slices"

	"github.com/triskele/triskele/services/embed/tokens"
)

// Spell adds weight times a vector of length 1 to dst. The vector depends on the word's spelling alone: each n-gram gives a
// pseudo-random vector of signs, and their sum is normalised. Words without a common n-gram are nearly orthogonal, and a
// misspelled word stays near the correct one. Spell embeds words without a row, and training adds it to the rows of the
// others. grams is scratch memory; Spell returns it, possibly grown.
func Spell(dst []float32, word []byte, weight float32, grams []uint64) []uint64 {
	grams = tokens.AppendGrams(grams[:0], word)
	var sums [maxColumns + 64]int32 // of the bits
	for i := 0; i < len(dst); i += 64 {
		for some := range slices.Chunk(grams, 31) {
			var ones, twos, fours, eights, sixteens uint64 // counts of 64 columns, a bit of each
			for _, state := range some {
				// SplitMix64 (Steele, Lea and Flood 2014) gives 64 signs at a time.
				bits := state + uint64(i/64+1)*0x9e3779b97f4a7c15
				bits = (bits ^ bits>>30) * 0xbf58476d1ce4e5b9
				bits = (bits ^ bits>>27) * 0x94d049bb133111eb
				bits ^= bits >> 31
				bits, ones = ones&bits, ones^bits
				bits, twos = twos&bits, twos^bits
				bits, fours = fours&bits, fours^bits
				bits, eights = eights&bits, eights^bits
				sixteens ^= bits
			}
			for k := 0; k < 64; k += 8 {
				counts := spread[byte(ones>>k)] + spread[byte(twos>>k)]<<1 + spread[byte(fours>>k)]<<2 + spread[byte(eights>>k)]<<3 + spread[byte(sixteens>>k)]<<4
				eight := sums[i+k : i+k+8]
				for j := range eight {
					eight[j] += int32(byte(counts >> (8 * j)))
				}
			}
		}
	}
	var squares int64
	for j := range dst {
		sums[j] = 2*sums[j] - int32(len(grams))
		squares += int64(sums[j]) * int64(sums[j])
	}
	if squares == 0 {
		return grams
	}
	scale := weight / float32(math.Sqrt(float64(squares)))
	for i := range dst {
		dst[i] += float32(scale * float32(sums[i]))
	}
	return grams
}

// spread has the bits of each byte in bytes of their own, the lowest first.
var spread = func() (table [256]uint64) {
	for b := range table {
		for k := range 8 {
			table[b] |= uint64(b>>k&1) << (8 * k)
		}
	}
	return table
}()
