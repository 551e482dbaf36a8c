package traces_test

import (
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

var header = map[string]string{"Authorization": "Bearer x"}

// serve answers paths with texts and checks what comes with every request.
func serve(t *testing.T, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" || r.URL.RawQuery != "limit=7" {
			t.Errorf("%s was asked for with the header %v", r.URL, r.Header)
		}
		text, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
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

// What Jaeger answers can be read as it is.
func TestJaeger(t *testing.T) {
	got, err := traces.Read(strings.NewReader(jaegerAnswer))
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

// So can what Tempo answers, a document for each trace.
func TestTempo(t *testing.T) {
	trace := func(id, name string) string {
		return `{"batches":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"fuser"}}]},"scopeSpans":[{"spans":[
 {"traceId":"` + id + `","spanId":"7uGbfsPBsXQ=","name":"` + name + `","startTimeUnixNano":"1700000001000000001","endTimeUnixNano":"1700000001005000001"}]}]}]}`
	}
	got, err := traces.Read(strings.NewReader(trace("W47/95gDgQPSabYzgT/GDA==", "first") + trace("AAAAAAAAAAAAAAAAAAAAFw==", "second")))
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

func TestRecent(t *testing.T) {
	got, err := traces.Recent(t.Context(), serve(t, map[string]string{"/below/api/traces": jaegerAnswer})+"/below/", 7, header)
	if err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestErrorsSayWhoAnsweredWhat(t *testing.T) {
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer closed.Close()
	moved := httptest.NewServer(http.RedirectHandler(serve(t, nil), http.StatusFound))
	defer moved.Close()
	for want, base := range map[string]string{
		"/api/traces: document 1":          serve(t, map[string]string{"/api/traces": `<!doctype html>`}),
		"404 Not Found":                    serve(t, nil),
		"a token that has the scope admin": closed.URL,
		"is not a URL":                     "localhost",
		"redirects to":                     moved.URL, // with its headers
	} {
		if _, err := traces.Recent(t.Context(), base, 7, header); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// FuzzRead reads anything.
func FuzzRead(f *testing.F) {
	f.Add(jaegerAnswer)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := traces.Read(strings.NewReader(text))
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
