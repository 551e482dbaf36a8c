package render_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/spending"
)

// slowDense are 20 recalls in which the dense leg takes ever longer, until it is cut off after 80 ms.
func slowDense() (out []otlp.Trace) {
	for i := range 20 {
		begin := day.Add(time.Duration(i) * time.Second)
		trace := otlp.Trace{ID: fmt.Sprintf("%032x", i+1)}
		add := func(id, parent, name string, took time.Duration, attributes map[string]string) {
			trace.Spans = append(trace.Spans, &triskelev1.Span{
				Id: id, ParentId: parent, Name: name, Service: "fuser", Start: timestamppb.New(begin), Duration: durationpb.New(took), Attributes: attributes,
			})
		}
		dense, state := time.Duration(2+6*i)*time.Millisecond, "OK"
		if dense > 80*time.Millisecond {
			dense, state = 80*time.Millisecond, "TIMED_OUT"
		}
		add("1", "", "search_memory", dense+2*time.Millisecond, map[string]string{
			"gen_ai.operation.name": "search_memory", "triskele.budget_us": "100000", "triskele.degraded": strconv.FormatBool(state != "OK"),
		})
		for name, leg := range map[string]struct {
			took  time.Duration
			state string
		}{"lexical": {3 * time.Millisecond / 2, "OK"}, "dense": {dense, state}} {
			add("retrieval "+name, "1", "retrieval "+name, leg.took, map[string]string{
				"triskele.leg": name, "triskele.state": leg.state, "triskele.spent_us": strconv.FormatInt(leg.took.Microseconds(), 10), "triskele.budget_us": "80000",
			})
		}
		out = append(out, trace)
	}
	return out
}

func TestSpending(t *testing.T) {
	quality, err := spending.ParseQuality([]byte(`{"plan": "fusion", "lost": [{"legs": [], "means": {"notes": {"recall@10": 0.9}, "a longer name": {"recall@10": 0.7}}},
		{"legs": ["dense"], "means": {"notes": {"recall@10": 0.5}, "a longer name": {"recall@10": 0.6}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	report, err := spending.Analyse(slowDense(), spending.Rule{}, []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, time.Second}, quality)
	if err != nil {
		t.Fatal(err)
	}
	report.Source = "traces.json"
	golden(t, "spending.golden", render.Style{}.Spending(report))
}
