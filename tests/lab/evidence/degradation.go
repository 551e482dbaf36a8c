package evidence

import (
	"math/bits"

	"github.com/triskele/triskele/services/eval"
)

// loss is what is left of a measure when each leg is lost in a share of recalls.
type loss struct {
	rate  float64
	means map[string]map[string]float64 // by set, then metric
}

// degradationMetrics are drawn.
var degradationMetrics = []string{"recall@10", "nDCG@10"}

// Lost is what is left of the degradation's configuration without some of its legs, of none of them first.
type Lost struct {
	Legs  []string                      `json:"legs"`
	Means map[string]map[string]float64 `json:"means"` // by set, then metric; over all queries
}

// lost are all combinations of lost legs that leave one to ask.
func (s *Study) lost() (out []Lost) {
	if s.Plan.Degradation == "" {
		return nil
	}
	whole, legs := s.cell(s.Plan.Degradation), legNames()
	for _, lost := range subsets(legs) {
		if len(lost) == len(legs) {
			continue
		}
		l := Lost{Legs: lost, Means: map[string]map[string]float64{}}
		for _, set := range s.sets {
			all := eval.Mean(s.runs[run{set.Name, whole.without(lost...).name}])
			l.Means[set.Name] = map[string]float64{}
			for _, metric := range degradationMetrics {
				l.Means[set.Name][metric] = all.Value(metric)
			}
		}
		out = append(out, l)
	}
	return out
}

// degradation is the expected quality when every leg is lost independently of the others in a share of all recalls, from
// 0 to 1. Each combination of lost legs was measured, so nothing is drawn at random: the mean is weighed by how probable
// each is. A recall without any leg is an error, and counts 0.
func (s *Study) degradation() []loss {
	measured, legs := s.lost(), len(legNames())
	if measured == nil {
		return nil
	}
	var curve []loss
	for tenth := range 11 {
		l := loss{rate: float64(tenth) / 10, means: map[string]map[string]float64{}}
		for _, set := range s.sets {
			l.means[set.Name] = map[string]float64{}
			for _, left := range measured {
				probability := 1.
				for range left.Legs {
					probability *= l.rate
				}
				for range legs - len(left.Legs) {
					probability *= 1 - l.rate
				}
				for _, metric := range degradationMetrics {
					l.means[set.Name][metric] += probability * left.Means[set.Name][metric]
				}
			}
		}
		curve = append(curve, l)
	}
	return curve
}

// subsets are all subsets of the names, the empty one first, each in the order of the names.
func subsets(names []string) [][]string {
	out := make([][]string, 0, 1<<len(names))
	for mask := range uint(1) << len(names) {
		subset := make([]string, 0, bits.OnesCount(mask))
		for i, name := range names {
			if mask>>i&1 == 1 {
				subset = append(subset, name)
			}
		}
		out = append(out, subset)
	}
	return out
}
