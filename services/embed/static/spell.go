package static

import (
	"math"

	"github.com/triskele/triskele/services/embed/tokens"
)

// Spell adds weight times a vector of length 1 to dst that depends on nothing but a word's spelling: the normalised sum
// of one random vector of signs for each of its n-grams. Words that share no n-gram are nearly orthogonal, and a
// misspelling stays near its word. It is what a word that the model does not know stands for, and a part of the rows of
// those it knows. grams is scratch memory; the grown slice is returned.
func Spell(dst []float32, word []byte, weight float32, grams []uint64) []uint64 {
	grams = tokens.AppendGrams(grams[:0], word)
	var sums [maxColumns]int32
	for _, state := range grams {
		for i := 0; i < len(dst); i += 64 {
			// SplitMix64 (Steele, Lea and Flood 2014): 64 signs a step.
			state += 0x9e3779b97f4a7c15
			bits := state
			bits = (bits ^ bits>>30) * 0xbf58476d1ce4e5b9
			bits = (bits ^ bits>>27) * 0x94d049bb133111eb
			bits ^= bits >> 31
			for j := range min(64, len(dst)-i) {
				sums[i+j] += int32(bits>>j&1)*2 - 1
			}
		}
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
