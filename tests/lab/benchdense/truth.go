package main

import (
	"math"
	"slices"

	"github.com/x448/float16"

	"github.com/triskele/triskele/services/leg"
)

// rounding is how far two computations of one score may differ, for which scores are rounded to millionths.
const rounding = 2e-6

// truth compares queries with every vector.
type truth struct{ vectors [][]float32 }

// rounded is a vector as the stores keep it: in half precision, scaled to length 1 again.
func rounded(vector []float32) []float32 {
	out := make([]float32, len(vector))
	var squares float64
	for i, x := range vector {
		out[i] = float16.Fromfloat32(x).Float32()
		squares += float64(out[i]) * float64(out[i])
	}
	for i := range out {
		out[i] = float32(float64(out[i]) / math.Sqrt(squares))
	}
	return out
}

func newTruth(m memories) truth {
	t := truth{make([][]float32, len(m.vectors))}
	for i, vector := range m.vectors {
		t.vectors[i] = rounded(vector)
	}
	return t
}

// best returns, for each tag ("" is all memories), the depth best scores of those that have it, descending.
func (t truth) best(query []float32, tags [][]string, depth int) map[string][]float64 {
	query = rounded(query)
	scores := map[string][]float64{}
	for i, vector := range t.vectors {
		var s0, s1, s2, s3 float32
		j := 0
		for ; j+4 <= len(vector); j += 4 {
			s0 += query[j] * vector[j]
			s1 += query[j+1] * vector[j+1]
			s2 += query[j+2] * vector[j+2]
			s3 += query[j+3] * vector[j+3]
		}
		for ; j < len(vector); j++ {
			s0 += query[j] * vector[j]
		}
		score := float64(s0 + s1 + s2 + s3)
		scores[""] = append(scores[""], score)
		for _, tag := range tags[i] {
			scores[tag] = append(scores[tag], score)
		}
	}
	for tag, all := range scores {
		slices.SortFunc(all, func(a, b float64) int {
			if a > b {
				return -1
			}
			return 1
		})
		scores[tag] = all[:min(depth, len(all))]
	}
	return scores
}

// recall is the share of the k best that are among the first k hits. Memories that score alike are as good as each other.
func recall(hits []leg.Hit, best []float64, k int) float64 {
	k = min(k, len(best))
	found := 0
	for _, hit := range hits[:min(k, len(hits))] {
		if hit.Score >= best[k-1]-rounding {
			found++
		}
	}
	return float64(found) / float64(k)
}
