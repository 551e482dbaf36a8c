package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// talk is a memory service whose memories a to z are one thread, and whose superseded memories have the given successors.
type talk struct {
	memories
	successors map[string]string
	broken     bool // the surroundings cannot be read
}

func (s talk) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	if s.broken && req.GetSurroundings() > 0 {
		return nil, status.Error(codes.Unavailable, "broken")
	}
	resp, err := s.memories.Get(ctx, req, options...)
	for _, m := range resp.GetMemories() {
		m.Thread, m.SupersededBy = "talk", s.successors[m.GetId()]
		if req.GetSurroundings() == 0 {
			continue
		}
		around := &triskelev1.Surroundings{}
		for i := int32(1); i <= req.GetSurroundings(); i++ {
			around.Before = append([]*triskelev1.Memory{{Id: string(rune(int32(m.GetId()[0]) - i))}}, around.Before...)
			around.After = append(around.After, &triskelev1.Memory{Id: string(rune(int32(m.GetId()[0]) + i))})
		}
		resp.Surroundings = append(resp.Surroundings, around)
	}
	return resp, err
}

func ids(memories []*triskelev1.Memory) string {
	var out []string
	for _, m := range memories {
		out = append(out, m.GetId())
	}
	return strings.Join(out, "")
}

// TestSurroundingsAreGivenOnce has three hits that stand near one another.
func TestSurroundingsAreGivenOnce(t *testing.T) {
	legs := []leg{finds(bm25, "f", "h", "p"), finds(cosine), finds(hops)}
	with := func(edit func(*triskelev1.RecallRequest)) func(*triskelev1.RecallRequest) {
		return func(r *triskelev1.RecallRequest) {
			if r.Surroundings = 2; edit != nil {
				edit(r)
			}
		}
	}
	resp, err := newGateway(t, talk{}, legs...).Recall(t.Context(), request(with(nil)))
	if err != nil || order(resp) != "f h p" {
		t.Fatalf("got %v, %v", resp, err)
	}
	for i, want := range []string{"de,g", ",ij", "no,qr"} {
		around := resp.GetHits()[i].GetSurroundings()
		if got := ids(around.GetBefore()) + "," + ids(around.GetAfter()); got != want {
			t.Errorf("beside hit %d: got %s, want %s", i+1, got, want)
		}
	}
	for name, x := range map[string]struct {
		memory talk
		edit   func(*triskelev1.RecallRequest)
	}{
		"not asked for": {talk{}, nil}, "ids only": {talk{}, with(func(r *triskelev1.RecallRequest) { r.IdsOnly = true })}, "broken": {talk{broken: true}, with(nil)},
	} {
		resp, err := newGateway(t, x.memory, legs...).Recall(t.Context(), request(x.edit))
		if err != nil || slices.ContainsFunc(resp.GetHits(), func(h *triskelev1.Hit) bool { return h.GetSurroundings() != nil }) {
			t.Errorf("%s: got %v, %v, want no surroundings", name, resp, err)
		}
		if broken := strings.Contains(resp.GetDegradedReason(), "stands beside"); broken != x.memory.broken {
			t.Errorf("%s: got the reason %q", name, resp.GetDegradedReason())
		}
	}
}

// TestSupersededRanksBelowItsSuccessor has a chain of three, of which the oldest has the best score.
func TestSupersededRanksBelowItsSuccessor(t *testing.T) {
	memory := talk{successors: map[string]string{"a": "b", "b": "d", "x": "gone"}}
	legs := []leg{finds(bm25, "a", "x", "b", "c", "d"), finds(cosine), finds(hops)}
	include := func(r *triskelev1.RecallRequest) { r.Filter = &triskelev1.Filter{IncludeSuperseded: true} }
	resp, err := newGateway(t, memory, legs...).Recall(t.Context(), request(include))
	if err != nil || order(resp) != "x c d b a" {
		t.Errorf("got %s, %v, want x c d b a", order(resp), err)
	}
	// With a time in the query, there are more winners than hits: what has no successor among the hits keeps its rank.
	resp, err = newGateway(t, memory, legs...).Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		include(r)
		r.Query, r.Limit = "what happened in May 2023?", new(int32(2))
	}))
	if err != nil || order(resp) != "a x" {
		t.Errorf("got %s, %v, want a x", order(resp), err)
	}
}

// A long chain takes no longer than its length, and a circle ends.
func TestLongChainOfSuccessors(t *testing.T) {
	const n = 1000
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("x%04d", i))
	}
	for _, circle := range []bool{false, true} {
		successors := map[string]string{}
		for i := range n - 1 {
			successors[ids[i]] = ids[i+1]
		}
		if circle {
			successors[ids[n-1]] = ids[0]
		}
		g := configured(t, func(c *gateway.Config) { c.Legs[0].Depth = n }, talk{successors: successors}, finds(bm25, ids...), finds(cosine), finds(hops))
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Limit, r.Explain, r.Budget = new(int32(n)), false, durationpb.New(10*time.Second)
			r.Filter = &triskelev1.Filter{IncludeSuperseded: true}
		}))
		if err != nil || len(resp.GetHits()) != n {
			t.Fatalf("circle %v: got %d hits, %v; want %d", circle, len(resp.GetHits()), err, n)
		}
		if got := resp.GetHits()[0].GetId(); got != ids[n-1] {
			t.Errorf("circle %v: first is %s, want %s", circle, got, ids[n-1])
		}
	}
}
