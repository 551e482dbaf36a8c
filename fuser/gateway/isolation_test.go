package gateway_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// counted makes a leg of a function that is told how often it was called before.
func counted(calls *atomic.Int64, search func(n int64) leg) leg {
	return leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		return search(calls.Add(1)-1).search(ctx, req)
	}}
}

func TestBreakerLeavesADeadLegAlone(t *testing.T) {
	for name, x := range map[string]struct {
		dead   leg
		budget time.Duration
		opens  bool
	}{
		"unreachable":        {dead: fails(codes.Unavailable), budget: 100 * ms, opens: true},
		"panics":             {dead: leg{search: func(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) { panic("boom") }}, budget: 100 * ms, opens: true},
		"malformed":          {dead: answers(&triskelev1.SearchResponse{}), budget: 100 * ms, opens: true},
		"hangs":              {dead: after(time.Hour, cosine), budget: 500 * ms, opens: true},
		"is given no time":   {dead: after(time.Hour, cosine), budget: 100 * ms, opens: false},
		"refuses one caller": {dead: fails(codes.PermissionDenied), budget: 100 * ms, opens: false},
		"is asked too much":  {dead: fails(codes.ResourceExhausted), budget: 100 * ms, opens: false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			var alive atomic.Bool
			g := newGateway(t, memories{}, finds(bm25, "a"), counted(&calls, func(int64) leg {
				if alive.Load() {
					return finds(cosine, "b")
				}
				return x.dead
			}), finds(hops))
			ask := func() *triskelev1.RecallResponse {
				t.Helper()
				resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Budget = durationpb.New(x.budget) }))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return resp
			}
			for range 5 {
				ask()
			}
			start := time.Now()
			resp := ask()
			if opened := calls.Load() == 5; opened != x.opens {
				t.Fatalf("%s: %d calls of 6", name, calls.Load())
			}
			if !x.opens {
				return
			}
			if time.Since(start) != 0 || states(resp) != "OK SKIPPED OK" || !strings.Contains(resp.GetDegradedReason(), "circuit breaker is open") {
				t.Errorf("%s: %v after %v", name, resp, time.Since(start))
			}
			alive.Store(true)
			time.Sleep(time.Second + ms)
			if resp := ask(); states(resp) != "OK OK OK" || resp.GetDegraded() {
				t.Errorf("%s: it did not recover: %v", name, resp)
			}
		})
	}
}

// atATime counts what runs at a time.
type atATime struct {
	mu            sync.Mutex
	running, most int
}

func (a *atATime) begin() (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running++
	a.most = max(a.most, a.running)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running--
	}
}

func TestLimitOfSearchesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var searches atATime
		dense := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			defer searches.begin()()
			return after(30*ms, cosine, "b").search(ctx, req)
		}}
		g := configured(t, func(c *gateway.Config) { c.Legs[1].Limit = 2 }, memories{}, finds(bm25, "a"), dense, finds(hops))
		var mu sync.Mutex
		ended := map[string]int{}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				resp, err := g.Recall(t.Context(), request(nil))
				if err != nil {
					t.Error(err)
					return
				}
				report := resp.GetLegs()[1]
				mu.Lock()
				defer mu.Unlock()
				ended[report.GetQueued().AsDuration().String()+" "+strings.TrimPrefix(report.GetState().String(), "LEG_STATE_")]++
			})
		}
		wg.Wait()
		// Two at a time, 30 ms each, within 80 ms: the last two begin at 60 ms and are late.
		if searches.most != 2 || ended["0s OK"] != 2 || ended["30ms OK"] != 2 || ended["60ms TIMED_OUT"] != 2 {
			t.Errorf("%d at a time, ended %v", searches.most, ended)
		}
	})
}

func TestNoSlotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := configured(t, func(c *gateway.Config) { c.Legs[1].Limit = 1 }, memories{}, finds(bm25, "a"), after(time.Hour, cosine), finds(hops))
		go func() {
			_, _ = g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Budget = durationpb.New(time.Second) }))
		}()
		synctest.Wait()
		start := time.Now()
		resp, err := g.Recall(t.Context(), request(nil))
		if err != nil || states(resp) != "OK SKIPPED OK" || time.Since(start) != 80*ms || !strings.Contains(resp.GetDegradedReason(), "its limit of 1 concurrent calls") {
			t.Errorf("%v, %v after %v", resp, err, time.Since(start))
		}
		time.Sleep(time.Second)
	})
}

// Under load the graph goes first, dense later, and lexical never.
func TestSheddingUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		slow.Store(true)
		lexical := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			if slow.Load() {
				return after(60*ms, bm25, "a").search(ctx, req)
			}
			return after(20*ms, bm25, "a").search(ctx, req)
		}}
		g := newGateway(t, memories{}, lexical, finds(cosine, "b"), finds(hops, "c"))
		var mu sync.Mutex
		ended := map[string]int{}
		reason := ""
		load := func(rounds, clients int) {
			clear(ended)
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for range rounds {
						resp, err := g.Recall(t.Context(), request(nil))
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						ended[states(resp)]++
						if resp.GetDegraded() {
							reason = resp.GetDegradedReason()
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
		}
		load(20, 40)
		if ended["OK OK SKIPPED"] == 0 || ended["OK SKIPPED SKIPPED"] == 0 || ended["OK SKIPPED OK"] != 0 {
			t.Errorf("ended %v", ended)
		}
		if !strings.Contains(reason, " recalls are running, and ") {
			t.Errorf("reason %q", reason)
		}
		slow.Store(false)
		load(130, 40)
		load(1, 40)
		if ended["OK OK OK"] != 40 {
			t.Errorf("it did not recover: %v", ended)
		}
	})
}

func TestHedging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		dense := counted(&calls, func(n int64) leg {
			switch {
			case n == 33 || n >= 35: // the first request of the last recall but one, and both of the last
				return after(time.Hour, cosine)
			case n < 3: // of the 32 that p95 is known from
				return after(10*ms, cosine, "b")
			}
			return after(4*ms, cosine, "b")
		})
		g := configured(t, func(c *gateway.Config) { c.Legs[1].Hedge = true }, memories{}, finds(bm25, "a"), dense, finds(hops))
		for range 33 {
			if resp, err := g.Recall(t.Context(), request(nil)); err != nil || resp.GetLegs()[1].GetHedged() {
				t.Fatalf("%v, %v", resp, err)
			}
		}
		start := time.Now()
		resp, err := g.Recall(t.Context(), request(nil))
		if err != nil || states(resp) != "OK OK OK" || !resp.GetLegs()[1].GetHedged() || time.Since(start) != 14*ms {
			t.Errorf("%v, %v after %v", resp, err, time.Since(start))
		}
		if resp, err := g.Recall(t.Context(), request(nil)); err != nil || states(resp) != "OK TIMED_OUT OK" || calls.Load() != 37 {
			t.Errorf("%v, %v after %d calls", resp, err, calls.Load())
		}
		synctest.Wait()
	})
	// A panic in a hedged call is the leg's failure like any other.
	var calls atomic.Int64
	g := configured(t, func(c *gateway.Config) { c.Legs[1].Hedge = true }, memories{}, finds(bm25, "a"), counted(&calls, func(n int64) leg {
		if n >= 32 {
			return leg{search: func(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
				panic(status.Error(codes.OK, "boom"))
			}}
		}
		return finds(cosine, "b")
	}), finds(hops))
	for range 32 {
		if _, err := g.Recall(t.Context(), request(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := g.Recall(t.Context(), request(nil)); err != nil || states(resp) != "OK FAILED OK" {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestPanicOfAStatusIsTheLegs asks legs for their state that have no client: calling it panics.
func TestPanicOfAStatusIsTheLegs(t *testing.T) {
	g := configured(t, nil, memories{}, finds(bm25, "a"), finds(cosine, "b"), finds(hops))
	resp, err := g.GetIndexStatus(t.Context(), &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: "n"})
	if err != nil || len(resp.GetLegs()) != 3 {
		t.Fatalf("got %v, %v, want three legs", resp, err)
	}
	for _, l := range resp.GetLegs() {
		if got, want := l.GetError(), "internal error"; got != want {
			t.Errorf("%s: got error %q, want %q", l.GetLeg(), got, want)
		}
	}
}
