package evidence

import (
	"context"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

// TestReader counts hits that an agent has no use for: what says the same as one before, and what has been replaced,
// among the first ten and nowhere else.
func TestReader(t *testing.T) {
	t.Parallel()
	memory := func(id, content string) *triskelev1.Memory { return &triskelev1.Memory{Id: id, Content: content} }
	const said = "the quarterly report goes to the board on the first Monday of the month"
	set := &eval.Set{
		Memories: []*triskelev1.Memory{
			memory("1", said), memory("2", said), memory("3", "the kitchen is painted green and has two windows"), memory("4", "an old address that is no longer used"),
		},
		Documents: map[string]string{"1": "a", "2": "a again", "3": "b", "4": "old"},
		Queries:   []eval.Query{{ID: "q1", Stale: []string{"old"}}, {ID: "q2"}},
	}
	late := append(strings.Split("b"+strings.Repeat(" other", shown-1), " "), "old") // the eleventh is not read
	for name, c := range map[string]struct {
		rankings [][]string
		want     waste
	}{
		"nothing":     {[][]string{{"a", "b"}, {"b"}}, waste{}},
		"said again":  {[][]string{{"a again", "b", "a"}, {"b"}}, waste{duplicates: 0.5}},
		"replaced":    {[][]string{{"old", "b"}, {"b"}}, waste{stale: 0.5}},
		"of no query": {[][]string{{"b"}, {"old"}}, waste{}},
		"not read":    {[][]string{late, {"b"}}, waste{}},
	} {
		if got := newReader(set).read(c.rankings); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// counted is a leg that counts how often it is asked.
type counted struct {
	triskelev1.LegServiceClient
	searches, scores int
}

func (c *counted) Search(context.Context, *triskelev1.SearchRequest, ...grpc.CallOption) (*triskelev1.SearchResponse, error) {
	c.searches++
	return &triskelev1.SearchResponse{}, nil
}

func (c *counted) ScoreByIds(context.Context, *triskelev1.ScoreByIdsRequest, ...grpc.CallOption) (*triskelev1.ScoreByIdsResponse, error) {
	c.scores++
	return &triskelev1.ScoreByIdsResponse{}, nil
}

// TestRecordedLegsAreAskedOnce, each question of either kind.
func TestRecordedLegsAreAskedOnce(t *testing.T) {
	t.Parallel()
	leg := &counted{}
	r := record(leg)
	for range 3 {
		for _, query := range []string{"one", "two"} {
			if _, err := r.Search(t.Context(), &triskelev1.SearchRequest{Query: query}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.ScoreByIds(t.Context(), &triskelev1.ScoreByIdsRequest{Query: query}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if leg.searches != 2 || leg.scores != 2 {
		t.Errorf("asked %d and %d times, want 2 and 2", leg.searches, leg.scores)
	}
}

// TestDegradation: what is expected when each leg is lost in half of the recalls is the mean of all combinations, of which
// the one without any leg is worth nothing; and the ends are the whole system and nothing.
func TestDegradation(t *testing.T) {
	t.Parallel()
	set := &eval.Set{Name: "set"}
	whole := cell{name: "whole", of: "whole", policy: &triskelev1.RecallPolicy{}}
	s := &Study{Plan: &Plan{Degradation: "whole"}, cells: []cell{whole}, sets: []*eval.Set{set}, runs: map[run][]eval.Metrics{}}
	var sum float64
	for _, lost := range subsets(legNames()) {
		if len(lost) < len(legNames()) {
			value := 1 - 0.3*float64(len(lost))
			sum += value
			s.runs[run{"set", whole.without(lost...).name}] = []eval.Metrics{{Recall10: value}}
		}
	}
	curve := s.degradation()
	for at, want := range map[int]float64{0: 1, 5: sum / 8, 10: 0} {
		if got := curve[at].means["set"]["recall@10"]; math.Abs(got-want) > 1e-12 {
			t.Errorf("legs lost in %g of recalls: %g, want %g", curve[at].rate, got, want)
		}
	}
}
