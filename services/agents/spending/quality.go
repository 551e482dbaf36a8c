package spending

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Quality is what an evaluation found a recall to be worth without some of its legs.
type Quality struct {
	Plan  string
	legs  []string
	means map[string]map[string]map[string]float64 // by key of the lost legs, set of queries, and measure
}

// ParseQuality reads the JSON file of a report whose plan has a degradation.
func ParseQuality(text []byte) (*Quality, error) {
	var outcome struct {
		Plan string `json:"plan"`
		Lost []struct {
			Legs  []string                      `json:"legs"`
			Means map[string]map[string]float64 `json:"means"` // by set, then measure
		} `json:"lost"`
	}
	if err := json.Unmarshal(text, &outcome); err != nil {
		return nil, fmt.Errorf("quality: %w", err)
	}
	if len(outcome.Lost) == 0 {
		return nil, errors.New("quality: the report does not say what is left without each leg: its plan needs a degradation")
	}
	q := &Quality{Plan: outcome.Plan, means: map[string]map[string]map[string]float64{}}
	for _, lost := range outcome.Lost {
		q.means[key(lost.Legs)] = lost.Means
		for _, leg := range lost.Legs {
			if !slices.Contains(q.legs, leg) {
				q.legs = append(q.legs, leg)
			}
		}
	}
	if q.means[""] == nil {
		return nil, errors.New("quality: the report does not say what recall is with all legs")
	}
	slices.Sort(q.legs)
	return q, nil
}

// under is the expected value of every measure when sets of legs are lost in these shares of recalls.
func (q *Quality) under(worst, best map[string]float64) map[string]map[string]Range {
	out := map[string]map[string]Range{}
	for set, whole := range q.means[""] {
		out[set] = map[string]Range{}
		for measure := range whole {
			out[set][measure] = Range{q.expected(worst, set, measure), q.expected(best, set, measure)}
		}
	}
	return out
}

// expected takes a recall without any leg, which is an error, as worth nothing. Legs that the evaluation did not have make
// no difference to it.
func (q *Quality) expected(shares map[string]float64, set, measure string) (sum float64) {
	for _, lost := range slices.Sorted(maps.Keys(shares)) { // sums of floats depend on their order
		known := slices.DeleteFunc(legsOf(lost), func(leg string) bool { return !slices.Contains(q.legs, leg) })
		sum += shares[lost] * q.means[key(known)][set][measure]
	}
	return sum
}

// key names a set of legs.
func key(legs []string) string { return strings.Join(slices.Sorted(slices.Values(legs)), "\x00") }

func legsOf(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, "\x00")
}
