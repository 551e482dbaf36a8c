package fusion

import (
	"math"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Scale normalises the scores of a list to 0..1: Low becomes 0, High becomes 1, and scores outside are clipped. If Low equals
// High, every score becomes 1.
type Scale struct {
	Low, High float64
	// ByRank means that only the order of the scores is meaningful, because they rise somewhere in the list or are of a kind
	// that spans orders of magnitude. Of n hits the one at rank r becomes 1 - (r-1)/n.
	ByRank bool
}

// of normalises a score. The position i of n hits counts only if the scale is ByRank.
func (s Scale) of(score float64, i, n int) float64 {
	switch {
	case s.ByRank:
		return 1 - float64(i)/float64(n)
	case s.High == s.Low:
		return 1
	}
	// Halves, because the difference of two finite numbers may overflow.
	return min(max((score/2-s.Low/2)/(s.High/2-s.Low/2), 0), 1)
}

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
		// The least possible score is 0, that of a text that doesn't match.
		return Scale{Low: min(low, 0), High: max(high, 0)}
	case triskelev1.ScoreKind_SCORE_KIND_COSINE:
		// The least possible score is -1. It is used only if every memory has its score: a memory that the list lacks gets
		// 0, and would lie far below the list's last hit.
		if list.Complete {
			low = min(low, -1)
		}
		return Scale{Low: low, High: high}
	}
	return Scale{ByRank: true}
}

// distribution is the scale from three standard deviations below the mean to three above. It is extended to scores outside,
// because two scores that differ must not become equal.
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
		spread = 1 // equal scores become 1/2
	}
	return Scale{Low: finite(min((mean-spread)*unit, low)), High: finite(max((mean+spread)*unit, high))}
}

func finite(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }
