package evidence

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHolm uses the worked example of four p-values at level 0.05, of which two stay significant.
func TestHolm(t *testing.T) {
	ps := []float64{0.01, 0.04, 0.03, 0.005}
	want := []float64{0.03, 0.06, 0.06, 0.02}
	family := make([]*Difference, len(ps))
	for i, p := range ps {
		family[i] = &Difference{P: p}
	}
	holm(family)
	for i, d := range family {
		if math.Abs(d.Adjusted-want[i]) > 1e-12 {
			t.Errorf("p %g became %g, want %g", ps[i], d.Adjusted, want[i])
		}
	}
}

// TestCompareIsCalibrated draws pairs without a difference: about one interval in twenty leaves out zero. With one that is
// large beside its spread, none includes it.
func TestCompareIsCalibrated(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	const trials, n = 200, 50
	wrong := 0
	for range trials {
		a, b, c := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			a[i], b[i] = random.NormFloat64(), random.NormFloat64()
			c[i] = a[i] + 1 + random.NormFloat64()
		}
		if d := compare(a, b, 0.05); d.Low > 0 || d.High < 0 {
			wrong++
		}
		if d := compare(a, c, 0.05); !d.Better(0.05) || d.Low <= 0 || d.Mean < d.Low || d.Mean > d.High {
			t.Fatalf("a difference of a standard deviation: %v", d)
		}
	}
	if wrong < 2 || wrong > 22 { // 10 expected; beyond these with a probability below 1 %
		t.Errorf("%d of %d intervals leave out a difference that is not there", wrong, trials)
	}
	if d := compare([]float64{1, 2}, []float64{1, 2}, 0.05); d.Mean != 0 || d.P != 1 {
		t.Errorf("no difference: %+v", d)
	}
}

func TestSubsets(t *testing.T) {
	got := subsets([]string{"a", "b"})
	want := [][]string{{}, {"a"}, {"b"}, {"a", "b"}}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("%v", got)
	}
}

// TestBestStaysWithinTheTolerance: what is better on the whole, and far behind with a leg lost, is passed over for what is
// never far behind; and taken if there is nothing else.
func TestBestStaysWithinTheTolerance(t *testing.T) {
	s := &Study{Plan: &Plan{Rule: Rule{Tolerance: 0.02}}, cells: []cell{{name: "base", of: "base"}, {name: "bold", of: "c"}, {name: "fair", of: "c"}, {name: "safe", of: "c"}}}
	at := func(whole, lost float64) tuning {
		return tuning{whole: []float64{whole}, lost: map[string][]float64{"graph": {lost}}}
	}
	s.tunings = map[string]tuning{"base": at(0.5, 0.5), "bold": at(0.8, 0.4), "safe": at(0.6, 0.49), "fair": at(0.55, 0.5)}
	h := Hypothesis{Baseline: "base", Candidates: []string{"c"}}
	if got := s.best(h).name; got != "safe" {
		t.Errorf("chose %s, want safe", got)
	}
	s.cells = s.cells[:2]
	if got := s.best(h).name; got != "bold" {
		t.Errorf("chose %s, want bold", got)
	}
}
