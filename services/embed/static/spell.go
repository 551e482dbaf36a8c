package static

import (
	"math"

	"github.com/triskele/triskele/services/embed/tokens"
)

// Spell adds weight times a vector of length 1 to dst. The vector depends on the word's spelling alone: each n-gram gives a
// pseudo-random vector of signs, and their sum is normalised. Words without a common n-gram are nearly orthogonal, and a
// misspelled word stays near the correct one. Spell embeds words without a row, and training adds it to the rows of the
// others. grams is scratch memory; Spell returns it, possibly grown.
func Spell(dst []float32, word []byte, weight float32, grams []uint64) []uint64 {
	grams = tokens.AppendGrams(grams[:0], word)
	var sums [maxColumns]int32
	var lanes [(maxColumns + 63) / 64 * 8]uint64 // positive signs so far, a byte for each column
	for n, state := range grams {
		for i := 0; i < len(dst); i += 64 {
			// SplitMix64 (Steele, Lea and Flood 2014) gives 64 signs at a time.
			state += 0x9e3779b97f4a7c15
			bits := state
			bits = (bits ^ bits>>30) * 0xbf58476d1ce4e5b9
			bits = (bits ^ bits>>27) * 0x94d049bb133111eb
			bits ^= bits >> 31
			eight := lanes[i/8 : i/8+8]
			for k := range eight {
				eight[k] += spread[byte(bits>>(8*k))]
			}
		}
		if last := n+1 == len(grams); last || n%math.MaxUint8 == math.MaxUint8-1 { // before a byte overflows
			for j := range dst {
				sums[j] += int32(lanes[j/8] >> (j % 8 * 8) & math.MaxUint8)
			}
			clear(lanes[:])
		}
	}
	for j := range dst {
		sums[j] = 2*sums[j] - int32(len(grams))
	}
	var squares float64
	for _, sum := range sums[:len(dst)] {
		squares += float64(sum) * float64(sum)
	}
	if squares == 0 {
		return grams
	}
	scale := weight / float32(math.Sqrt(squares))
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
