package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const ms = time.Millisecond

// leg is a leg client made of a function.
type leg struct {
	triskelev1.LegServiceClient
	search func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error)
	score  func(ctx context.Context, req *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error)
}

func (l leg) ScoreByIds(ctx context.Context, req *triskelev1.ScoreByIdsRequest, _ ...grpc.CallOption) (*triskelev1.ScoreByIdsResponse, error) {
	if l.score == nil {
		return nil, status.Error(codes.Unimplemented, "cannot")
	}
	return l.score(ctx, req)
}

func (l leg) Search(ctx context.Context, req *triskelev1.SearchRequest, _ ...grpc.CallOption) (*triskelev1.SearchResponse, error) {
	return l.search(ctx, req)
}

// finds answers at once with ids in order.
func finds(kind triskelev1.ScoreKind, ids ...string) leg {
	return after(0, kind, ids...)
}

// after answers when d has passed, or gives up with its context.
func after(d time.Duration, kind triskelev1.ScoreKind, ids ...string) leg {
	return leg{search: func(ctx context.Context, _ *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		if d > 0 { // a timer due at once, in several goroutines of a bubble, crashes the race detector of Go 1.26
			select {
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			case <-time.After(d):
			}
		}
		resp := &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: kind}
		for i, id := range ids {
			resp.Hits = append(resp.Hits, &triskelev1.LegHit{Id: id, Rank: int32(i + 1), Score: float64(len(ids) - i), Importance: .5, CreatedAt: timestamppb.New(time.Unix(0, 0))})
		}
		return resp, nil
	}}
}

func fails(code codes.Code) leg {
	return leg{search: func(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		return nil, status.Error(code, "secret internals of the leg")
	}}
}

func answers(resp *triskelev1.SearchResponse) leg {
	return leg{search: func(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) { return resp, nil }}
}

// memories serves contents: every id but those in forgotten exists, in namespaces "n", "m" and "unreadable", where Get
// fails.
type memories struct {
	triskelev1.MemoryServiceClient
	forgotten, sensitive []string
	texts                map[string]string // other than "content of " and the id
	down                 bool
}

func (m memories) Get(_ context.Context, req *triskelev1.GetRequest, _ ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	if m.down {
		return nil, status.Error(codes.Unavailable, "down")
	}
	if req.GetNamespace() == "unreadable" {
		return nil, status.Error(codes.Internal, "internal error; the server's log has the cause")
	}
	resp := &triskelev1.GetResponse{}
	for _, id := range req.GetIds() {
		if !slices.Contains(m.forgotten, id) {
			content, other := m.texts[id]
			if !other {
				content = "content of " + id
			}
			resp.Memories = append(resp.Memories, &triskelev1.Memory{Id: id, Content: content, Sensitive: slices.Contains(m.sensitive, id)})
			if req.GetQuery() != "" {
				resp.Matches = append(resp.Matches, &triskelev1.Matches{Content: []*triskelev1.TextRange{{Start: 11, End: int32(11 + len(id))}}})
			}
		}
	}
	return resp, nil
}

func (m memories) GetNamespace(_ context.Context, req *triskelev1.GetNamespaceRequest, _ ...grpc.CallOption) (*triskelev1.GetNamespaceResponse, error) {
	switch {
	case m.down:
		return nil, status.Error(codes.Unavailable, "down")
	case req.GetNamespace() == "nowhere":
		return nil, status.Error(codes.NotFound, "unknown")
	}
	return &triskelev1.GetNamespaceResponse{Namespace: req.GetNamespace()}, nil
}

func newGateway(t *testing.T, memory triskelev1.MemoryServiceClient, legs ...leg) *gateway.Gateway {
	t.Helper()
	return configured(t, nil, memory, legs...)
}

// configured is newGateway with another configuration.
func configured(t testing.TB, edit func(*gateway.Config), memory triskelev1.MemoryServiceClient, legs ...leg) *gateway.Gateway {
	t.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.DefaultConfig()
	config.Fusion.Method, config.Fusion.K = "rrf", 60 // by which answers are easily computed by hand
	config.Legs = gateway.DefaultLegs(nil)
	if edit != nil {
		edit(&config)
	}
	clients := make([]triskelev1.LegServiceClient, len(legs))
	for i, l := range legs {
		clients[i] = l
	}
	g, err := gateway.New(config, clients, memory, process.Service("fuser"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func request(edit func(*triskelev1.RecallRequest)) *triskelev1.RecallRequest {
	req := &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "q", Budget: durationpb.New(100 * ms), Explain: true}
	if edit != nil {
		edit(req)
	}
	return req
}

func order(resp *triskelev1.RecallResponse) string {
	var out []string
	for _, h := range resp.GetHits() {
		out = append(out, h.GetId())
	}
	return strings.Join(out, " ")
}

func states(resp *triskelev1.RecallResponse) string {
	var out []string
	for _, l := range resp.GetLegs() {
		out = append(out, strings.TrimPrefix(l.GetState().String(), "LEG_STATE_"))
	}
	return strings.Join(out, " ")
}

const (
	bm25   = triskelev1.ScoreKind_SCORE_KIND_BM25
	cosine = triskelev1.ScoreKind_SCORE_KIND_COSINE
	hops   = triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY
)

func TestRecallFusesAllLegs(t *testing.T) {
	g := newGateway(t, memories{}, finds(bm25, "a", "b"), finds(cosine, "b", "c"), finds(hops, "c"))
	resp, err := g.Recall(t.Context(), request(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := order(resp); got != "b c a" {
		t.Errorf("order %q", got)
	}
	if resp.GetDegraded() || states(resp) != "OK OK OK" || resp.GetScoreScale() != triskelev1.ScoreScale_SCORE_SCALE_RRF || resp.GetFusion().GetK() != 60 {
		t.Errorf("response %v", resp)
	}
	for i, h := range resp.GetHits() {
		sum := 0.
		for _, c := range h.GetContributions() {
			sum += c.GetValue()
			if want := h.GetPrior() * c.GetWeight() / (60 + float64(c.GetRank())); math.Abs(c.GetValue()-want) > 1e-15 {
				t.Errorf("%s: %s contributes %v, printed numbers give %v", h.GetId(), c.GetLeg(), c.GetValue(), want)
			}
		}
		if sum != h.GetScore() || h.GetRank() != int32(i+1) || h.GetMemory().GetContent() != "content of "+h.GetId() {
			t.Errorf("hit %v", h)
		}
		if !strings.Contains(h.GetWhy(), "“"+h.GetId()+"”") {
			t.Errorf("%s: got the words %q, want its match quoted", h.GetId(), h.GetWhy())
		}
		if m := h.GetMatches().GetContent(); len(m) != 1 || int(m[0].GetEnd()) != len(h.GetMemory().GetContent()) {
			t.Errorf("%s: matches %v", h.GetId(), m)
		}
	}
	plain, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Explain = false }))
	if err != nil || plain.GetHits()[0].GetMatches() != nil || plain.GetHits()[0].GetWhy() != "" {
		t.Errorf("without explain: %v, %v", plain, err)
	}
}

// TestEveryCombinationOfFaults runs every way a leg can end against every other, on a fake clock: the answer has the
// states it must have, contains exactly what the live legs found, and takes exactly as long as it must.
func TestEveryCombinationOfFaults(t *testing.T) {
	const legBudget = 80 * ms // of 100 ms, after the reserve
	faults := []struct {
		name  string
		make  func(id string) leg
		state string
		takes time.Duration
	}{
		{"ok", func(id string) leg { return after(10*ms, bm25, id) }, "OK", 10 * ms},
		{"late by 1 ms", func(id string) leg { return after(legBudget+ms, bm25, id) }, "TIMED_OUT", legBudget},
		{"hangs", func(id string) leg { return after(time.Hour, bm25, id) }, "TIMED_OUT", legBudget},
		{"dead", func(string) leg { return fails(codes.Unavailable) }, "FAILED", 0},
		{"internal error", func(string) leg { return fails(codes.Internal) }, "FAILED", 0},
		{"panics", func(string) leg {
			return leg{search: func(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) { panic("boom") }}
		}, "FAILED", 0},
		{"abstains", func(string) leg {
			return answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Reason: "nothing linked"})
		}, "ABSTAINED", 0},
	}
	for _, a := range faults {
		for _, b := range faults {
			for _, c := range faults {
				t.Run(a.name+"/"+b.name+"/"+c.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						g := newGateway(t, memories{}, a.make("a"), b.make("b"), c.make("c"))
						start := time.Now()
						resp, err := g.Recall(t.Context(), request(nil))
						if took, want := time.Since(start), max(a.takes, b.takes, c.takes); took != want {
							t.Errorf("took %v, want %v", took, want)
						}
						var want []string
						degraded := false
						for i, fault := range []string{a.state, b.state, c.state} {
							if fault == "OK" {
								want = append(want, string("abc"[i]))
							}
							degraded = degraded || fault == "TIMED_OUT" || fault == "FAILED"
						}
						if len(want) == 0 && degraded {
							if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") {
								t.Fatalf("error %v", err)
							}
							return
						}
						if err != nil {
							t.Fatal(err)
						}
						if got := states(resp); got != strings.Join([]string{a.state, b.state, c.state}, " ") {
							t.Errorf("states %q", got)
						}
						if got := order(resp); got != strings.Join(want, " ") {
							t.Errorf("hits %q, want %q", got, want)
						}
						if resp.GetDegraded() != degraded || (resp.GetDegradedReason() != "") != degraded || strings.Contains(resp.String(), "secret") {
							t.Errorf("degraded %v: %s", resp.GetDegraded(), resp.GetDegradedReason())
						}
					})
				})
			}
		}
	}
}

func TestCallersDeadlineBoundsTheLegs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given time.Duration
		spy := leg{search: func(ctx context.Context, _ *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			deadline, _ := ctx.Deadline()
			given = time.Until(deadline)
			return &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK}, nil
		}}
		g := newGateway(t, memories{}, spy, finds(cosine), finds(hops))
		ctx, cancel := context.WithTimeout(t.Context(), 20*ms)
		defer cancel()
		if _, err := g.Recall(ctx, request(func(r *triskelev1.RecallRequest) { r.Budget = nil })); err != nil {
			t.Fatal(err)
		}
		if given != 16*ms {
			t.Errorf("the leg got %v of the caller's 20 ms", given)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 3*ms)
		defer cancel()
		if _, err := g.Recall(ctx, request(nil)); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("3 ms: %v", err)
		}
	})
}

func TestOverridesPerLeg(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var depth int32
		var scorer triskelev1.Scorer
		lexical := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			depth, scorer = req.GetDepth(), req.GetScorer()
			return finds(bm25, "a", "b").search(ctx, req)
		}}
		g := newGateway(t, memories{}, lexical, finds(cosine, "b", "c"), after(30*ms, hops, "c"))
		off, weight, three := false, 2., int32(3)
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Legs = map[string]*triskelev1.LegOptions{
				"lexical": {Weight: &weight, Depth: &three, Scorer: triskelev1.Scorer_SCORER_TS_RANK},
				"dense":   {Enabled: &off},
				"graph":   {Deadline: durationpb.New(5 * ms)},
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		if states(resp) != "OK SKIPPED TIMED_OUT" || order(resp) != "a b" || depth != 3 || scorer != triskelev1.Scorer_SCORER_TS_RANK {
			t.Errorf("states %q, order %q, depth %d", states(resp), order(resp), depth)
		}
		if w := resp.GetHits()[0].GetContributions()[0].GetWeight(); w != 2 {
			t.Errorf("weight %v", w)
		}
		if strings.Contains(resp.GetDegradedReason(), "dense") || !strings.Contains(resp.GetDegradedReason(), "graph") {
			t.Errorf("a leg the caller switched off is not degradation, a late one is: %s", resp.GetDegradedReason())
		}
		if b := resp.GetLegs()[2].GetBudget().AsDuration(); b != 5*ms {
			t.Errorf("graph's budget %v", b)
		}
	})
}

// TestLimitBeyondTheDepth: one leg alone must be able to fill the answer.
func TestLimitBeyondTheDepth(t *testing.T) {
	var depth int32
	ids := make([]string, 120)
	for i := range ids {
		ids[i] = fmt.Sprint("id", i)
	}
	lexical := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		depth = req.GetDepth()
		return finds(bm25, ids[:min(depth, 120)]...).search(ctx, req)
	}}
	g := newGateway(t, memories{}, lexical, finds(cosine, ids[:3]...), finds(hops, ids[:3]...))
	for name, x := range map[string]struct {
		limit, given int32
		depth        int32
		hits         int
	}{
		"within it":              {limit: 10, depth: 50, hits: 10},
		"beyond it":              {limit: 100, depth: 100, hits: 100},
		"more than there is":     {limit: 1000, depth: 1000, hits: 120},
		"beyond a request's own": {limit: 100, given: 20, depth: 20, hits: 20},
	} {
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Limit = &x.limit
			if x.given > 0 {
				r.Legs = map[string]*triskelev1.LegOptions{"lexical": {Depth: &x.given}}
			}
		}))
		if err != nil || depth != x.depth || len(resp.GetHits()) != x.hits {
			t.Errorf("%s: got a depth of %d and %d hits, want %d and %d (%v)", name, depth, len(resp.GetHits()), x.depth, x.hits, err)
		}
	}
}

func TestRequiredLeg(t *testing.T) {
	g := newGateway(t, memories{}, finds(bm25, "a"), fails(codes.Unavailable), finds(hops))
	_, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"dense"} }))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "dense") {
		t.Errorf("error %v", err)
	}
	if _, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"lexical", "graph"} })); err != nil {
		t.Errorf("both are there: %v", err)
	}
}

func TestInvalidRequests(t *testing.T) {
	off := false
	disabled := &triskelev1.LegOptions{Enabled: &off}
	g := newGateway(t, memories{}, finds(bm25), finds(cosine), finds(hops))
	for name, x := range map[string]struct {
		edit func(*triskelev1.RecallRequest)
		want string
	}{
		"unknown leg":          {func(r *triskelev1.RecallRequest) { r.Legs = map[string]*triskelev1.LegOptions{"psychic": {}} }, "psychic"},
		"unknown required leg": {func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"lexical", "psychic"} }, "required_legs[1]"},
		"all legs off": {func(r *triskelev1.RecallRequest) {
			r.Legs = map[string]*triskelev1.LegOptions{"lexical": disabled, "dense": disabled, "graph": disabled}
		}, "legs"},
		"unknown namespace": {func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"n", "nowhere"} }, "namespaces[1]"},
	} {
		if _, err := g.Recall(t.Context(), request(x.edit)); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g = newGateway(t, memories{}, finds(bm25, "a"), fails(codes.InvalidArgument), finds(hops))
	if _, err := g.Recall(t.Context(), request(nil)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a leg that refuses the request: %v", err)
	}
}

func TestAtLeast(t *testing.T) {
	of := func(namespace string, sequence int64) string {
		return revision.Token{Namespace: namespace, Sequence: sequence}.String()
	}
	var mu sync.Mutex
	got := map[string]string{}
	dense := leg{search: func(_ context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		got[req.GetNamespace()] = req.GetAtLeast()
		return &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Behind: 12, Stale: req.GetAtLeast() != ""}, nil
	}}
	g := newGateway(t, memories{}, finds(bm25, "a"), dense, finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.Namespaces, r.AtLeast = []string{"n", "m"}, []string{of("m", 7)}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got["m"] != of("m", 7) || got["n"] != "" {
		t.Errorf("tokens %q", got)
	}
	if want := "This recall is incomplete: the dense leg does not know of the latest writes to m yet (12 behind)."; !resp.GetDegraded() || resp.GetDegradedReason() != want {
		t.Errorf("degraded %v: %s", resp.GetDegraded(), resp.GetDegradedReason())
	}
	for _, l := range resp.GetLegs() {
		isDense := l.GetLeg() == "dense"
		if l.GetStale() != (isDense && l.GetNamespace() == "m") || (l.GetBehind() == 12) != isDense {
			t.Errorf("report %v", l)
		}
	}
	for name, x := range map[string]struct {
		tokens []string
		want   string
	}{
		"no token":          {[]string{of("n", 1), "newest"}, "at_least[1]: must be a revision token"},
		"foreign namespace": {[]string{of("m", 1)}, "at_least[0]: must be a revision token of one of the request's namespaces"},
		"two":               {[]string{of("n", 1), of("n", 2)}, `at_least[1]: must be the only revision token of namespace "n"`},
	} {
		_, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.AtLeast = x.tokens }))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlySpaceIsNoQuery(t *testing.T) {
	g := newGateway(t, memories{}, finds(bm25, "a"), finds(cosine), finds(hops))
	blank := func(r *triskelev1.RecallRequest) { r.Query = " \t\n\u00a0\u200b\ufeff\u2060" }
	if _, err := g.Recall(t.Context(), request(blank)); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "query: must have more than white space") {
		t.Errorf("got %v", err)
	}
	vector := func(r *triskelev1.RecallRequest) { blank(r); r.Vector = []float32{1} }
	if resp, err := g.Recall(t.Context(), request(vector)); err != nil || order(resp) != "a" {
		t.Errorf("with a vector: got %v, %v", resp, err)
	}
}

func TestNothingFoundIsNoError(t *testing.T) {
	g := newGateway(t, memories{}, finds(bm25), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(nil))
	if err != nil || len(resp.GetHits()) != 0 || resp.GetDegraded() {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestMemoryServiceDownLeavesIDs(t *testing.T) {
	g := newGateway(t, memories{down: true}, finds(bm25, "a"), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(nil))
	if err != nil || order(resp) != "a" || resp.GetHits()[0].GetMemory() != nil || !resp.GetDegraded() {
		t.Errorf("%v, %v", resp, err)
	}
}

// Contents that cannot be read are said to be missing, and those of other namespaces come all the same.
func TestUnreadableContentsAreNotPassedOver(t *testing.T) {
	g := newGateway(t, memories{forgotten: []string{"b"}}, finds(bm25, "a", "b"), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"n", "unreadable"} }))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, h := range resp.GetHits() {
		got[h.GetNamespace()+" "+h.GetId()] = h.GetMemory() != nil
	}
	if want := map[string]bool{"n a": true, "unreadable a": false, "unreadable b": false}; !maps.Equal(got, want) {
		t.Errorf("hits with contents: %v, want %v", got, want)
	}
	if !resp.GetDegraded() || !strings.Contains(resp.GetDegradedReason(), "unreadable") || strings.Contains(resp.GetDegradedReason(), "internal") {
		t.Errorf("reason %q", resp.GetDegradedReason())
	}
}

// Several namespaces are merged into one order by score. Ranks count within a namespace, so the first of each scores
// alike, and an id that two namespaces have is two memories.
func TestNamespacesAreMergedByScore(t *testing.T) {
	hits := map[string][]string{"n": {"a", "b", "c"}, "m": {"d", "a"}}
	search := func(kind triskelev1.ScoreKind, of map[string][]string) leg {
		return leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			return finds(kind, of[req.GetNamespace()]...).search(ctx, req)
		}}
	}
	g := newGateway(t, memories{}, search(bm25, hits), search(cosine, map[string][]string{"m": {"a"}}), finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.Namespaces = []string{"n", "m"}
		r.Limit = new(int32(4))
	}))
	if err != nil || resp.GetDegraded() || len(resp.GetLegs()) != 6 {
		t.Fatalf("%v, %v", resp, err)
	}
	var got []string
	for i, h := range resp.GetHits() {
		got = append(got, h.GetNamespace()+h.GetId())
		if i > 0 && h.GetScore() > resp.GetHits()[i-1].GetScore() {
			t.Errorf("score %v after %v", h.GetScore(), resp.GetHits()[i-1].GetScore())
		}
	}
	if want := []string{"ma", "na", "md", "nb"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	many := request(func(r *triskelev1.RecallRequest) {
		r.Namespaces = nil
		for i := range 16 {
			r.Namespaces = append(r.Namespaces, fmt.Sprintf("n%d", i))
		}
	})
	g = newGateway(t, memories{}, finds(bm25, "a"), finds(cosine), finds(hops))
	if resp, err := g.Recall(t.Context(), many); err != nil || len(resp.GetHits()) != 10 || len(resp.GetLegs()) != 48 {
		t.Errorf("16 namespaces: %v, %v", resp, err)
	}
}

func TestForgottenMeanwhileIsLeftOut(t *testing.T) {
	g := newGateway(t, memories{forgotten: []string{"a"}}, finds(bm25, "a", "b"), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(nil))
	if err != nil || order(resp) != "b" || resp.GetHits()[0].GetRank() != 1 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestMalformedAnswersAreAFailureOfTheLeg(t *testing.T) {
	hit := func(id string, rank int32, score, importance float64) *triskelev1.LegHit {
		return &triskelev1.LegHit{Id: id, Rank: rank, Score: score, Importance: importance}
	}
	ok := triskelev1.LegState_LEG_STATE_OK
	var surplus []*triskelev1.LegHit
	for i := range int32(51) {
		surplus = append(surplus, hit(fmt.Sprint("x", i), i+1, 1, 0))
	}
	for name, resp := range map[string]*triskelev1.SearchResponse{
		"no state":               {},
		"impossible state":       {State: triskelev1.LegState_LEG_STATE_TIMED_OUT},
		"rank gap":               {State: ok, Hits: []*triskelev1.LegHit{hit("x", 2, 1, 0)}},
		"twice":                  {State: ok, Hits: []*triskelev1.LegHit{hit("x", 1, 1, 0), hit("x", 2, 1, 0)}},
		"no id":                  {State: ok, Hits: []*triskelev1.LegHit{hit("", 1, 1, 0)}},
		"score is not a number":  {State: ok, Hits: []*triskelev1.LegHit{hit("x", 1, math.NaN(), 0)}},
		"importance above one":   {State: ok, Hits: []*triskelev1.LegHit{hit("x", 1, 1, 2)}},
		"more hits than allowed": {State: ok, Hits: surplus},
		"covers more than all":   {State: ok, Coverage: 1.5},
		"covers no number":       {State: ok, Coverage: math.NaN()},
	} {
		g := newGateway(t, memories{}, finds(bm25, "a"), answers(resp), finds(hops))
		got, err := g.Recall(t.Context(), request(nil))
		if err != nil || states(got) != "OK FAILED OK" || order(got) != "a" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestParseLeg(t *testing.T) {
	got, err := gateway.ParseLeg("temporal=dns:///temporal:7400?weight=0.5&trust=2&depth=20&quota=2&cap=150ms&share=0.8&min=5ms&limit=8&shed=2&hedge=true")
	want := gateway.Leg{Name: "temporal", Target: "dns:///temporal:7400", Weight: .5, Trust: 2, Depth: 20, Quota: 2, Limit: 8, Shed: 2, Hedge: true, Budget: budget.Leg{Cap: 150 * ms, Share: .8, Min: 5 * ms}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = gateway.ParseLeg("graph=127.0.0.1:7403"); err != nil || got.Trust != 3 {
		t.Errorf("%+v, %v, although our graph leg has trust 3", got, err)
	}
	if got, err = gateway.ParseLeg("lexical=127.0.0.1:7401"); err != nil || got.Weight != 1 || got.Trust != 0 || got.Depth != 50 || got.Budget.Share != 1 || got.Limit != 64 || got.Shed != 0 {
		t.Errorf("defaults: %+v, %v", got, err)
	}
	for _, text := range []string{"", "lexical", "=x", "lexical=", "l=x?weight=-1", "l=x?weight=NaN", "l=x?trust=-1", "l=x?trust=NaN", "l=x?depth=0", "l=x?depth=1e9", "l=x?cap=soon", "l=x?quota=-1", "l=x?limit=-1", "l=x?shed=10", "l=x?hedge=maybe", "l=x?colour=red", "l=x?%zz"} {
		if got, err := gateway.ParseLeg(text); err == nil {
			t.Errorf("%q: accepted as %+v", text, got)
		}
	}
}

func TestNewRefusesBadConfigurations(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*gateway.Config){
		"no legs":                       func(c *gateway.Config) { c.Legs = nil },
		"the same twice":                func(c *gateway.Config) { c.Legs[1].Name = "lexical" },
		"does not nest":                 func(c *gateway.Config) { c.Legs[0].Budget.Cap = time.Hour },
		"memory limit below 0":          func(c *gateway.Config) { c.Memory.Limit = -1 },
		"memory cap beyond all budgets": func(c *gateway.Config) { c.Memory.Cap = time.Hour },
		"negative k":                    func(c *gateway.Config) { c.Fusion.K = -1 },
		"great k":                       func(c *gateway.Config) { c.Fusion.K = 1001 },
		"unknown fusion":                func(c *gateway.Config) { c.Fusion.Method = "sum" },
		"alpha above 1":                 func(c *gateway.Config) { c.Fusion.Alpha = new(1.5) },
		"policy of an unknown leg": func(c *gateway.Config) {
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {RequiredLegs: []string{"psychic"}}}
		},
		"policy out of bounds": func(c *gateway.Config) {
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {Fusion: &triskelev1.Fusion{K: new(-1.)}}}
		},
	} {
		config := gateway.DefaultConfig()
		config.Legs = gateway.DefaultLegs(nil)
		edit(&config)
		if _, err := gateway.New(config, make([]triskelev1.LegServiceClient, len(config.Legs)), memories{}, process.Service("fuser"), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseLeg(f *testing.F) {
	f.Add("lexical=dns:///x?weight=1&cap=1s")
	f.Fuzz(func(t *testing.T, text string) {
		leg, err := gateway.ParseLeg(text)
		if err == nil && (leg.Name == "" || leg.Target == "" || !(leg.Weight >= 0) || !(leg.Trust >= 0) || leg.Depth < 1) {
			t.Errorf("%q gave %+v", text, leg)
		}
	})
}
