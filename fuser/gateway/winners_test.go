package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

func diverse(resemblance float64) func(*triskelev1.RecallRequest) {
	return func(r *triskelev1.RecallRequest) {
		r.Diversity, r.Limit = &triskelev1.Diversity{Resemblance: resemblance}, new(int32(2))
	}
}

func TestDuplicatesAreLeftOut(t *testing.T) {
	memory := memories{texts: map[string]string{
		"a": "The crane is serviced in spring.", "b": "the crane is serviced in spring", "c": "The crane is serviced in spring again.", "d": "Deploys are frozen.",
	}}
	legs := []leg{finds(bm25, "a", "b", "c", "d", "e"), finds(cosine), finds(hops)}
	for name, x := range map[string]struct {
		edit   func(*triskelev1.RecallRequest)
		memory memories
		legs   []leg
		order  string
		gone   string // in favour of the first
	}{
		"off":               {edit: diverse(0), order: "a b"},
		"the same words":    {edit: diverse(1), order: "a c", gone: "b 2 1.00"},
		"nearly the same":   {edit: diverse(.8), order: "a d", gone: "b 2 1.00, c 3 0.80"},
		"ids only":          {edit: func(r *triskelev1.RecallRequest) { diverse(.8)(r); r.IdsOnly = true }, order: "a d", gone: "b 2 1.00, c 3 0.80"},
		"one is forgotten":  {edit: diverse(.8), memory: memories{texts: memory.texts, forgotten: []string{"b", "d"}}, order: "a e", gone: "c 2 0.80"},
		"contents are gone": {edit: diverse(.8), memory: memories{down: true}, order: "a b"},
		"with a least score": {edit: func(r *triskelev1.RecallRequest) {
			diverse(.8)(r)
			r.MinScore = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_RRF, Value: .85 / 63.5}
		}, order: "a", gone: "b 2 1.00, c 3 0.80"},
		// The quota holds among the best, whose rest is looked at when one of them goes.
		"with a quota": {edit: func(r *triskelev1.RecallRequest) {
			diverse(.8)(r)
			r.Legs = map[string]*triskelev1.LegOptions{"graph": {Quota: new(int32(1))}}
		}, legs: []leg{finds(bm25, "a", "b", "c", "d"), finds(cosine), finds(hops, "x")}, order: "a x"},
	} {
		if x.memory.texts == nil && !x.memory.down {
			x.memory = memory
		}
		if x.legs == nil {
			x.legs = legs
		}
		resp, err := newGateway(t, x.memory, x.legs...).Recall(t.Context(), request(x.edit))
		if err != nil || order(resp) != x.order {
			t.Errorf("%s: %v, %v", name, resp, err)
			continue
		}
		var gone []string
		for _, d := range resp.GetHits()[0].GetDuplicates() {
			gone = append(gone, fmt.Sprintf("%s %d %.2f", d.GetId(), d.GetFusedRank(), d.GetResemblance()))
		}
		if got := strings.Join(gone, ", "); got != x.gone {
			t.Errorf("%s: left out %s, want %s", name, got, x.gone)
		}
	}
	g := configured(t, func(c *gateway.Config) {
		c.Policies = map[string]*triskelev1.RecallPolicy{"n": {Diversity: &triskelev1.Diversity{Resemblance: .8}}}
	}, memory, legs...)
	if resp, err := g.Recall(t.Context(), request(nil)); err != nil || order(resp) != "a d e" {
		t.Errorf("by policy: %v, %v", resp, err)
	}
	if resp, err := g.Recall(t.Context(), request(diverse(0))); err != nil || order(resp) != "a b" {
		t.Errorf("switched off by the request: %v, %v", resp, err)
	}
}

// Of two that say the same, the one that was superseded is left out, whatever its rank.
func TestSupersededAreTheDuplicates(t *testing.T) {
	memory := talk{memories: memories{texts: map[string]string{
		"a": "The crane is serviced in May.", "b": "the crane is serviced in May", "c": "The crane is serviced in May!", "d": "Deploys are frozen.",
		"f": "deploys are frozen", // neither is superseded
	}}, successors: map[string]string{"a": "c", "b": "c"}}
	legs := []leg{finds(bm25, "a", "b", "d", "c", "f", "e"), finds(cosine), finds(hops)}
	recall := func(superseded bool) *triskelev1.RecallResponse {
		resp, err := newGateway(t, memory, legs...).Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			diverse(1)(r)
			r.Limit, r.Filter = new(int32(3)), &triskelev1.Filter{IncludeSuperseded: superseded}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	resp := recall(true)
	if order(resp) != "d c e" {
		t.Fatalf("got %s, want d c e", order(resp))
	}
	var gone []string
	for _, d := range resp.GetHits()[1].GetDuplicates() {
		gone = append(gone, d.GetId())
	}
	if !slices.Equal(gone, []string{"b", "a"}) {
		t.Errorf("left out are %v, want b and a", gone)
	}
	if resp := recall(false); order(resp) != "a d e" { // as of a time at which it held
		t.Errorf("not asked for: got %s, want a d e", order(resp))
	}
}

// counting counts the calls for contents and the most ids of one.
type counting struct {
	memories
	calls, most *int
}

func (c counting) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	*c.calls, *c.most = *c.calls+1, max(*c.most, len(req.GetIds()))
	return c.memories.Get(ctx, req, options...)
}

// However many say the same, the answer is filled from below.
func TestDuplicatesAreReplaced(t *testing.T) {
	texts := map[string]string{}
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprintf("x%02d", i))
		if i < 45 {
			texts[ids[i]] = "always the same"
		}
	}
	var calls, most int
	g := newGateway(t, counting{memories{texts: texts}, &calls, &most}, finds(bm25, ids...), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		diverse(1)(r)
		r.Limit = new(int32(4))
	}))
	if err != nil || order(resp) != "x00 x45 x46 x47" || len(resp.GetHits()[0].GetDuplicates()) != 44 {
		t.Errorf("%v, %v", resp, err)
	}
	if calls != 6 || most != 8 {
		t.Errorf("%d calls, of %d ids at most", calls, most)
	}
}

// A thousand long texts take seconds to compare: only those are compared that the budget has time for.
func TestDuplicatesAreLookedForInTime(t *testing.T) {
	texts, ids := map[string]string{}, make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("x%03d", i)
		texts[ids[i]] = strings.Repeat("one two three four five six seven eight ", 1500)
	}
	resp, err := newGateway(t, memories{texts: texts}, finds(bm25, ids...), finds(cosine), finds(hops)).Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		diverse(1)(r)
		r.Limit, r.Budget = new(int32(len(ids))), durationpb.New(200*time.Millisecond)
		r.Legs = map[string]*triskelev1.LegOptions{"lexical": {Depth: new(int32(len(ids)))}}
	}))
	if err != nil || len(resp.GetHits()) == 0 {
		t.Fatalf("%v, %v, want hits", resp, err)
	}
	if compared := len(resp.GetHits()[0].GetDuplicates()); compared == len(ids)-1 || resp.GetContents().GetState() != triskelev1.LegState_LEG_STATE_OK {
		t.Errorf("%d of %d texts were compared, contents %v", compared, len(ids), resp.GetContents())
	}
}

// Duplicates take no place among what is reranked.
func TestDuplicatesAreNotReranked(t *testing.T) {
	memory := memories{texts: map[string]string{"a": "the same text, a", "b": "the same text, a", "c": "another text, c", "d": "a third text, d", "e": "a fourth text, e"}}
	g := configured(t, func(c *gateway.Config) {
		judged(last(0))(c)
		c.Rerank.Top = 3
	}, memory, finds(bm25, "a", "b", "c", "d", "e"), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		reranked(r)
		diverse(1)(r)
		r.Limit = new(int32(4))
	}))
	if err != nil || order(resp) != "d c a e" || resp.GetRerank().GetReranked() != 3 {
		t.Errorf("%v, %v", resp, err)
	}
}

// An answer of the memory service is limited, so large parts are fetched apart.
func TestContentsAreFetchedInParts(t *testing.T) {
	var ids []string
	for i := range 250 {
		ids = append(ids, fmt.Sprintf("x%03d", i))
	}
	var mu sync.Mutex
	var calls, most int
	g := configured(t, func(c *gateway.Config) { c.Legs[0].Depth = 250 }, oneByOne{counting{memories{}, &calls, &most}, &mu}, finds(bm25, ids...), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Limit = new(int32(250)) }))
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range resp.GetHits() {
		if want := "content of " + ids[i]; h.GetMemory().GetContent() != want {
			t.Fatalf("hit %d: got %q, want %q", i, h.GetMemory().GetContent(), want)
		}
	}
	if len(resp.GetHits()) != 250 || calls != 3 || most != 100 {
		t.Errorf("got %d hits by %d calls of %d ids at most, want 250 by 3 of 100", len(resp.GetHits()), calls, most)
	}
}

// oneByOne makes calls one after the other.
type oneByOne struct {
	counting
	mu *sync.Mutex
}

func (o oneByOne) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counting.Get(ctx, req, options...)
}
