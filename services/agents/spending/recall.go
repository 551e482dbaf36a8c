// Package spending analyses recorded traces for an operator: which hop spends the time of recalls, which legs another budget
// would drop, and what recall that would cost. Package traces fetches the traces. The process is:
//
//  1. Find the recalls in each trace: the gateway's span, the caller's span around it, and the spans of its legs.
//  2. Take the critical path of each recall. Its segments add up to the shares of Parts and Hops.
//  3. Count how the searches of each leg ended: answered, cut off by their budget, broken or unneeded.
//  4. For each other budget, divide it as the gateway would, and predict for each search whether it would still answer.
//     A search that was cut off may have needed any time, so the prediction can be unknown. Shares are then a range.
//  5. With an evaluation's report (Quality), weigh the quality of each set of lost legs by its share of recalls.
package spending

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/traces/criticalpath"
	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// outcome is how a leg's search ended, as far as more or less time would change it. The order is from best to worst.
type outcome int

const (
	answered outcome = iota // the time it needs is known
	unneeded                // its result could no longer matter, so the gateway did not wait
	cutOff                  // by its budget: the time it needs is longer, but unknown
	broken                  // failed or skipped: more time would not have helped
)

// leg is a leg's search in a recall. If the recall has several namespaces, it is the search with the worst outcome.
type leg struct {
	outcome       outcome
	spent, budget time.Duration
}

type recall struct {
	root     *triskelev1.Span // the outermost span of the call
	search   *triskelev1.Span // the gateway's
	known    map[string]*triskelev1.Span
	children map[string][]*triskelev1.Span
	path     []criticalpath.Segment
	budget   time.Duration // 0 if unknown
	degraded bool
	reranked bool
	legs     map[string]leg
}

func (r *recall) began() time.Time    { return r.root.GetStart().AsTime() }
func (r *recall) took() time.Duration { return r.root.GetDuration().AsDuration() }

// recalls returns the recalls in a trace: one for each span of the operation search_memory.
func recalls(trace otlp.Trace) []*recall {
	known, children := map[string]*triskelev1.Span{}, map[string][]*triskelev1.Span{}
	for _, span := range trace.Spans {
		known[span.GetId()] = span
		children[span.GetParentId()] = append(children[span.GetParentId()], span)
	}
	var out []*recall
	for _, span := range trace.Spans {
		if span.GetAttributes()["gen_ai.operation.name"] != "search_memory" {
			continue
		}
		r := &recall{root: span, search: span, known: known, children: children, legs: map[string]leg{}}
		for range 2 { // the spans of the call at its server and at its client
			if parent := known[r.root.GetParentId()]; parent != nil && strings.HasSuffix(parent.GetName(), "RecallService/Recall") {
				r.root = parent
			}
		}
		r.budget = micros(span, "triskele.budget_us")
		r.degraded = span.GetAttributes()["triskele.degraded"] == "true"
		for _, child := range children[span.GetId()] {
			if name := child.GetAttributes()["triskele.leg"]; name != "" {
				l := legOf(child)
				if before, known := r.legs[name]; !known || l.worseThan(before) {
					r.legs[name] = l
				}
			}
			r.reranked = r.reranked || child.GetName() == "rerank"
		}
		r.path = criticalpath.Path(r.root, trace.Spans)
		out = append(out, r)
	}
	return out
}

func legOf(span *triskelev1.Span) leg {
	attributes := span.GetAttributes()
	l := leg{spent: micros(span, "triskele.spent_us"), budget: micros(span, "triskele.budget_us")}
	if attributes["triskele.spent_us"] == "" {
		l.spent = span.GetDuration().AsDuration()
	}
	switch strings.TrimPrefix(attributes["triskele.state"], "LEG_STATE_") {
	case "TIMED_OUT":
		l.outcome = cutOff
	case "TRUNCATED": // by its budget if it used most of it, else by the limit of rows
		if l.spent >= l.budget*8/10 {
			l.outcome = cutOff
		}
	case "FAILED":
		l.outcome = broken
	case "SKIPPED":
		if l.outcome = broken; attributes["triskele.unneeded"] == "true" {
			l.outcome = unneeded
		}
	}
	return l
}

func (l leg) worseThan(other leg) bool {
	return cmp.Or(cmp.Compare(l.outcome, other.outcome), cmp.Compare(l.spent, other.spent)) >= 0
}

func micros(span *triskelev1.Span, attribute string) time.Duration {
	n, err := strconv.ParseInt(span.GetAttributes()[attribute], 10, 64)
	if err != nil || n < 0 || n > int64(24*time.Hour/time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// part returns the part that a span of the recall belongs to: the gateway's own work, one of the gateway's calls, such as a leg, or
// the call to the gateway.
func (r *recall) part(span *triskelev1.Span) string {
	part := gatewayPart
	for range r.known { // a trace may have a cycle
		if span == r.search {
			return part
		}
		if span == r.root {
			break
		}
		part, span = short(span.GetName()), r.known[span.GetParentId()]
	}
	return callPart
}

const (
	gatewayPart = "gateway itself"
	callPart    = "call to the gateway"
)

// short returns a span's name without the package of a gRPC method.
func short(name string) string { return strings.TrimPrefix(name, "triskele.v1.") }
