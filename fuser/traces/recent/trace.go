package recent

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// service is the gateway's name in an outline.
const service = "fuser"

// Trace returns a recall's recorded spans, or else an outline of the gateway and its legs under the same names.
func (r *Recall) Trace() otlp.Trace {
	if len(r.Spans) > 0 {
		return otlp.Trace{ID: r.TraceID, Spans: r.Spans}
	}
	root := &triskelev1.Span{
		Id: r.spanID(0), Name: "search_memory", Service: service, Start: timestamppb.New(r.Start), Duration: durationpb.New(r.Took), Failed: r.Failed != "",
		Attributes: map[string]string{
			"gen_ai.operation.name": "search_memory", "gen_ai.memory.record.count": strconv.Itoa(r.Hits),
			"triskele.degraded": strconv.FormatBool(r.Degraded != ""), "triskele.budget_us": micros(r.Budget), "triskele.spent_us": micros(r.Took),
		},
	}
	out := otlp.Trace{ID: r.TraceID, Spans: []*triskelev1.Span{root}}
	child := func(name string, from, took time.Duration) *triskelev1.Span {
		span := &triskelev1.Span{
			Id: r.spanID(len(out.Spans)), ParentId: root.GetId(), Name: name, Service: service,
			Start: timestamppb.New(r.Start.Add(from)), Duration: durationpb.New(took), Attributes: map[string]string{},
		}
		out.Spans = append(out.Spans, span)
		return span
	}
	for _, l := range r.Legs {
		span := child("retrieval "+l.Name, l.Start, l.Spent)
		span.Failed = l.State == triskelev1.LegState_LEG_STATE_FAILED || l.State == triskelev1.LegState_LEG_STATE_TIMED_OUT
		for name, value := range map[string]string{
			"leg": l.Name, "state": strings.TrimPrefix(l.State.String(), "LEG_STATE_"), "reason": l.Reason, "hits": strconv.Itoa(l.Hits),
			"budget_us": micros(l.Budget), "spent_us": micros(l.Spent), "queued_us": micros(l.Queued), "unneeded": strconv.FormatBool(l.Unneeded),
		} {
			span.Attributes["triskele."+name] = value
		}
		span.Attributes["gen_ai.operation.name"], span.Attributes["gen_ai.data_source.id"] = "retrieval", l.Name
	}
	for _, s := range r.Stages {
		child(s.Name, s.Start, s.Took)
	}
	return out
}

// spanID is unique among this process's recalls.
func (r *Recall) spanID(n int) string { return fmt.Sprintf("%012x%04x", r.ID, n&0xffff) }

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
