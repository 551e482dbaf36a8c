package static

import (
	"encoding/binary"
	"math"

	"github.com/triskele/triskele/services/embed/tokens"
)

// Spell adds weight times a vector of length 1 to dst. The vector depends on the word's spelling alone: each n-gram gives a
// pseudo-random vector of signs, and their sum is normalised. Words without a common n-gram are nearly orthogonal, and a
// misspelled word stays near the correct one. Spell embeds words without a row, and training adds it to the rows of the
// others. grams is scratch memory; Spell returns it, possibly grown.
func Spell(dst []float32, word []byte, weight float32, grams []uint64) []uint64 {
	grams = tokens.AppendGrams(grams[:0], word)
	var counts [maxColumns + 64]byte // of the bits that are set; a word has fewer than 3*MaxWord n-grams
	for i := 0; i < len(dst); i += 64 {
		for from := 0; from < len(grams); from += 31 {
			var ones, twos, fours, eights, sixteens uint64 // counts of 64 columns, a bit of each
			for _, state := range grams[from:min(from+31, len(grams))] {
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
				eight := counts[i+k : i+k+8]
				binary.LittleEndian.PutUint64(eight, binary.LittleEndian.Uint64(eight)+
					spread[byte(ones>>k)]+spread[byte(twos>>k)]<<1+spread[byte(fours>>k)]<<2+spread[byte(eights>>k)]<<3+spread[byte(sixteens>>k)]<<4)
			}
		}
	}
	used, squares := counts[:len(dst)], 0
	for _, count := range used {
		sum := 2*int(count) - len(grams)
		squares += sum * sum
	}
	if squares == 0 {
		return grams
	}
	scale := weight / float32(math.Sqrt(float64(squares)))
	var components [256]float32 // by count
	for count := range len(grams) + 1 {
		components[count] = float32(scale * float32(2*count-len(grams)))
	}
	dst = dst[:len(used)]
	for i, count := range used {
		dst[i] += components[count]
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
