package e2e_test

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// collector receives OTLP traces, as an OpenTelemetry collector would.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string][]*tracepb.Span // by service.name
}

func (c *collector) Export(_ context.Context, req *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		service := ""
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				service = attribute.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			c.spans[service] = append(c.spans[service], scope.GetSpans()...)
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// TestTracesAreExported sets nothing but the standard variables and stores and recalls a memory. When the processes have
// stopped, the collector has one trace that runs through all five of them down to SQL, in an unbroken tree.
func TestTracesAreExported(t *testing.T) {
	t.Parallel()
	received, env := receive(t)
	s := startWith(t, setup{env: env})
	const canary = "xylophonequetzal"
	s.remember(&triskelev1.Memory{Namespace: "otlp", Title: "Kestrel " + canary, Content: "The Kestrel project backs up " + canary + "."})
	s.awaitIndexes("otlp")
	resp, err := s.recall.Recall(t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{"otlp"}, Query: "What does Kestrel do about " + canary + "?", Budget: durationpb.New(5 * time.Second),
	})
	if err != nil || len(resp.GetHits()) != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	for name, p := range s.processes { // an orderly stop flushes what has not been sent
		s.signal(name, syscall.SIGTERM)
		_ = p.cmd.Wait()
	}

	received.mu.Lock()
	defer received.mu.Unlock()
	spans := map[string]*tracepb.Span{} // of the recall's trace, by id
	var seen []string
	for service, of := range received.spans {
		for _, span := range of {
			if strings.Contains(span.String(), canary) {
				t.Errorf("%s exported text: %v", service, span)
			}
			if hex.EncodeToString(span.GetTraceId()) == resp.GetTraceId() {
				spans[hex.EncodeToString(span.GetSpanId())] = span
				seen = append(seen, service+" "+span.GetName())
			}
		}
	}
	for _, want := range []string{
		"fuser triskele.v1.RecallService/Recall", "fuser search_memory", "fuser retrieval lexical",
		"lexical triskele.v1.LegService/Search", "lexical lexical.search",
		"dense dense.search", "graph graph.search",
		"memory triskele.v1.MemoryService/Get", "memory SELECT",
	} {
		if !slices.ContainsFunc(seen, func(name string) bool { return strings.HasPrefix(name, want) }) {
			t.Errorf("no span %q among %q", want, seen)
		}
	}
	roots := 0
	for _, span := range spans {
		if parent := hex.EncodeToString(span.GetParentSpanId()); parent == "" {
			roots++
		} else if spans[parent] == nil {
			t.Errorf("%s has a parent that was not exported", span.GetName())
		}
	}
	if roots != 1 {
		t.Errorf("%d roots, want the gateway's", roots)
	}
}
