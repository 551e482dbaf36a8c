package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/revision"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// ledger is a memory service whose namespaces have revisions, and whose memories expire.
type ledger struct {
	memories
	revision   map[string]string // "1" if absent
	unindexed  bool
	down, slow bool
	expires    time.Time
}

func (l *ledger) GetNamespace(ctx context.Context, req *triskelev1.GetNamespaceRequest, _ ...grpc.CallOption) (*triskelev1.GetNamespaceResponse, error) {
	switch {
	case l.down:
		return nil, status.Error(codes.Unavailable, "down")
	case l.slow:
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	resp := &triskelev1.GetNamespaceResponse{Namespace: req.GetNamespace(), Revision: "1", Indexed: !l.unindexed}
	if r, ok := l.revision[req.GetNamespace()]; ok {
		resp.Revision = r
	}
	return resp, nil
}

func (l *ledger) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	resp, err := l.memories.Get(ctx, req, options...)
	if !l.expires.IsZero() {
		for _, m := range resp.GetMemories() {
			m.ExpiresAt = timestamppb.New(l.expires)
		}
	}
	return resp, err
}

func remembering(c *gateway.Config) { c.Cache = gateway.CacheConfig{Bytes: 1 << 20, TTL: time.Minute} }

// TestAnswersAreRemembered asks twice, with something between, on a fake clock. Only when nothing that matters is different,
// the second answer is the first.
func TestAnswersAreRemembered(t *testing.T) {
	lexical := after(10*ms, bm25, "a", "b")
	for name, x := range map[string]struct {
		again   bool // the same answer is given again
		first   func(*triskelev1.RecallRequest)
		second  func(*triskelev1.RecallRequest)
		memory  ledger
		between func(*ledger)
		config  func(*gateway.Config)
		legs    []leg
	}{
		"the same":                {again: true},
		"with another budget":     {again: true, second: func(r *triskelev1.RecallRequest) { r.Budget = durationpb.New(50 * ms) }},
		"with spans":              {again: true, second: func(r *triskelev1.RecallRequest) { r.ReturnSpans = true }},
		"a moment before its end": {again: true, between: func(*ledger) { time.Sleep(time.Minute - 31*ms) }},
		"at its end":              {between: func(*ledger) { time.Sleep(time.Minute) }},
		"asked for anew":          {second: func(r *triskelev1.RecallRequest) { r.Fresh = true }},
		"made anew":               {again: true, first: func(r *triskelev1.RecallRequest) { r.Fresh = true }, second: func(r *triskelev1.RecallRequest) { r.Fresh = false }},
		"another query":           {second: func(r *triskelev1.RecallRequest) { r.Query = "another" }},
		"another namespace":       {second: func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"m"} }},
		"another limit":           {second: func(r *triskelev1.RecallRequest) { r.Limit = new(int32(9)) }},
		"another filter":          {second: func(r *triskelev1.RecallRequest) { r.Filter = &triskelev1.Filter{TagsAny: []string{"x"}} }},
		"another order":           {second: func(r *triskelev1.RecallRequest) { r.SortBy = triskelev1.SortBy_SORT_BY_RECENCY }},
		"another weight": {second: func(r *triskelev1.RecallRequest) {
			r.Legs = map[string]*triskelev1.LegOptions{"dense": {Weight: new(.5)}}
		}},
		"without an explanation": {second: func(r *triskelev1.RecallRequest) { r.Explain = false }},
		"a leg that must answer": {second: func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"dense"} }},
		"at least a write": {second: func(r *triskelev1.RecallRequest) {
			r.AtLeast = []string{revision.Token{Namespace: "n", Sequence: 1}.String()}
		}},
		"after a write":               {between: func(l *ledger) { l.revision = map[string]string{"n": "2"} }},
		"after a write elsewhere":     {again: true, between: func(l *ledger) { l.revision = map[string]string{"m": "2"} }},
		"after a write to the second": {first: func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"n", "m"} }, between: func(l *ledger) { l.revision = map[string]string{"m": "2"} }},
		"both as they were":           {again: true, first: func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"n", "m"} }},
		"the revision is unknown":     {between: func(l *ledger) { l.down = true }},
		"was unknown":                 {memory: ledger{down: true}, between: func(l *ledger) { l.down = false }},
		"of a memory service of old":  {memory: ledger{revision: map[string]string{"n": ""}}},
		"before an index caught up":   {memory: ledger{unindexed: true}},
		"before it expires":           {again: true, memory: ledger{expires: time.Unix(0, 0).Add(time.Hour * 24 * 365 * 100)}},
		"ids only":                    {first: func(r *triskelev1.RecallRequest) { r.IdsOnly = true }},
		"as old as they are": {first: func(r *triskelev1.RecallRequest) {
			r.Recency = &triskelev1.Recency{Weight: .1, HalfLife: durationpb.New(time.Hour)}
		}},
		"with a sensitive memory": {memory: ledger{memories: memories{sensitive: []string{"b"}}}},
		"with a sensitive one left out": {memory: ledger{memories: memories{sensitive: []string{"b"}}}, first: func(r *triskelev1.RecallRequest) {
			r.MinScore, r.ReturnLeftOut = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_RRF, Value: 1}, 10
		}},
		"before one that is left out expires": {memory: ledger{expires: time.Unix(0, 0)}, first: func(r *triskelev1.RecallRequest) {
			r.MinScore, r.ReturnLeftOut = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_RRF, Value: 1}, 10
		}},
		"with contents missing":        {memory: ledger{memories: memories{down: true}}},
		"with a leg that fails":        {legs: []leg{lexical, fails(codes.Unavailable), finds(hops)}},
		"with a leg that is late":      {legs: []leg{lexical, after(time.Hour, cosine), finds(hops)}},
		"with a leg that says nothing": {again: true, legs: []leg{lexical, answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_ABSTAINED}), finds(hops)}},
		"with a leg that fell back":    {legs: []leg{lexical, answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_FALLBACK}), finds(hops)}},
		"with an index that lags":      {legs: []leg{lexical, answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK, Behind: 1}), finds(hops)}},
		"with a score missing":         {first: merged(convex), legs: []leg{lexical, finds(cosine, "c"), finds(hops)}},
		"with every score":             {again: true, first: merged(convex), legs: []leg{lexical, finds(cosine, "c").scores(ms, cosine, nil), finds(hops)}},
		"with a reranker that fails":   {first: reranked, config: judged(last(time.Hour))},
		"with a reranker":              {again: true, first: reranked, config: judged(last(ms))},
		"switched off":                 {config: func(c *gateway.Config) { c.Cache = gateway.CacheConfig{} }},
		"without room":                 {config: func(c *gateway.Config) { c.Cache.Bytes = 300 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				legs := []leg{lexical, finds(cosine, "b"), finds(hops)}
				if x.legs != nil {
					legs = x.legs
				}
				g := configured(t, func(c *gateway.Config) {
					remembering(c)
					if x.config != nil {
						x.config(c)
					}
				}, &x.memory, legs...)
				req := request(x.first)
				first, err := g.Recall(t.Context(), req)
				if err != nil || first.GetAge() != nil {
					t.Fatalf("%v, %v", first, err)
				}
				time.Sleep(20 * ms)
				if x.between != nil {
					x.between(&x.memory)
				}
				if x.second != nil {
					x.second(req)
				}
				start := time.Now()
				second, err := g.Recall(t.Context(), req)
				if err != nil || (second.GetAge() != nil) != x.again {
					t.Fatalf("%v, %v", second, err)
				}
				if !x.again {
					return
				}
				if took := time.Since(start); took != 0 || second.GetAge().AsDuration() < 20*ms || second.GetSpent().AsDuration() != 0 {
					t.Errorf("took %v: %v", took, second)
				}
				if b := req.GetBudget(); !proto.Equal(second.GetBudget(), b) {
					t.Errorf("budget %v, asked for %v", second.GetBudget(), b)
				}
				for _, resp := range []*triskelev1.RecallResponse{first, second} {
					resp.Age, resp.Spent, resp.Budget, resp.TraceId = nil, nil, nil, ""
				}
				if !proto.Equal(first, second) {
					t.Errorf("again: %v\nat first: %v", second, first)
				}
			})
		})
	}
}

// An answer is forgotten when the first of its memories expires.
func TestAnswersExpireWithTheirMemories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &ledger{expires: time.Now().Add(5 * time.Second)}
		g := configured(t, remembering, memory, finds(bm25, "a"), finds(cosine), finds(hops))
		for _, wait := range []time.Duration{0, 5*time.Second - ms, ms} {
			time.Sleep(wait)
			resp, err := g.Recall(t.Context(), request(nil))
			if err != nil || (resp.GetAge() != nil) != (wait > ms) {
				t.Errorf("after %v: %v, %v", wait, resp, err)
			}
		}
	})
}

// A memory service that does not answer costs a tenth of the budget, and the legs have the rest of theirs.
func TestSlowRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := configured(t, remembering, &ledger{slow: true}, after(time.Hour, bm25), finds(cosine, "a"), finds(hops))
		start := time.Now()
		resp, err := g.Recall(t.Context(), request(nil))
		if err != nil || time.Since(start) != 80*ms || resp.GetLegs()[0].GetBudget().AsDuration() != 70*ms {
			t.Errorf("%v, %v after %v", resp, err, time.Since(start))
		}
	})
}

// However many are asked, what is cached stays within bounds, and an answer that is asked for again and again stays.
func TestCacheIsBounded(t *testing.T) {
	var asked atomic.Int64
	g := configured(t, func(c *gateway.Config) { c.Cache = gateway.CacheConfig{Bytes: 20_000, TTL: time.Hour} }, &ledger{},
		counted(&asked, func(int64) leg { return finds(bm25, "a", "b") }), finds(cosine), finds(hops))
	ask := func(i int) (cached bool) {
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Query = fmt.Sprint(i, strings.Repeat("x", 1000)) }))
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetAge() != nil
	}
	for i := range 100 {
		if ask(i) {
			t.Fatalf("answer %d is cached before it was asked for", i)
		}
		if cached := ask(0); !cached {
			t.Fatalf("answer 0 is not cached after %d others, although it was asked for after each", i)
		}
	}
	kept := 0
	for i := range 100 {
		before := asked.Load()
		if ask(i); asked.Load() == before {
			kept++
		}
	}
	if kept < 1 || kept > 20 {
		t.Errorf("got %d of 100 answers cached in 20,000 bytes, want 1 to 20", kept)
	}
}
