// Package stats has what the evidence for defaults and the comparison of embedders both decide by: the half of a set that
// settings are chosen on, and the paired bootstrap.
package stats

import (
	"hash/fnv"
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

// Tuning says whether a query belongs to the half of a set by which settings may be chosen; the other half is for
// judging. It depends on nothing but the names.
func Tuning(set, query string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(set + "/" + query))
	return h.Sum32()>>16&1 == 0
}
