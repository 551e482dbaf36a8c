package spending

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Quality has an evaluation's mean quality of recalls without some of their legs.
type Quality struct {
	Plan  string                                   // the evaluation's
	legs  []string                                 // of the evaluation
	means map[string]map[string]map[string]float64 // by key of the lost legs, set of queries, and measure
}

// ParseQuality reads the JSON report of an evaluation whose plan has a degradation.
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
		return nil, errors.New("quality: the report has no results without some legs: its plan needs a degradation")
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
		return nil, errors.New("quality: the report has no result with all legs")
	}
	slices.Sort(q.legs)
	return q, nil
}

// under returns the expected value of every measure, given the share of recalls that lose each set of legs.
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

// expected returns the mean of one measure over the sets of lost legs, weighted by their shares. A recall without any leg is an
// error, and counts 0. Legs that the evaluation did not have are ignored.
func (q *Quality) expected(shares map[string]float64, set, measure string) (sum float64) {
	for _, lost := range slices.Sorted(maps.Keys(shares)) { // sorted, since a sum of floats depends on the order
		known := slices.DeleteFunc(legsOf(lost), func(leg string) bool { return !slices.Contains(q.legs, leg) })
		sum += shares[lost] * q.means[key(known)][set][measure]
	}
	return sum
}

func key(legs []string) string { return strings.Join(slices.Sorted(slices.Values(legs)), "\x00") }

func legsOf(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, "\x00")
}
