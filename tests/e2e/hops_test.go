package e2e_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// receive runs a collector of traces until the test ends.
func receive(t *testing.T) (received *collector, environment []string) {
	t.Helper()
	received = &collector{spans: map[string][]*tracepb.Span{}}
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, received)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return received, []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc"}
}

// hop is a span with the service it is of and what it called.
type hop struct {
	*tracepb.Span
	service  string
	children []*hop
}

// attribute returns an attribute as text, "" if the span lacks it.
func (h *hop) attribute(key string) string {
	for _, kv := range h.GetAttributes() {
		if kv.GetKey() == key {
			value := kv.GetValue()
			if s := value.GetStringValue(); s != "" {
				return s
			}
			return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(value.GetValue()), "&{"), "}")
		}
	}
	return ""
}

// find returns the first span below, or h itself, of a service and with a name that begins so.
func (h *hop) find(service, name string) *hop {
	if h.service == service && strings.HasPrefix(h.GetName(), name) {
		return h
	}
	for _, child := range h.children {
		if found := child.find(service, name); found != nil {
			return found
		}
	}
	return nil
}

// tree returns the root of a trace, or fails if it is not one tree.
func (c *collector) tree(t *testing.T, trace string) *hop {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]*hop{}
	for service, spans := range c.spans {
		for _, span := range spans {
			if hex.EncodeToString(span.GetTraceId()) == trace {
				all[hex.EncodeToString(span.GetSpanId())] = &hop{Span: span, service: service}
			}
		}
	}
	var root *hop
	for _, h := range all {
		switch parent := all[hex.EncodeToString(h.GetParentSpanId())]; {
		case parent != nil:
			parent.children = append(parent.children, h)
		case root != nil:
			t.Fatalf("%s %s and %s %s have no parent", root.service, root.GetName(), h.service, h.GetName())
		default:
			root = h
		}
	}
	if root == nil {
		t.Fatalf("nothing was exported of trace %s", trace)
	}
	return root
}

// step is what a span adds to the critical path by itself.
type step struct {
	name string
	self time.Duration
}

// critical goes back from the end of a span: what ended last held it up, and before that what ended last before it began.
// What no child covers is the span's own. The steps add up to what they say the call took.
func critical(h *hop) (steps []step) {
	slices.SortFunc(h.children, func(a, b *hop) int { return -cmp.Compare(a.GetEndTimeUnixNano(), b.GetEndTimeUnixNano()) })
	own, at := time.Duration(0), h.GetEndTimeUnixNano()
	for _, child := range h.children {
		if child.GetEndTimeUnixNano() > at || child.GetStartTimeUnixNano() < h.GetStartTimeUnixNano() {
			continue // beside what was waited for
		}
		own += time.Duration(at - child.GetEndTimeUnixNano())
		steps = append(steps, critical(child)...)
		at = child.GetStartTimeUnixNano()
	}
	own += time.Duration(at - h.GetStartTimeUnixNano())
	return append(steps, step{h.service + " " + h.GetName(), own})
}

// TestEveryMillisecondIsAccountedFor slows the way to the dense leg by a known time and recalls through five processes. What a
// client waits is what the spans on the critical path add up to, and the slow hop is the one that has the time.
func TestEveryMillisecondIsAccountedFor(t *testing.T) {
	t.Parallel()
	const slowed = 400 * time.Millisecond
	received, env := receive(t)
	var dense *proxy
	s := startWith(t, setup{env: env, via: func(name, address string) string {
		if name != "dense" {
			return address
		}
		dense = newProxy(t, address)
		return dense.address()
	}})
	s.seed("hops")
	if _, err := dense.Toxics.AddToxicJson(strings.NewReader(`{"name": "slow", "type": "latency", "stream": "downstream", "attributes": {"latency": 400}}`)); err != nil {
		t.Fatal(err)
	}
	// A machine that is busy elsewhere stops processes for longer than 5 % of a recall now and then, not in every one of so many.
	const recalls = 10
	waited := map[string]time.Duration{} // by clients, by trace
	for range recalls {
		start := time.Now()
		resp, err := s.ask("hops", 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		waited[resp.GetTraceId()] = time.Since(start)
	}
	// One that is cut off.
	var cut *triskelev1.RecallResponse
	s.eventually("a recall goes without the dense leg", func() bool { // a busy machine may have no answer at all in that time
		resp, err := s.ask("hops", 200*ms)
		cut = resp
		return err == nil && report(resp, "dense").GetState() == timedOut
	})
	for name, p := range s.processes { // an orderly stop flushes what has not been sent
		s.signal(name, syscall.SIGTERM)
		_ = p.cmd.Wait()
	}

	var best []string
	for trace, waited := range waited {
		root := received.tree(t, trace)
		checkTree(t, root)
		var sum, slowest time.Duration
		steps := critical(root)
		for _, step := range steps {
			if sum += step.self; step.name == "fuser triskele.v1.LegService/Search" {
				slowest = step.self // the client's span, without the leg's own
			}
		}
		if off := waited - sum; off.Abs() <= waited/20 && slowest > slowed*9/10 && slowest > sum*3/4 {
			return
		}
		best = append(best, fmt.Sprintf("waited %v, %v on the critical path, %v of it on the way to the leg: %v", waited, sum, slowest, steps))
	}
	t.Errorf("in none of the recalls is the time accounted for:\n%s", strings.Join(best, "\n"))

	leg := received.tree(t, cut.GetTraceId()).find("fuser", "retrieval dense")
	if leg.attribute("triskele.state") != "TIMED_OUT" || !strings.Contains(leg.attribute("triskele.reason"), "no answer within") || leg.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the leg that was cut off has the span %v", leg)
	}
}

// checkTree makes sure that a recall's spans are where they belong and say what they are to say.
func checkTree(t *testing.T, root *hop) {
	t.Helper()
	if root.service != "fuser" || root.GetName() != "triskele.v1.RecallService/Recall" {
		t.Errorf("the root is %s %s", root.service, root.GetName())
	}
	search := root.find("fuser", "search_memory")
	has := func(h *hop, keys ...string) {
		t.Helper()
		for _, key := range keys {
			if h.attribute(key) == "" {
				t.Errorf("%s %s lacks %s", h.service, h.GetName(), key)
			}
		}
	}
	if search == nil {
		t.Fatal("no span of the search")
	}
	has(search, "triskele.budget_us", "triskele.spent_us", "triskele.fusion", "triskele.degraded", "triskele.overlap", "gen_ai.memory.record.count")
	if search.attribute("gen_ai.operation.name") != "search_memory" {
		t.Errorf("%v", search)
	}
	for _, name := range legs {
		asked := search.find("fuser", "retrieval "+name)
		if asked == nil {
			t.Fatalf("no span of the %s leg", name)
		}
		has(asked, "triskele.budget_us", "triskele.spent_us", "triskele.queued_us", "triskele.hits", "triskele.state")
		searched := asked.find(name, name+".search")
		if searched == nil || asked.find(name, "triskele.v1.LegService/Search") == nil {
			t.Fatalf("no spans of what the %s leg did", name)
		}
		has(searched, "triskele.budget_us", "triskele.spent_us", "triskele.hits", "triskele.state", "triskele.depth")
		if asked.attribute("triskele.leg") != name || asked.attribute("triskele.state") != "OK" || searched.attribute("triskele.state") != "OK" {
			t.Errorf("%v, %v", asked, searched)
		}
		if name == "dense" {
			has(searched, "triskele.cache", "triskele.embed.source")
		}
	}
	if search.find("memory", "triskele.v1.MemoryService/Get") == nil {
		t.Error("no span of fetching the contents")
	}
}
