package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/rerank"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// judge is a reranker made of a function.
type judge func(ctx context.Context, query string, texts []string) ([]float64, error)

func (j judge) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	return j(ctx, query, texts)
}

// last ranks texts by their last letter, the last of the alphabet first, after a while.
func last(after time.Duration) judge {
	return func(ctx context.Context, _ string, texts []string) ([]float64, error) {
		if after > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(after):
			}
		}
		scores := make([]float64, len(texts))
		for i, text := range texts {
			scores[i] = float64(text[len(text)-1])
		}
		return scores, nil
	}
}

func judged(j judge) func(*gateway.Config) {
	return func(c *gateway.Config) {
		c.Rerank = gateway.RerankConfig{Reranker: j, Model: "judge", Top: 4, Limit: 8, Budget: budget.Leg{Share: 1}}
	}
}

func reranked(r *triskelev1.RecallRequest) { r.Rerank = &triskelev1.Rerank{Enabled: new(true)} }

// TestRerankInTime runs every way a reranker can end, on a fake clock. Legs have 56 of 100 ms when there is reranking, and it
// has what they leave of 80.
func TestRerankInTime(t *testing.T) {
	abc := []leg{after(10*ms, bm25, "a", "b", "c"), finds(cosine), finds(hops)}
	for name, x := range map[string]struct {
		judge  judge
		legs   []leg
		config func(*gateway.Config)
		edit   func(*triskelev1.RecallRequest)
		order  string
		state  string
		reason string
		takes  time.Duration
		budget time.Duration
	}{
		"in time":      {judge: last(20 * ms), order: "c b a", state: "OK", takes: 30 * ms, budget: 70 * ms},
		"at the last":  {judge: last(69 * ms), order: "c b a", state: "OK", takes: 79 * ms, budget: 70 * ms},
		"late by 1 ms": {judge: last(71 * ms), order: "a b c", state: "TIMED_OUT", reason: "no answer within 70ms", takes: 80 * ms, budget: 70 * ms},
		"hangs":        {judge: last(time.Hour), order: "a b c", state: "TIMED_OUT", reason: "no answer within 70ms", takes: 80 * ms, budget: 70 * ms},
		"fails": {judge: func(context.Context, string, []string) ([]float64, error) {
			return nil, errors.New("cannot be reached")
		}, order: "a b c", state: "FAILED", reason: "cannot be reached", takes: 10 * ms, budget: 70 * ms},
		"panics":            {judge: func(context.Context, string, []string) ([]float64, error) { panic("boom") }, order: "a b c", state: "FAILED", reason: "internal error", takes: 10 * ms, budget: 70 * ms},
		"capped":            {judge: last(time.Hour), config: func(c *gateway.Config) { c.Rerank.Budget.Cap = 15 * ms }, order: "a b c", state: "TIMED_OUT", reason: "no answer within 15ms", takes: 25 * ms, budget: 15 * ms},
		"capped by request": {judge: last(time.Hour), edit: func(r *triskelev1.RecallRequest) { r.Rerank.Deadline = durationpb.New(5 * ms) }, order: "a b c", state: "TIMED_OUT", reason: "no answer within 5ms", takes: 15 * ms, budget: 5 * ms},
		"a leg hangs": {judge: last(20 * ms), legs: []leg{finds(bm25, "a", "b", "c"), after(time.Hour, cosine), finds(hops)},
			order: "c b a", state: "OK", takes: 76 * ms, budget: 24 * ms},
		"too little time": {judge: last(0), config: func(c *gateway.Config) { c.Rerank.Budget.Min = 30 * ms }, legs: []leg{finds(bm25, "a", "b", "c"), after(time.Hour, cosine), finds(hops)},
			order: "a b c", state: "SKIPPED", reason: "its share of the budget would be 24ms, but it needs 30ms", takes: 56 * ms, budget: 24 * ms},
		"one memory":   {judge: last(time.Hour), legs: []leg{finds(bm25, "a"), finds(cosine), finds(hops)}, order: "a", state: "ABSTAINED", reason: "there are fewer than two memories that it may put in order"},
		"by time":      {judge: last(time.Hour), edit: func(r *triskelev1.RecallRequest) { r.SortBy = triskelev1.SortBy_SORT_BY_RECENCY }, order: "a b c", state: "ABSTAINED", reason: "the order is by time", takes: 10 * ms},
		"by a vector":  {judge: last(time.Hour), edit: func(r *triskelev1.RecallRequest) { r.Query, r.Vector = "", []float32{1} }, order: "a b c", state: "ABSTAINED", reason: "the query has no text", takes: 10 * ms},
		"not switched": {judge: last(time.Hour), edit: func(r *triskelev1.RecallRequest) { r.Rerank = nil }, order: "a b c", takes: 10 * ms},
		"by policy": {judge: last(0), config: func(c *gateway.Config) {
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {Rerank: &triskelev1.Rerank{Enabled: new(true)}}}
		}, edit: func(r *triskelev1.RecallRequest) { r.Rerank = nil }, order: "c b a", state: "OK", takes: 10 * ms, budget: 70 * ms},
		"against a policy": {judge: last(time.Hour), config: func(c *gateway.Config) {
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {Rerank: &triskelev1.Rerank{Enabled: new(true)}}}
		}, edit: func(r *triskelev1.RecallRequest) { r.Rerank = &triskelev1.Rerank{Enabled: new(false)} }, order: "a b c", takes: 10 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				legs := abc
				if x.legs != nil {
					legs = x.legs
				}
				g := configured(t, func(c *gateway.Config) {
					judged(x.judge)(c)
					if x.config != nil {
						x.config(c)
					}
				}, memories{}, legs...)
				start := time.Now()
				resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
					reranked(r)
					if x.edit != nil {
						x.edit(r)
					}
				}))
				if took := time.Since(start); err != nil || took != x.takes || order(resp) != x.order {
					t.Fatalf("took %v: %v, %v", took, resp, err)
				}
				report := resp.GetRerank()
				if x.state == "" {
					if report != nil {
						t.Errorf("report %v", report)
					}
					return
				}
				if "LEG_STATE_"+x.state != report.GetState().String() || report.GetReason() != x.reason || report.GetModel() != "judge" || report.GetBudget().AsDuration() != x.budget {
					t.Errorf("report %v", report)
				}
				ok, lost := x.state == "OK", x.state != "OK" && x.state != "ABSTAINED"
				if (report.GetReranked() == 3) != ok || strings.Contains(resp.GetDegradedReason(), "so the order is the fused one") != lost {
					t.Errorf("report %v, degraded: %s", report, resp.GetDegradedReason())
				}
				for i, h := range resp.GetHits() {
					if (h.RerankScore != nil) != ok || h.GetRank() != int32(i+1) || h.GetFusedRank() != int32(strings.Index("abc", h.GetId())+1) {
						t.Errorf("hit %v", h)
					}
				}
			})
		})
	}
}

// A model in the gateway's process may read sensitive memories.
func TestLocalRerankerReadsSensitiveMemories(t *testing.T) {
	var shown []string
	local := func(c *gateway.Config) {
		judged(judge(func(ctx context.Context, query string, texts []string) ([]float64, error) {
			shown = texts
			return last(0)(ctx, query, texts)
		}))(c)
		c.Rerank.Local = true
	}
	g := configured(t, local, memories{sensitive: []string{"b"}}, finds(bm25, "a", "b", "c", "d", "e"), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(reranked))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"content of a", "content of b", "content of c", "content of d"}; !slices.Equal(shown, want) {
		t.Errorf("shown %q, want %q", shown, want)
	}
	if order(resp) != "d c b a e" || resp.GetRerank().GetWithheld() != 0 || resp.GetRerank().GetReranked() != 4 {
		t.Errorf("order %q, report %v", order(resp), resp.GetRerank())
	}
}

// Sensitive memories are never shown to the reranker of another process, and neither are those whose contents are unknown: they keep their
// places, the others are put in order around them. What lies below the limit can come up, what lies below the top cannot.
func TestRerankKeepsSensitiveMemoriesInPlace(t *testing.T) {
	var mu sync.Mutex
	var shown []string
	spy := judge(func(ctx context.Context, query string, texts []string) ([]float64, error) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, texts...)
		return last(0)(ctx, query, texts)
	})
	ask := func(memory memories, edit func(*triskelev1.RecallRequest)) *triskelev1.RecallResponse {
		t.Helper()
		shown = nil
		g := configured(t, judged(spy), memory, finds(bm25, "a", "b", "c", "d", "e"), finds(cosine), finds(hops))
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			reranked(r)
			if edit != nil {
				edit(r)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	secret := memories{sensitive: []string{"b"}}
	resp := ask(secret, nil)
	if order(resp) != "d b c a e" || resp.GetRerank().GetWithheld() != 1 || resp.GetRerank().GetReranked() != 3 || resp.GetDegraded() {
		t.Errorf("%v", resp)
	}
	if want := []string{"content of a", "content of c", "content of d"}; !slices.Equal(shown, want) {
		t.Errorf("shown %q, want %q", shown, want)
	}
	if resp.GetHits()[1].RerankScore != nil || resp.GetHits()[1].GetMemory() == nil {
		t.Errorf("%v", resp.GetHits()[1])
	}
	if resp := ask(secret, func(r *triskelev1.RecallRequest) { r.Limit = new(int32(2)) }); order(resp) != "d b" {
		t.Errorf("two of them: %v", resp)
	}
	if resp := ask(secret, func(r *triskelev1.RecallRequest) { r.IdsOnly = true }); order(resp) != "d b c a e" || resp.GetHits()[0].GetMemory() != nil {
		t.Errorf("ids only: %v", resp)
	}
	if resp := ask(secret, func(r *triskelev1.RecallRequest) { r.Rerank.Top = new(int32(5)) }); order(resp) != "e b d c a" {
		t.Errorf("five: %v", resp)
	}
	// Whoever was forgotten meanwhile does not count.
	if resp := ask(memories{forgotten: []string{"a"}}, nil); order(resp) != "e d c b" {
		t.Errorf("forgotten: %v", resp)
	}
	if resp := ask(memories{down: true}, nil); order(resp) != "a b c d e" || shown != nil {
		t.Errorf("contents are unknown: %v, shown %q", resp, shown)
	}
	if resp := ask(memories{sensitive: []string{"a", "b", "c"}}, nil); order(resp) != "a b c d e" || shown != nil || resp.GetRerank().GetWithheld() != 3 {
		t.Errorf("one is left: %v, shown %q", resp, shown)
	}
}

func TestRerankerIsLeftAloneWhenItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		refusing := true
		g := configured(t, judged(func(context.Context, string, []string) ([]float64, error) {
			if calls.Add(1); refusing {
				return nil, fmt.Errorf("%w: HTTP status 422", gateway.ErrRefused)
			}
			return nil, errors.New("failed with HTTP status 503")
		}), memories{}, finds(bm25, "a", "b"), finds(cosine), finds(hops))
		ask := func() *triskelev1.RecallResponse {
			t.Helper()
			resp, err := g.Recall(t.Context(), request(reranked))
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		for range 10 { // a request that it cannot take says nothing about its health
			if resp := ask(); resp.GetRerank().GetReason() != "refused the request: HTTP status 422" {
				t.Fatal(resp)
			}
		}
		time.Sleep(time.Minute)
		refusing = false
		for range 5 {
			ask()
		}
		resp := ask()
		if calls.Load() != 15 || resp.GetRerank().GetState() != triskelev1.LegState_LEG_STATE_SKIPPED || !strings.Contains(resp.GetDegradedReason(), "circuit breaker is open") {
			t.Errorf("%d calls, %v", calls.Load(), resp)
		}
		time.Sleep(time.Second + ms)
		if ask(); calls.Load() != 16 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

// Under load the graph goes first, then reranking, then dense.
func TestRerankIsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := configured(t, judged(last(0)), memories{}, after(50*ms, bm25, "a", "b"), finds(cosine, "b"), finds(hops, "c"))
		var mu sync.Mutex
		ended := map[string]int{}
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				for range 20 {
					resp, err := g.Recall(t.Context(), request(reranked))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					ended[states(resp)+" "+strings.TrimPrefix(resp.GetRerank().GetState().String(), "LEG_STATE_")]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, want := range []string{"OK OK OK OK", "OK OK SKIPPED OK", "OK OK SKIPPED SKIPPED", "OK SKIPPED SKIPPED SKIPPED"} {
			if ended[want] == 0 {
				t.Errorf("none ended %s: %v", want, ended)
			}
			delete(ended, want)
		}
		if len(ended) > 0 {
			t.Errorf("some ended %v", ended)
		}
	})
}

func TestRerankThatIsNotThere(t *testing.T) {
	g := newGateway(t, memories{}, finds(bm25, "a"), finds(cosine), finds(hops))
	if _, err := g.Recall(t.Context(), request(reranked)); err == nil || !strings.Contains(err.Error(), "rerank.enabled: must not be true: this gateway has no reranker") {
		t.Error(err)
	}
	if _, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Rerank = &triskelev1.Rerank{Enabled: new(false)} })); err != nil {
		t.Errorf("switched off: %v", err)
	}
}

// TestTextOfAMemory: the legs learn whose text the query is, and the reranker, which could not look after it, is not asked.
func TestTextOfAMemory(t *testing.T) {
	const id = "0190b3a0-0000-7000-8000-000000000001"
	var mu sync.Mutex
	var told []string
	dense := leg{
		search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, req.GetTextOf())
			return finds(cosine, "a").search(ctx, req)
		},
		score: func(_ context.Context, req *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, req.GetTextOf())
			return &triskelev1.ScoreByIdsResponse{ScoreKind: cosine}, nil
		},
	}
	j := func(context.Context, string, []string) ([]float64, error) {
		t.Error("the reranker was asked")
		return nil, nil
	}
	g := configured(t, judged(j), memories{}, finds(bm25, "a", "b"), dense, finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.Rerank, r.TextOf = &triskelev1.Rerank{Enabled: new(true)}, id
		r.Fusion = &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_CONVEX, CompleteScores: new(true)}
	}))
	if err != nil || resp.GetRerank().GetReason() != "the query is the text of a memory" {
		t.Errorf("%v, %v", resp.GetRerank(), err)
	}
	if !slices.Equal(told, []string{id, id}) {
		t.Errorf("the leg was told of %q", told)
	}
}

// turning is a memory service whose memory b turns sensitive after it was read once.
type turning struct {
	memories
	reads *int
}

func (s turning) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	if *s.reads++; *s.reads > 1 {
		s.sensitive = []string{"b"}
	}
	return s.memories.Get(ctx, req, options...)
}

// Texts are checked again just before they are sent, after any wait for the reranker.
func TestWhatTurnsSensitiveIsNotReranked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			t.Errorf("the reranker got %s, want nothing", body)
		}
		_, _ = io.WriteString(w, `[{"index": 0, "score": 1}, {"index": 1, "score": 2}]`)
	}))
	defer server.Close()
	config, err := rerank.Flags{Server: "tei:" + server.URL, Top: 10, Limit: 1, Min: ms, MaxText: 8192}.Open(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	g := configured(t, func(c *gateway.Config) { c.Rerank = config }, turning{reads: new(int)}, finds(bm25, "a", "b"), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		reranked(r)
		r.Budget = durationpb.New(5 * time.Second)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetRerank().GetReranked() != 0 {
		t.Errorf("got %v, want nothing reranked", resp.GetRerank())
	}
}

// unchecked is a memory service that gives contents to show, and fails when they are checked.
type unchecked struct {
	memories
	reads *int
}

func (s unchecked) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	if *s.reads++; *s.reads%2 == 0 {
		return nil, status.Error(codes.Unavailable, "canary")
	}
	return s.memories.Get(ctx, req, options...)
}

// The reranker is not to blame, and not left alone, if texts cannot be checked before they are sent to it.
func TestMemoryServiceThatFailsAtTheCheck(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			t.Errorf("the reranker got %s, want nothing", body)
		}
	}))
	defer server.Close()
	config, err := rerank.Flags{Server: "tei:" + server.URL, Top: 10, Limit: 1, Min: ms, MaxText: 8192}.Open(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	g := configured(t, func(c *gateway.Config) { c.Rerank = config }, unchecked{reads: new(int)}, finds(bm25, "a", "b"), finds(cosine), finds(hops))
	for range 10 {
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			reranked(r)
			r.Budget = durationpb.New(5 * time.Second)
		}))
		if err != nil {
			t.Fatal(err)
		}
		if report := resp.GetRerank(); report.GetState() != triskelev1.LegState_LEG_STATE_FAILED || report.GetReason() != endpoint.ErrUnchecked.Error() {
			t.Fatalf("got %v, want FAILED for %v", report, endpoint.ErrUnchecked)
		}
	}
}
