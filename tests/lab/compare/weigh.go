package compare

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	// directions is the number of principal directions of a namespace that are weighed.
	directions = 64
	// floor is added to a direction's share of the mean variance, so that rare directions do not count without bound.
	floor = 0.3
)

// weigh returns the queries with less weight on the directions that most documents of their namespace share: what every
// memory says tells none apart, as with the inverse document frequency of words. A namespace's variance along a direction is
// the mean square of the documents' components along it. A query's component is divided by √(variance/mean + floor), for
// the directions with the greatest variances, relative to the last of them. Documents stay as they are.
//
// The idea is that of Mu and Viswanath, "All-but-the-Top: Simple and Effective Postprocessing for Word Representations",
// ICLR 2018, with a soft weight, and a namespace in place of the language.
func (c *collection) weigh(queried int) ([][]float32, error) {
	weighed := make([][]float32, len(c.queries))
	for _, namespace := range c.set.Namespaces {
		var data []float64
		for i, m := range c.set.Memories {
			if m.GetNamespace() == namespace {
				for _, x := range c.documents[i][:queried] {
					data = append(data, float64(x))
				}
			}
		}
		if len(data) == 0 {
			continue
		}
		vectors, factors, err := principal(mat.NewDense(len(data)/queried, queried, data))
		if err != nil {
			return nil, err
		}
		for i, q := range c.set.Queries {
			if q.Namespace == namespace {
				weighed[i] = reweigh(c.queries[i], vectors, factors)
			}
		}
	}
	for i, q := range weighed {
		if q == nil { // no document in its namespace
			weighed[i] = c.queries[i]
		}
	}
	return weighed, nil
}

// principal returns unit vectors along the directions of greatest variance of the rows of x, and what to multiply a query's
// components along them with.
func principal(x *mat.Dense) (vectors [][]float64, factors []float64, err error) {
	n, dimensions := x.Dims()
	variance := mat.NewSymDense(dimensions, nil)
	variance.SymOuterK(1/float64(n), x.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(variance, true) {
		return nil, nil, errors.New("the eigenvalues did not converge")
	}
	values := eigen.Values(nil) // ascending
	mean := floats.Sum(values) / float64(dimensions)
	if mean == 0 {
		return nil, nil, nil
	}
	weight := func(k int) float64 { return 1 / math.Sqrt(max(values[k], 0)/mean+floor) }
	first := max(dimensions-directions, 0)
	var all mat.Dense
	eigen.VectorsTo(&all)
	for k := first; k < dimensions; k++ {
		vectors = append(vectors, mat.Col(nil, k, &all))
		factors = append(factors, weight(k)/weight(first))
	}
	return vectors, factors, nil
}

func reweigh(query []float32, vectors [][]float64, factors []float64) []float32 {
	out := make([]float64, len(query))
	for i, x := range query {
		out[i] = float64(x)
	}
	whole := append([]float64(nil), out...)
	for k, v := range vectors {
		along := floats.Dot(whole[:len(v)], v)
		floats.AddScaled(out[:len(v)], (factors[k]-1)*along, v)
	}
	weighed := make([]float32, len(out))
	for i, x := range out {
		weighed[i] = float32(x)
	}
	return weighed
}
