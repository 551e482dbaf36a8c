package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestSpans looks at what a recall's own spans say: of the whole, and of each leg, also of one that was not asked or not
// waited for.
func TestSpans(t *testing.T) {
	limit := int32(2)
	for name, x := range map[string]struct {
		edit  func(*gateway.Config)
		legs  []leg
		req   func(*triskelev1.RecallRequest)
		fails bool     // the recall
		spans []string // sorted: name, then state, hits and reason of a leg, or overlap, hits and reason of the recall
	}{
		"all answer": {
			legs: []leg{finds(bm25, "a", "b", "c"), finds(cosine, "b", "d", "e"), finds(hops, "b")},
			req:  func(r *triskelev1.RecallRequest) { r.Limit, r.Query = &limit, "quokka" },
			spans: []string{
				"retrieval dense OK 3", "retrieval graph OK 1", "retrieval lexical OK 3",
				"search_memory 0.8333333333333334 2", // lexical and dense share one of two, and both have graph's only one
			},
		},
		"texts are asked for": {
			edit: func(c *gateway.Config) { c.Trace.Queries = true }, legs: []leg{finds(bm25, "a"), finds(cosine, "a"), finds(hops)},
			req:   func(r *triskelev1.RecallRequest) { r.Query = "quokka" },
			spans: []string{"retrieval dense OK 1", "retrieval graph OK 0", "retrieval lexical OK 1", "search_memory 1 1  quokka"},
		},
		"one fails and one is late": {
			legs: []leg{finds(bm25, "a"), after(time.Hour, cosine), fails(codes.Unavailable)},
			spans: []string{
				"retrieval dense TIMED_OUT 0 no answer within 80ms !", "retrieval graph FAILED 0 cannot be reached !", "retrieval lexical OK 1",
				"search_memory  1 This recall is incomplete: the dense leg timed out (no answer within 80ms); the graph leg failed (cannot be reached).",
			},
		},
		"too little time for one": {
			edit: func(c *gateway.Config) { c.Legs[2].Budget.Min = 90 * ms }, legs: []leg{finds(bm25, "a"), after(time.Hour, cosine), finds(hops, "b")},
			spans: []string{
				"retrieval dense TIMED_OUT 0 no answer within 80ms !",
				"retrieval graph SKIPPED 0 its share of the budget would be 80ms, but it needs 90ms !", "retrieval lexical OK 1",
				"search_memory  1 This recall is incomplete: the dense leg timed out (no answer within 80ms); the graph leg was skipped (its share of the budget would be 80ms, but it needs 90ms).",
			},
		},
		"a required one fails": {
			legs: []leg{after(50*ms, bm25, "a"), fails(codes.Internal), after(50*ms, hops)},
			req:  func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"dense"} }, fails: true,
			spans: []string{
				"retrieval dense FAILED 0 failed with Internal !", "retrieval graph SKIPPED 0 not waited for: the call fails without it",
				"retrieval lexical SKIPPED 0 not waited for: the call fails without it", "search_memory    !",
			},
		},
		"one is off, and a required one fails": {
			legs: []leg{after(50*ms, bm25, "a"), fails(codes.Internal), finds(hops)},
			req: func(r *triskelev1.RecallRequest) {
				r.RequiredLegs, r.Legs = []string{"dense"}, map[string]*triskelev1.LegOptions{"graph": {Enabled: new(bool)}}
			},
			fails: true, spans: []string{
				"retrieval dense FAILED 0 failed with Internal !", "retrieval lexical SKIPPED 0 not waited for: the call fails without it", "search_memory    !",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				process, err := telemetry.Start(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				tel, config := process.Service("fuser"), gateway.DefaultConfig()
				config.Legs, config.Fusion.Method = gateway.DefaultLegs(nil), "rrf"
				if x.edit != nil {
					x.edit(&config)
				}
				g, err := gateway.New(config, []triskelev1.LegServiceClient{x.legs[0], x.legs[1], x.legs[2]}, memories{}, tel, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				id := trace.TraceID{1}
				take := tel.Recorder.Watch(id)
				ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
				if _, err := g.Recall(ctx, request(x.req)); (err != nil) != x.fails {
					t.Fatal(err)
				}
				synctest.Wait() // for the legs that are not
				var got []string
				for _, span := range take() {
					a := span.GetAttributes()
					text := fmt.Sprintf("%s %s %s %s", span.GetName(), a["triskele.state"]+a["triskele.overlap"], a["triskele.hits"]+a["gen_ai.memory.record.count"], a["triskele.reason"])
					if strings.Contains(span.String(), "quokka") {
						text += " quokka"
					}
					if span.GetFailed() {
						text += " !"
					}
					got = append(got, strings.TrimSuffix(text, " "))
				}
				slices.Sort(got)
				if !slices.Equal(got, x.spans) {
					t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(x.spans, "\n"))
				}
			})
		})
	}
}

// TestDegradedRecallIsOneLine has everything go wrong in a recall that can without its failing, and reads the log: a line,
// which leads to the trace and says how every leg ended and why, and no text.
func TestDegradedRecallIsOneLine(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	config := gateway.DefaultConfig()
	config.Legs = gateway.DefaultLegs(nil)
	malformed := answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_FAILED})
	recall := func(memory memories, legs ...triskelev1.LegServiceClient) (*triskelev1.RecallResponse, error) {
		g, err := gateway.New(config, legs, memory, process.Service("fuser"), slog.New(telemetry.Traced(slog.NewJSONHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		return g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Query = "quokka" }))
	}
	resp, err := recall(memories{down: true}, finds(bm25, "a"), fails(codes.Unavailable), malformed)
	if err != nil || !resp.GetDegraded() {
		t.Fatalf("%v, %v", resp, err)
	}
	var line struct {
		Level, Msg, Legs, Reason string
		Trace                    string `json:"trace_id"`
	}
	if err := json.Unmarshal(log.Bytes(), &line); err != nil { // of two lines, too
		t.Fatalf("%v: %s", err, &log)
	}
	if line.Level != "WARN" || line.Msg != "degraded recall" || line.Legs != "lexical OK, dense FAILED, graph FAILED" || line.Trace != resp.GetTraceId() ||
		line.Reason != resp.GetDegradedReason() || !strings.Contains(line.Reason, "contents") || strings.Contains(log.String(), "quokka") {
		t.Errorf("log: %s", &log)
	}
	log.Reset()
	if _, err := recall(memories{}, finds(bm25, "a"), finds(cosine, "a"), finds(hops)); err != nil || log.Len() > 0 {
		t.Errorf("%v, and a whole recall writes %s", err, &log)
	}
}

// TestOutcomes counts recalls by how they ended. Only what is the gateway's doing is a failure, by which alerts go.
func TestOutcomes(t *testing.T) {
	process, err := telemetry.Start(t.Context(), telemetry.Scraped)
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.DefaultConfig()
	config.Legs, config.Recent = gateway.DefaultLegs(nil), recent.New()
	gone, cancel := context.WithCancel(t.Context())
	leaving := leg{search: func(ctx context.Context, _ *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}}
	nothing := []triskelev1.LegServiceClient{finds(bm25), finds(cosine), finds(hops)}
	for _, x := range []struct {
		ctx       context.Context
		namespace string
		legs      []triskelev1.LegServiceClient
	}{
		{t.Context(), "n", nothing},
		{t.Context(), "n", []triskelev1.LegServiceClient{finds(bm25), finds(cosine), fails(codes.Internal)}},
		{t.Context(), "n", []triskelev1.LegServiceClient{fails(codes.Internal), fails(codes.Internal), fails(codes.Internal)}},
		{t.Context(), "nowhere", nothing},
		{gone, "n", []triskelev1.LegServiceClient{leaving, leaving, leaving}},
	} {
		g, err := gateway.New(config, x.legs, memories{}, process.Service("fuser"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = g.Recall(x.ctx, request(func(r *triskelev1.RecallRequest) { r.Namespaces = []string{x.namespace} }))
		g.Close()
	}
	w := httptest.NewRecorder()
	process.Metrics().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, outcome := range []string{"ok", "degraded", "failed", "invalid", "cancelled"} {
		if want := fmt.Sprintf("triskele_recalls_total{outcome=%q,service_name=\"fuser\"} 1\n", outcome); !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
	var failed []string
	for _, r := range config.Recent.Recalls(recent.All, 10) {
		failed = append(failed, r.Failed)
	}
	if want := []string{"Unavailable", "", ""}; !slices.Equal(failed, want) {
		t.Errorf("got recent recalls that failed with %q, want %q", failed, want)
	}
}
