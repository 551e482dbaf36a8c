package eval

import (
	"math/rand/v2"
	"slices"
)

// Resample draws samples of paired differences with replacement, each as large as all of them, and returns the samples'
// means in ascending order: what percentile intervals and p-values of a bootstrap are read from (Efron and Tibshirani, An
// Introduction to the Bootstrap, 1993, chapter 13). There has to be a difference.
func Resample(differences []float64, samples int, random *rand.Rand) []float64 {
	n := len(differences)
	means := make([]float64, samples)
	for i := range means {
		for range n {
			means[i] += differences[random.IntN(n)]
		}
		means[i] /= float64(n)
	}
	slices.Sort(means)
	return means
}
