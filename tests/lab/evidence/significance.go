package evidence

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/triskele/triskele/tests/lab/stats"
)

// samples is how often a comparison is resampled.
const samples = 10_000

// Difference is a mean difference of paired measurements with its percentile interval and two-sided p-value, both from a
// bootstrap over the pairs (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 13 and 16).
type Difference struct {
	Mean     float64 `json:"mean"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	P        float64 `json:"p"`
	Adjusted float64 `json:"p_adjusted"` // by Holm's method, within its family
	Pairs    int     `json:"pairs"`
}

// compare resamples b - a, pair by pair. level is that of the interval: 0.05 for 95 %.
func compare(a, b []float64, level float64) Difference {
	n := len(a)
	if n == 0 {
		return Difference{P: 1, Adjusted: 1}
	}
	differences, sum := make([]float64, n), 0.
	for i := range a {
		differences[i] = b[i] - a[i]
		sum += differences[i]
	}
	means := stats.Resample(differences, samples, rand.New(rand.NewPCG(1, 2)))
	below, above := 0, 0
	for _, m := range means {
		if m <= 0 {
			below++
		}
		if m >= 0 {
			above++
		}
	}
	at := func(q float64) float64 { return means[min(int(math.Round(q*samples)), samples-1)] }
	// One is added so that no p is 0, which no number of samples could show.
	p := min(2*float64(min(below, above)+1)/(samples+1), 1)
	return Difference{Mean: sum / float64(n), Low: at(level / 2), High: at(1 - level/2), P: p, Adjusted: p, Pairs: n}
}

// Better says whether the difference is positive at a level, after correction.
func (d Difference) Better(level float64) bool { return d.Mean > 0 && d.Adjusted < level }

// Worse says whether the difference is negative at a level, after correction.
func (d Difference) Worse(level float64) bool { return d.Mean < 0 && d.Adjusted < level }

// holm corrects the p-values of a family of comparisons (Holm, A Simple Sequentially Rejective Multiple Test Procedure,
// 1979).
func holm(family []*Difference) {
	sorted := slices.Clone(family)
	slices.SortStableFunc(sorted, func(a, b *Difference) int {
		switch {
		case a.P < b.P:
			return -1
		case a.P > b.P:
			return 1
		}
		return 0
	})
	least := 0.
	for i, d := range sorted {
		least = max(least, min(d.P*float64(len(sorted)-i), 1))
		d.Adjusted = least
	}
}
