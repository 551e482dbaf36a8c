// Package spending answers an operator's question from recorded traces: which hop spends the time of recalls, which leg
// would have been dropped under another budget, and what recall that would have cost. It reads no trace and asks no service.
package spending

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/traces/criticalpath"
	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// fate is how a leg's part in a recall ended, as far as another budget would have changed it.
type fate int

const (
	answered fate = iota // its time is known
	cutOff               // by its budget: it would have taken longer than it did, nobody knows how much
	broken               // failed, or not asked to spare it or the others: more time would not have helped
	spare                // not waited for because it made no difference
)

// leg is a leg's part in a recall; of its searches in several namespaces the one that was worst off.
type leg struct {
	fate          fate
	spent, budget time.Duration
}

// recall is one call, with the part of its trace that belongs to it.
type recall struct {
	root     *triskelev1.Span // the outermost span of the call
	search   *triskelev1.Span // the gateway's
	children map[string][]*triskelev1.Span
	path     []criticalpath.Segment
	budget   time.Duration // 0 if unknown
	degraded bool
	reranked bool
	legs     map[string]leg
}

func (r *recall) took() time.Duration { return r.root.GetDuration().AsDuration() }

// recalls finds the recalls in a trace: each span of the operation search_memory is one.
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
		r := &recall{root: span, search: span, children: children, legs: map[string]leg{}}
		for range 2 { // the call as its server and as its client have it
			if parent := known[r.root.GetParentId()]; parent != nil && strings.HasSuffix(parent.GetName(), "RecallService/Recall") {
				r.root = parent
			}
		}
		r.budget = micros(span, "triskele.budget_us")
		r.degraded = span.GetAttributes()["triskele.degraded"] == "true"
		for _, child := range children[span.GetId()] {
			if name := child.GetAttributes()["triskele.leg"]; name != "" {
				r.legs[name] = worse(r.legs, name, legOf(child))
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
		l.fate = cutOff
	case "TRUNCATED": // by time, unless it ended long before: then by the rows it may read, and had all its time
		if l.spent >= l.budget*8/10 {
			l.fate = cutOff
		}
	case "FAILED":
		l.fate = broken
	case "SKIPPED":
		if l.fate = broken; attributes["triskele.spare"] == "true" {
			l.fate = spare
		}
	}
	return l
}

// worse is a leg with what another of its searches came to.
func worse(legs map[string]leg, name string, l leg) leg {
	before, asked := legs[name]
	order := []fate{answered, spare, cutOff, broken}
	if a, b := slices.Index(order, before.fate), slices.Index(order, l.fate); asked && (a > b || a == b && before.spent > l.spent) {
		return before
	}
	return l
}

func micros(span *triskelev1.Span, attribute string) time.Duration {
	n, err := strconv.ParseInt(span.GetAttributes()[attribute], 10, 64)
	if err != nil || n < 0 || n > int64(24*time.Hour/time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// parts names what each span of the recall belongs to: the gateway's own work, one of the calls it makes, such as a leg, or
// what is around the gateway.
func (r *recall) parts() map[*triskelev1.Span]string {
	parts := map[*triskelev1.Span]string{}
	var mark func(span *triskelev1.Span, part string)
	mark = func(span *triskelev1.Span, part string) {
		if _, marked := parts[span]; marked {
			return // a broken trace
		}
		parts[span] = part
		for _, child := range r.children[span.GetId()] {
			of := part
			switch span {
			case r.search:
				of = short(child.GetName())
			default:
				if child == r.search {
					of = gatewayPart
				}
			}
			mark(child, of)
		}
	}
	first := callPart
	if r.root == r.search {
		first = gatewayPart
	}
	mark(r.root, first)
	return parts
}

const (
	gatewayPart = "gateway itself"
	callPart    = "call to the gateway"
)

// short is a span's name without the package of a gRPC method.
func short(name string) string { return strings.TrimPrefix(name, "triskele.v1.") }
