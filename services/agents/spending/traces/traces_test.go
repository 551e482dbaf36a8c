package traces_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/spending/traces"
)

var query = traces.Query{
	Service: "fuser", From: time.Unix(1_700_000_000, 0), To: time.Unix(1_700_003_600, 0), Limit: 7, Header: map[string]string{"X-Scope-OrgID": "team"},
}

// serve answers paths with texts and checks what comes with every request.
func serve(t *testing.T, answers map[string]string, asked func(*http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Scope-OrgID") != "team" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("%s was asked for with the header %v", r.URL, r.Header)
		}
		text, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if asked != nil {
			asked(r)
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// find returns the one span of this name.
func find(t *testing.T, all []otlp.Trace, name string) *triskelev1.Span {
	t.Helper()
	var found []*triskelev1.Span
	for _, trace := range all {
		for _, span := range trace.Spans {
			if span.GetName() == name {
				found = append(found, span)
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %s among %v", len(found), name, all)
	}
	return found[0]
}

// jaegerAnswer is what version 3 of Jaeger's API says about a trace, shortened.
const jaegerAnswer = `{"result":{"resourceSpans":[
 {"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"fuser"}}]},"scopeSpans":[{"scope":{"name":"x"},"spans":[
  {"traceId":"07f5a3d9b3ac4d1cbf2aa61a2e6f6d55","spanId":"aa3e4a14b2f3c1de","parentSpanId":"","name":"search_memory","kind":2,"startTimeUnixNano":"1700000001000001000","endTimeUnixNano":"1700000001005121000",
   "attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"search_memory"}},{"key":"triskele.degraded","value":{"boolValue":true}},{"key":"triskele.budget_us","value":{"intValue":"500000"}}],"status":{}}]}]},
 {"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"dense"}}]},"scopeSpans":[{"scope":{"name":"x"},"spans":[
  {"traceId":"07f5a3d9b3ac4d1cbf2aa61a2e6f6d55","spanId":"bb3e4a14b2f3c1de","parentSpanId":"aa3e4a14b2f3c1de","name":"leg dense","kind":1,"startTimeUnixNano":"1700000001000100000","endTimeUnixNano":"1700000001004100000",
   "attributes":[{"key":"triskele.leg","value":{"stringValue":"dense"}}],"status":{"code":2}}]}]}]}}`

func TestJaeger(t *testing.T) {
	base := serve(t, map[string]string{"/jaeger/api/v3/traces": jaegerAnswer}, func(r *http.Request) {
		want := "query.num_traces=7&query.operation_name=search_memory&query.search_depth=7&query.service_name=fuser" +
			"&query.start_time_max=2023-11-14T23%3A13%3A20Z&query.start_time_min=2023-11-14T22%3A13%3A20Z"
		if r.URL.RawQuery != want {
			t.Errorf("asked %s, want %s", r.URL.RawQuery, want)
		}
	})
	got, err := traces.Jaeger(t.Context(), base+"/jaeger/", query)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	search, leg := find(t, got, "search_memory"), find(t, got, "leg dense")
	if search.GetService() != "fuser" || search.GetDuration().AsDuration() != 5120*time.Microsecond || search.GetStart().AsTime().UnixMicro() != 1700000001000001 ||
		search.GetAttributes()["triskele.degraded"] != "true" || search.GetAttributes()["triskele.budget_us"] != "500000" || search.GetFailed() {
		t.Errorf("%v", search)
	}
	if leg.GetParentId() != search.GetId() || leg.GetService() != "dense" || !leg.GetFailed() {
		t.Errorf("%v", leg)
	}
}

// TestJaegerWithoutTraces: Jaeger says 404 if it has none.
func TestJaegerWithoutTraces(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"httpCode":404,"message":"No traces found"}}`, http.StatusNotFound)
	}))
	defer server.Close()
	if got, err := traces.Jaeger(t.Context(), server.URL, query); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v, want no traces", got, err)
	}
}

func TestTempo(t *testing.T) {
	trace := func(id, name string) string {
		return `{"batches":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"fuser"}}]},"scopeSpans":[{"spans":[
 {"traceId":"` + id + `","spanId":"7uGbfsPBsXQ=","name":"` + name + `","startTimeUnixNano":"1700000001000000001","endTimeUnixNano":"1700000001005000001"}]}]}]}`
	}
	base := serve(t, map[string]string{
		"/api/search": `{"traces":[{"traceID":"5b8efff798038103d269b633813fc60c","rootServiceName":"fuser","durationMs":5},{"traceID":"17"}],"metrics":{"inspectedTraces":2}}`,
		"/api/traces/5b8efff798038103d269b633813fc60c": trace("W47/95gDgQPSabYzgT/GDA==", "first"),
		"/api/traces/17": trace("AAAAAAAAAAAAAAAAAAAAFw==", "second"),
	}, func(r *http.Request) {
		if r.URL.Path != "/api/search" {
			return
		}
		for name, want := range map[string]string{
			"q": `{ resource.service.name = "fuser" && name = "search_memory" }`, "limit": "7", "start": "1700000000", "end": "1700003601",
		} {
			if got := r.URL.Query().Get(name); got != want {
				t.Errorf("asked with %s %q, want %q", name, got, want)
			}
		}
	})
	got, err := traces.Tempo(t.Context(), base, query)
	if err != nil || len(got) != 2 || got[0].ID != "5b8efff798038103d269b633813fc60c" || got[1].ID != "00000000000000000000000000000017" {
		t.Fatalf("%v, %v", got, err)
	}
	if span := find(t, got, "second"); span.GetDuration().AsDuration() != 5*time.Millisecond {
		t.Errorf("%v", span)
	}
}

func TestSpansOfATraceMayBeApart(t *testing.T) {
	line := func(trace, span int) string {
		return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%016x","name":"s%d","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}`, trace, span, span)
	}
	got, err := traces.Read(strings.NewReader(line(1, 1) + "\n" + line(2, 2) + "\n" + line(1, 3) + "\n"))
	if err != nil || len(got) != 2 || len(got[0].Spans) != 2 || len(got[1].Spans) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestErrorsSayWhoAnsweredWhat(t *testing.T) {
	base := serve(t, map[string]string{"/api/traces": `<!doctype html>`, "/api/v3/traces": `<!doctype html>`, "/api/search": `{"traces":[{"traceID":"17"}]}`}, nil)
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer closed.Close()
	type source func(context.Context, string, traces.Query) ([]otlp.Trace, error)
	for want, try := range map[string]struct {
		source
		base string
	}{
		"/api/v3/traces: document 1":       {traces.Jaeger, base},
		"404 Not Found":                    {traces.Tempo, base},
		"document 1":                       {traces.Recent, base},
		"a token that has the scope admin": {traces.Recent, closed.URL},
		"is not a URL":                     {traces.Jaeger, "localhost"},
	} {
		if _, err := try.source(t.Context(), try.base, query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	elsewhere := serve(t, map[string]string{"/api/v3/traces": jaegerAnswer}, nil)
	moved := httptest.NewServer(http.RedirectHandler(elsewhere+"/api/v3/traces", http.StatusFound))
	defer moved.Close()
	if _, err := traces.Jaeger(t.Context(), moved.URL, query); err == nil || !strings.Contains(err.Error(), "redirects to") {
		t.Errorf("followed a redirection with its headers: %v", err)
	}
}

// FuzzJaeger answers with anything.
func FuzzJaeger(f *testing.F) {
	f.Add(jaegerAnswer)
	f.Fuzz(func(t *testing.T, text string) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		defer server.Close()
		all, err := traces.Jaeger(t.Context(), server.URL, query)
		if err != nil {
			return
		}
		for _, trace := range all {
			for _, span := range trace.Spans {
				if span.GetId() == "" || span.GetDuration().AsDuration() < 0 || span.GetStart().CheckValid() != nil {
					t.Fatalf("%v", span)
				}
			}
		}
	})
}
