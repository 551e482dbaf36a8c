package static

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/triskele/triskele/services/embed/tokens"
)

// spellSlowly is Spell, a component at a time.
func spellSlowly(dst []float32, word []byte, weight float32) {
	grams := tokens.AppendGrams(nil, word)
	sums, squares := make([]int64, len(dst)), int64(0)
	for i := range dst {
		for _, state := range grams {
			bits := state + uint64(i/64+1)*0x9e3779b97f4a7c15
			bits = (bits ^ bits>>30) * 0xbf58476d1ce4e5b9
			bits = (bits ^ bits>>27) * 0x94d049bb133111eb
			bits ^= bits >> 31
			sums[i] += 2*int64(bits>>(i%64)&1) - 1
		}
		squares += sums[i] * sums[i]
	}
	if squares == 0 {
		return
	}
	scale := weight / float32(math.Sqrt(float64(squares)))
	for i := range dst {
		dst[i] += float32(scale * float32(sums[i]))
	}
}

// Stored vectors depend on every bit of Spell, for words of all lengths and vectors of all sizes.
func TestSpellIsExact(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for _, columns := range []int{1, 8, 63, 64, 65, 255, 256, 384, maxColumns} {
		for length := range tokens.MaxWord + 1 {
			word := bytes.Map(func(rune) rune { return rune('a' + random.IntN(26)) }, make([]byte, length))
			got, want := make([]float32, columns), make([]float32, columns)
			for i := range got {
				got[i] = random.Float32()
			}
			copy(want, got)
			Spell(got, word, 1.5, nil)
			spellSlowly(want, word, 1.5)
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("component %d of %d of %q: got %v, want %v", i, columns, word, got[i], want[i])
				}
			}
		}
	}
}

func BenchmarkSpell(b *testing.B) {
	dst, grams := make([]float32, 255), []uint64(nil)
	for b.Loop() {
		grams = Spell(dst, []byte("zabulon"), 1.5, grams)
	}
}
