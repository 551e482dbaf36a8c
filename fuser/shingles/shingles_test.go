package shingles_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/triskele/triskele/fuser/shingles"
)

func TestByHand(t *testing.T) {
	for name, x := range map[string]struct {
		a, b string
		want float64
	}{
		"the same":               {"the crane is serviced in spring", "the crane is serviced in spring", 1},
		"but for its dress":      {"The crane is serviced in spring.", "the CRANE — is serviced, in Spring", 1},
		"one word more":          {"the crane is serviced in spring", "the crane is serviced in spring again", 4. / 5},
		"one word in the middle": {"the crane is serviced in spring", "the crane is painted in spring", 1. / 7},
		"another order":          {"a b c d", "d c b a", 0},
		"twice the same":         {"a b c a b c a b c", "a b c a b c", 1},
		"short ones":             {"door open", "Door open!", 1},
		"short and not the same": {"door open", "door shut", 0},
		"a part":                 {"a b c", "a b c d", 1. / 2},
		"without spaces":         {"起重机在春天维修", "起重机在春天维修。", 1},
		"one of eight":           {"起重机在春天维修", "起重机在秋天维修", 1. / 3},
		"no words":               {"!?", "!?", 0},
		"nothing":                {"", "a", 0},
	} {
		if got := shingles.Of(x.a).Similarity(shingles.Of(x.b)); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// words makes a text of n words, so many that no run comes twice.
func words(random *rand.Rand, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("w%d", random.IntN(1_000_000))
	}
	return out
}

// Long texts are estimated within four standard errors, and no less from one side than from the other.
func TestLongTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		a := words(random, 200+random.IntN(2000))
		tail := words(random, 1+random.IntN(len(a)))
		b := append(append([]string{}, a[:len(a)-len(tail)]...), tail...)
		common := len(a) - len(tail) - 2 // runs that end before the tail
		if common < 0 {
			common = 0
		}
		want := float64(common) / float64(2*(len(a)-2)-common)
		x, y := shingles.Of(strings.Join(a, " ")), shingles.Of(strings.Join(b, " "))
		if got := x.Similarity(y); math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/128)+.02 || got != y.Similarity(x) {
			t.Errorf("%d words, %d of them others: %v and %v, want %v", len(a), len(tail), got, y.Similarity(x), want)
		}
	}
}

func FuzzResemblance(f *testing.F) {
	f.Add("the crane is serviced", "in spring")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := shingles.Of(a), shingles.Of(b)
		if got := x.Similarity(y); !(got >= 0 && got <= 1) || got != y.Similarity(x) || len(x) > 0 && x.Similarity(x) != 1 {
			t.Errorf("%q and %q: %v, %v, %v", a, b, got, y.Similarity(x), x.Similarity(x))
		}
	})
}

func BenchmarkOf(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{40, 10_000} {
		text := strings.Join(words(random, n), " ")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				shingles.Of(text)
			}
		})
	}
}
