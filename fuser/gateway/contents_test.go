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
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// keeper is a memory service that does something else before it answers.
type keeper struct {
	memories
	before func(ctx context.Context) error
}

func (k keeper) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	if err := k.before(ctx); err != nil {
		return nil, err
	}
	return k.memories.Get(ctx, req, options...)
}

func (k keeper) GetNamespace(ctx context.Context, req *triskelev1.GetNamespaceRequest, options ...grpc.CallOption) (*triskelev1.GetNamespaceResponse, error) {
	if err := k.before(ctx); err != nil {
		return nil, err
	}
	return k.memories.GetNamespace(ctx, req, options...)
}

// takes answers when d has passed, or gives up with its context.
func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-time.After(d):
			return nil
		}
	}
}

// TestContentsInTime runs every way fetching contents can end, on a fake clock: 98 of 100 ms are for legs and contents.
func TestContentsInTime(t *testing.T) {
	capped := func(c *gateway.Config) { c.Memory.Cap = 30 * ms }
	for name, x := range map[string]struct {
		memory func(context.Context) error
		config func(*gateway.Config)
		dense  leg
		edit   func(*triskelev1.RecallRequest)
		state  string
		reason string
		takes  time.Duration
		budget time.Duration
	}{
		"in time":      {memory: takes(10 * ms), state: "OK", takes: 20 * ms, budget: 88 * ms},
		"at the last":  {memory: takes(87 * ms), state: "OK", takes: 97 * ms, budget: 88 * ms},
		"late by 1 ms": {memory: takes(89 * ms), state: "TIMED_OUT", reason: "no answer within 88ms", takes: 98 * ms, budget: 88 * ms},
		"hangs":        {memory: takes(time.Hour), state: "TIMED_OUT", reason: "no answer within 88ms", takes: 98 * ms, budget: 88 * ms},
		"capped":       {memory: takes(31 * ms), config: capped, state: "TIMED_OUT", reason: "no answer within 30ms", takes: 40 * ms, budget: 30 * ms},
		"within a cap": {memory: takes(29 * ms), config: capped, state: "OK", takes: 39 * ms, budget: 30 * ms},
		"dead":         {memory: func(context.Context) error { return status.Error(codes.Unavailable, "secret") }, state: "FAILED", reason: "cannot be reached", takes: 10 * ms, budget: 88 * ms},
		"panics":       {memory: func(context.Context) error { panic("boom") }, state: "FAILED", reason: "internal error", takes: 10 * ms, budget: 88 * ms},
		"a leg hangs":  {memory: takes(10 * ms), dense: after(time.Hour, cosine), state: "OK", takes: 90 * ms, budget: 18 * ms},
		"ids only":     {memory: takes(time.Hour), edit: func(r *triskelev1.RecallRequest) { r.IdsOnly = true }, state: "TIMED_OUT", reason: "no answer within 88ms", takes: 98 * ms, budget: 88 * ms},
		// A namespace without hits may be one that does not exist; that cannot be found out then.
		"no hits": {memory: takes(time.Hour), edit: func(r *triskelev1.RecallRequest) {
			off := &triskelev1.LegOptions{Enabled: new(bool)}
			r.Legs = map[string]*triskelev1.LegOptions{"lexical": off}
		}, takes: 98 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if x.dense.search == nil {
					x.dense = finds(cosine)
				}
				g := configured(t, x.config, keeper{before: x.memory}, after(10*ms, bm25, "a"), x.dense, finds(hops))
				start := time.Now()
				resp, err := g.Recall(t.Context(), request(x.edit))
				if took := time.Since(start); err != nil || took != x.takes {
					t.Fatalf("took %v: %v, %v", took, resp, err)
				}
				report := resp.GetContents()
				if x.state == "" {
					if report != nil || resp.GetDegraded() {
						t.Errorf("%v", resp)
					}
					return
				}
				if got := strings.TrimPrefix(report.GetState().String(), "LEG_STATE_"); got != x.state || report.GetReason() != x.reason ||
					report.GetBudget().AsDuration() != x.budget || report.GetAsked() != 1 || (report.GetFetched() == 1) != (got == "OK") {
					t.Errorf("report %v", report)
				}
				if there := resp.GetHits()[0].GetMemory() != nil; there != (x.state == "OK") || strings.Contains(resp.GetDegradedReason(), "contents") == there ||
					!strings.Contains(resp.GetDegradedReason(), x.reason) || strings.Contains(resp.String(), "secret") {
					t.Errorf("contents %v: %s", there, resp.GetDegradedReason())
				}
			})
		})
	}
}

// TestBreakerForgivesPartsAway: the memory service is asked on for other namespaces while the database's node of one is away.
func TestBreakerForgivesPartsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls int
		g := newGateway(t, keeper{before: func(context.Context) error {
			calls++
			return rpc.PartAway("a node is away")
		}}, finds(bm25, "a"), finds(cosine), finds(hops))
		const want = 20
		for range want {
			resp, err := g.Recall(t.Context(), request(nil))
			if err != nil || order(resp) != "a" || !resp.GetDegraded() {
				t.Fatalf("got %v, %v, want ids alone", resp, err)
			}
		}
		if calls != want {
			t.Errorf("%d calls reached the memory service, want %d", calls, want)
		}
	})
}

// A memory service that hangs costs a few recalls their time, not each of them, and is used again when it is back.
func TestBreakerLeavesTheMemoryServiceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var alive atomic.Bool
		g := newGateway(t, keeper{before: func(ctx context.Context) error {
			calls.Add(1)
			if alive.Load() {
				return nil
			}
			return takes(time.Hour)(ctx)
		}}, finds(bm25, "a"), finds(cosine), finds(hops))
		ask := func(edit func(*triskelev1.RecallRequest)) (*triskelev1.RecallResponse, time.Duration) {
			t.Helper()
			start := time.Now()
			resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
				r.Budget = durationpb.New(200 * ms)
				if edit != nil {
					edit(r)
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			return resp, time.Since(start)
		}
		for range 5 {
			if resp, took := ask(nil); took != 198*ms || order(resp) != "a" || resp.GetContents().GetState() != triskelev1.LegState_LEG_STATE_TIMED_OUT {
				t.Fatalf("%v after %v", resp, took)
			}
		}
		resp, took := ask(nil)
		if took != 0 || calls.Load() != 5 || resp.GetContents().GetState() != triskelev1.LegState_LEG_STATE_SKIPPED || !strings.Contains(resp.GetDegradedReason(), "circuit breaker is open") {
			t.Errorf("%v after %v, %d calls", resp, took, calls.Load())
		}
		if _, took := ask(func(r *triskelev1.RecallRequest) { // finds nothing, so the namespace is asked about
			off := &triskelev1.LegOptions{Enabled: new(bool)}
			r.Legs = map[string]*triskelev1.LegOptions{"lexical": off}
		}); took != 0 {
			t.Errorf("an unknown namespace took %v", took)
		}
		alive.Store(true)
		time.Sleep(time.Second + ms)
		if resp, _ := ask(nil); resp.GetDegraded() || resp.GetHits()[0].GetMemory() == nil {
			t.Errorf("it did not recover: %v", resp)
		}
	})
}

// However many namespaces there are, no more calls run at a time than are allowed: of a leg, and of the memory service.
func TestFanOutOverNamespacesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var searches, fetches atATime
		lexical := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			defer searches.begin()()
			return after(5*ms, bm25, "a").search(ctx, req)
		}}
		memory := keeper{before: func(ctx context.Context) error {
			defer fetches.begin()()
			return takes(5 * ms)(ctx)
		}}
		g := configured(t, func(c *gateway.Config) { c.Legs[0].Limit, c.Memory.Limit = 4, 2 }, memory, lexical, finds(cosine), finds(hops))
		start := time.Now()
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Namespaces, r.Limit = nil, new(int32(16))
			for i := range 16 {
				r.Namespaces = append(r.Namespaces, fmt.Sprintf("n%d", i))
			}
		}))
		if err != nil || resp.GetDegraded() || len(resp.GetHits()) != 16 || time.Since(start) != 60*ms {
			t.Fatalf("%v, %v after %v", resp, err, time.Since(start))
		}
		if searches.most != 4 || fetches.most != 2 {
			t.Errorf("%d searches and %d fetches at a time", searches.most, fetches.most)
		}
		seen := map[string]bool{}
		for _, h := range resp.GetHits() {
			seen[h.GetNamespace()] = true
		}
		if len(seen) != 16 || resp.GetContents().GetFetched() != 16 {
			t.Errorf("hits from %v, contents %v", seen, resp.GetContents())
		}
	})
}

func TestParseMemory(t *testing.T) {
	got, err := gateway.ParseMemory("dns:///memory:7404?cap=150ms&limit=8")
	if want := (gateway.MemoryConfig{Target: "dns:///memory:7404", Cap: 150 * ms, Limit: 8}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = gateway.ParseMemory("127.0.0.1:7404"); err != nil || got != (gateway.MemoryConfig{Target: "127.0.0.1:7404", Limit: 64}) {
		t.Errorf("defaults: %+v, %v", got, err)
	}
	for _, text := range []string{"", "?cap=1s", "x?cap=soon", "x?limit=many", "x?weight=1", "x?%zz"} {
		if got, err := gateway.ParseMemory(text); err == nil {
			t.Errorf("%q: accepted as %+v", text, got)
		}
	}
}
