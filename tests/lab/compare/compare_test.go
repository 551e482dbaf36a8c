package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/services/eval"
)

func TestPaired(t *testing.T) {
	t.Parallel()
	var same, better, mixed []float64
	for i := range 400 {
		same = append(same, 0)
		better = append(better, 0.1)
		mixed = append(mixed, float64(i%2)*2-1)
	}
	if got := Paired(same); got != (Interval{}) {
		t.Errorf("no difference: %v", got)
	}
	if got := Paired(better); math.Abs(got.Low-0.1) > 1e-9 || math.Abs(got.High-0.1) > 1e-9 || !strings.HasPrefix(got.String(), "**+0.100") {
		t.Errorf("the same difference everywhere: %v", got)
	}
	// The standard error of 400 fair signs is 1/20; 1.96 of them are 0.098.
	got := Paired(mixed)
	if got.Mean != 0 || math.Abs(got.Low+0.098) > 0.01 || math.Abs(got.High-0.098) > 0.01 || strings.Contains(got.String(), "*") {
		t.Errorf("coin flips: %v", got)
	}
	if got != Paired(mixed) {
		t.Error("a second call gives another interval")
	}
	if got := Paired(nil); got != (Interval{}) {
		t.Errorf("nothing: %v", got)
	}
}

func TestFuse(t *testing.T) {
	t.Parallel()
	lexical := eval.Ranking{IDs: []string{"a", "b"}, Scores: map[string]float64{"a": 10, "b": 9}}
	dense := []fusion.Hit{{ID: "c", Score: 0.9}, {ID: "b", Score: 0.8}, {ID: "d", Score: 0.1}}
	for how, want := range map[Fusion]string{
		{Convex, 0.001}: "a b c d", {Convex, 0.5}: "b a c d", {Convex, 0.999}: "c b a d",
		{Method: RRF}: "b a c d",
		// a is 2 above the last lexical hit; c is 2.25 and b 1.97 above the last dense one.
		{ZScore, 0.1}: "a c b d", {ZScore, 0.5}: "c a b d", {ZScore, 0.999}: "c b a d",
	} {
		if got := strings.Join(fuse(lexical, dense, how), " "); got != want {
			t.Errorf("%v: %s, want %s", how, got, want)
		}
	}
	// The first of one list, and the fifth of both.
	lexical = eval.Ranking{IDs: []string{"a", "b", "c", "d", "e"}, Scores: map[string]float64{}}
	dense = []fusion.Hit{{ID: "v"}, {ID: "w"}, {ID: "x"}, {ID: "y"}, {ID: "e"}}
	for how, want := range map[Method]string{RRF: "e", Default: "a"} {
		if got := fuse(lexical, dense, Fusion{Method: how}); got[0] != want {
			t.Errorf("%s: %v, want %s first", how, got, want)
		}
	}
	if got := fuse(eval.Ranking{}, dense[:1], Fusion{ZScore, 0.5}); len(got) != 1 || got[0] != "v" {
		t.Errorf("with a single hit: %v", got)
	}
}

func TestMarkdownChoosesAlphaOnTheTuningHalf(t *testing.T) {
	t.Parallel()
	outcome := func(tuning bool, recall float64) Outcome {
		return Outcome{Tuning: tuning, Stratum: "s", Metrics: eval.Metrics{Recall10: recall}}
	}
	found := []Result{
		{Set: "set", Scope: Own, Queries: []Outcome{outcome(true, 0.5), outcome(false, 0.5)}},
		{Set: "set", Scope: Own, Embedder: "e", Queries: []Outcome{outcome(true, 0.4), outcome(false, 0.4)}},
		{Set: "set", Scope: Own, Embedder: "e", Fusion: Fusion{Convex, 0.2}, Queries: []Outcome{outcome(true, 0.6), outcome(false, 0.1)}},
		{Set: "set", Scope: Own, Embedder: "e", Fusion: Fusion{Convex, 0.5}, Queries: []Outcome{outcome(true, 0.5), outcome(false, 1)}},
	}
	text := Markdown(found, Options{Sets: []string{"set"}, Alphas: []float64{0.2, 0.5}, Embedders: []Named{{Name: "e"}}}, "e", "e")
	if want := "| set | e | 0.20 | 0.350 | -0.150 [-0.400, +0.100] | 0.100 | **-0.400 [-0.400, -0.400]** |"; !strings.Contains(text, want) {
		t.Errorf("want the line\n%s\nin\n%s", want, text)
	}
}
