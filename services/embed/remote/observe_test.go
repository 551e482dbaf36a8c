package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestObserved asks servers of every shape and looks at what telemetry is told: whom was asked for how much, and what it cost.
func TestObserved(t *testing.T) {
	unchecked := func(context.Context) (bool, error) { return false, errors.New("the database is away") }
	for name, x := range map[string]struct {
		provider string
		answer   http.HandlerFunc
		check    func(context.Context) (bool, error)
		span     map[string]string
		failed   bool
		metrics  string
	}{
		"openai": {provider: "openai", answer: write(200, `{"data":[{"index":0,"embedding":[3,4]}],"usage":{"prompt_tokens":7,"total_tokens":7}}`),
			span: map[string]string{"gen_ai.usage.input_tokens": "7"}, metrics: `triskele_embed_tokens_total{gen_ai_provider_name="openai",gen_ai_request_model="m",service_name="test"} 7`},
		"voyage": {provider: "voyage", answer: write(200, `{"data":[{"index":0,"embedding":[3,4]}],"usage":{"total_tokens":8}}`),
			span: map[string]string{"gen_ai.usage.input_tokens": "8"}},
		"cohere": {provider: "cohere", answer: write(200, `{"embeddings":{"float":[[3,4]]},"meta":{"billed_units":{"input_tokens":9}}}`),
			span: map[string]string{"gen_ai.usage.input_tokens": "9"}},
		"tei": {provider: "tei", answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Compute-Tokens", "10")
			write(200, `[[3,4]]`)(w, r)
		}, span: map[string]string{"gen_ai.usage.input_tokens": "10"}},
		"no count": {provider: "tei", answer: write(200, `[[3,4]]`), span: map[string]string{"gen_ai.usage.input_tokens": ""}},
		"refused": {provider: "openai", answer: write(422, `the text "quokka" is not allowed`), failed: true, span: map[string]string{"error.type": "http_422"},
			metrics: `triskele_embed_requests_total{gen_ai_provider_name="openai",gen_ai_request_model="m",outcome="http_422",service_name="test"} 1`},
		"not sent":  {provider: "openai", check: unchecked, failed: true, span: map[string]string{"error.type": "not_sent"}},
		"malformed": {provider: "openai", answer: write(200, `{"data":"quokka"}`), failed: true, span: map[string]string{"error.type": "malformed"}},
	} {
		t.Run(name, func(t *testing.T) {
			var url string
			if x.check == nil {
				url, _ = server(t, x.answer)
			} else { // it gets the header alone
				waiting := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
				t.Cleanup(waiting.Close)
				url = waiting.URL
			}
			e := newEmbedder(t, Config{Provider: x.provider, URL: url})
			process, err := telemetry.Start(t.Context(), telemetry.Scraped)
			if err != nil {
				t.Fatal(err)
			}
			tel, id := process.Service("test"), trace.TraceID{1}
			e.Measure(tel.MeterProvider.Meter(telemetry.ScopeName))
			take := tel.Recorder.Watch(id)
			ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
			ctx, search := tel.Tracer.Start(ctx, "search")
			if x.check != nil {
				ctx = endpoint.WithCheck(ctx, x.check)
			}
			_, err = e.EmbedQuery(ctx, "quokka")
			search.End()
			if (err != nil) != x.failed {
				t.Fatal(err)
			}
			var span *triskelev1.Span
			for _, s := range take() {
				if s.GetName() == "embeddings m" {
					span = s
				}
			}
			for key, want := range map[string]string{
				"gen_ai.operation.name": "embeddings", "gen_ai.provider.name": x.provider, "server.address": "127.0.0.1", "triskele.texts": "1", "gen_ai.embeddings.dimension.count": "2",
			} {
				if got := span.GetAttributes()[key]; got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			for key, want := range x.span {
				if got := span.GetAttributes()[key]; got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			metrics := httptest.NewRecorder()
			process.Metrics().ServeHTTP(metrics, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			if !strings.Contains(metrics.Body.String(), x.metrics) {
				t.Errorf("no %s among\n%s", x.metrics, metrics.Body)
			}
			if span.GetFailed() != x.failed || strings.Contains(span.String()+metrics.Body.String(), "quokka") {
				t.Errorf("span %v", span)
			}
		})
	}
	// Outside of a span that is recorded there is none, and nothing is counted unless it was asked for.
	url, _ := server(t, write(200, `[[3,4]]`))
	if _, err := newEmbedder(t, Config{Provider: "tei", URL: url}).EmbedQuery(context.Background(), "x"); err != nil {
		t.Error(err)
	}
}
