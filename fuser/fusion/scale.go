package fusion

import (
	"math"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Scale makes the scores of a list comparable with those of others: Low becomes 0, High becomes 1, and what is beyond is
// cut off. If Low equals High, every score becomes 1.
type Scale struct {
	Low, High float64
	// ByRank means that the scores do not compare throughout the list, or span orders of magnitude, so that only their
	// order says something: of n hits the one at rank r becomes 1 - (r-1)/n.
	ByRank bool
}

// of normalises a score, which is at position i of n in its list unless the list is ByRank.
func (s Scale) of(score float64, i, n int) float64 {
	switch {
	case s.ByRank:
		return 1 - float64(i)/float64(n)
	case s.High == s.Low:
		return 1
	}
	// In halves, since the difference of two finite numbers may not be finite.
	return min(max((score/2-s.Low/2)/(s.High/2-s.Low/2), 0), 1)
}

// scaleOf is how a list's scores are normalised.
func scaleOf(list List, method triskelev1.FusionMethod) Scale {
	if len(list.Hits) == 0 {
		return Scale{ByRank: true}
	}
	high, low := list.Hits[0].Score, list.Hits[len(list.Hits)-1].Score
	for i := 1; i < len(list.Hits); i++ {
		if list.Hits[i].Score > list.Hits[i-1].Score {
			return Scale{ByRank: true}
		}
	}
	if method == triskelev1.FusionMethod_FUSION_METHOD_DBSF {
		return distribution(list.Hits, low, high)
	}
	switch list.Kind {
	case triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_TS_RANK:
		// The least possible score is known: a document that doesn't match scores 0.
		return Scale{Low: min(low, 0), High: max(high, 0)}
	case triskelev1.ScoreKind_SCORE_KIND_COSINE:
		// The least possible score is -1, but of use only if every memory has its score: else one that the list lacks
		// gets 0, far below the last that it has.
		if list.Complete {
			low = min(low, -1)
		}
		return Scale{Low: low, High: high}
	}
	return Scale{ByRank: true}
}

// distribution reaches from three standard deviations below the mean to three above, and further if a score lies beyond:
// two that differ must not become the same.
func distribution(hits []Hit, low, high float64) Scale {
	unit := max(math.Abs(low), math.Abs(high)) // keeps the squares finite
	if unit == 0 {
		unit = 1
	}
	mean, squares := 0., 0.
	for _, hit := range hits {
		mean += hit.Score / unit / float64(len(hits))
	}
	for _, hit := range hits {
		squares += (hit.Score/unit - mean) * (hit.Score/unit - mean)
	}
	spread := 3 * math.Sqrt(squares/float64(len(hits)))
	if low == high {
		spread = 1 // all the same: the middle
	}
	return Scale{Low: finite(min((mean-spread)*unit, low)), High: finite(max((mean+spread)*unit, high))}
}

func finite(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }
