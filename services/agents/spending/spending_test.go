package spending_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/spending"
)

// searched is a leg's part in a constructed recall: its state, what it took and what it had, in milliseconds.
type searched struct {
	leg, state   string
	took, budget float64
}

func ms(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// trace is a recall whose legs began with it, and that returned 1 ms after the last of them.
func trace(n int, legs ...searched) otlp.Trace {
	origin := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC).Add(time.Duration(n) * time.Second)
	end := 0.
	for _, s := range legs {
		end = max(end, s.took)
	}
	span := func(id, parent, service, name string, from, took float64, attributes map[string]string) *triskelev1.Span {
		return &triskelev1.Span{
			Id: id, ParentId: parent, Service: service, Name: name, Start: timestamppb.New(origin.Add(ms(from))), Duration: durationpb.New(ms(took)), Attributes: attributes,
		}
	}
	t := otlp.Trace{ID: fmt.Sprintf("%032x", n+1)}
	t.Spans = append(t.Spans,
		span("root", "", "fuser", "triskele.v1.RecallService/Recall", 0, end+2, nil),
		span("search", "root", "fuser", "search_memory", 0.5, end+1, map[string]string{
			"gen_ai.operation.name": "search_memory", "triskele.budget_us": "500000", "triskele.degraded": "false",
		}))
	for _, s := range legs {
		t.Spans = append(t.Spans, span(s.leg, "search", "fuser", "retrieval "+s.leg, 0.5, s.took, map[string]string{
			"triskele.leg": s.leg, "triskele.state": s.state,
			"triskele.spent_us": strconv.Itoa(int(1000 * s.took)), "triskele.budget_us": strconv.Itoa(int(1000 * s.budget)),
		}), span(s.leg+" server", s.leg, s.leg, s.leg+".search", 1, max(s.took-1, 0), nil))
	}
	return t
}

func analyse(t *testing.T, rule spending.Rule, quality *spending.Quality, budgets []float64, traces ...otlp.Trace) *spending.Report {
	t.Helper()
	var tried []time.Duration
	for _, b := range budgets {
		tried = append(tried, ms(b))
	}
	report, err := spending.Analyse(traces, rule, tried, quality)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestTheSlowLegIsNamed(t *testing.T) {
	var all []otlp.Trace
	for i := range 40 {
		all = append(all, trace(i, searched{"lexical", "OK", 2, 450}, searched{"dense", "OK", 43, 450}, searched{"graph", "OK", 3, 450}))
	}
	report := analyse(t, spending.Rule{}, nil, nil, all...)
	if part := report.Parts[0]; part.Name != "retrieval dense" || !near(part.Share, 43./45) || !near(part.Tail, 43./45) {
		t.Errorf("parts %+v", report.Parts)
	}
	sum := 0.
	for _, h := range report.Hops {
		sum += h.Share
	}
	if !near(sum, 1) {
		t.Errorf("the hops' shares add up to %v: %+v", sum, report.Hops)
	}
	if report.Took.P50 != 45 || report.Budget != 500 || report.Recalls != 40 {
		t.Errorf("took %+v of %v, %d recalls", report.Took, report.Budget, report.Recalls)
	}
}

func TestDropped(t *testing.T) {
	// Of 100 ms the gateway keeps 20; dense had 80 and was cut off once.
	all := []otlp.Trace{
		trace(0, searched{"dense", "OK", 10, 400}, searched{"graph", "OK", 4, 400}),
		trace(1, searched{"dense", "OK", 30, 400}, searched{"graph", "ABSTAINED", 1, 400}),
		trace(2, searched{"dense", "TIMED_OUT", 80, 80}, searched{"graph", "OK", 4, 80}),
		trace(3, searched{"dense", "FAILED", 1, 400}, searched{"graph", "SKIPPED", 0, 400}),
	}
	report := analyse(t, spending.Rule{}, nil, []float64{1, 10, 20, 100, 200}, all...)
	for i, want := range []map[string]spending.Dropped{
		{"dense": {Share: 1}, "graph": {Share: 1}},          // 1 ms is too little for anything
		{"dense": {Share: 1}, "graph": {}},                  // 8 ms
		{"dense": {Share: 2. / 3}, "graph": {}},             // 16 ms
		{"dense": {Share: 1. / 3}, "graph": {}},             // 80 ms: cut off again
		{"dense": {Share: 0, Unknown: 1. / 3}, "graph": {}}, // 160 ms: nobody knows
	} {
		for leg, d := range want {
			if got := report.Budgets[i].Legs[leg]; !near(got.Share, d.Share) || !near(got.Unknown, d.Unknown) {
				t.Errorf("%v ms, %s: %+v, want %+v", report.Budgets[i].Budget, leg, got, d)
			}
		}
	}
	for _, l := range report.Legs {
		if l.Name == "dense" && (l.Answered != 2 || l.CutOff != 1 || l.Broken != 1 || l.Took.P95 != 80 || !l.AtLeast.P95 || l.AtLeast.P50) {
			t.Errorf("dense %+v", l)
		}
		if l.Name == "graph" && (l.Answered != 3 || l.Broken != 1 || l.AtLeast.P99) {
			t.Errorf("graph %+v", l)
		}
	}
}

func TestTruncation(t *testing.T) {
	// One ran out of time, the other of rows to read.
	report := analyse(t, spending.Rule{}, nil, []float64{200},
		trace(0, searched{"lexical", "TRUNCATED", 79, 80}), trace(1, searched{"lexical", "TRUNCATED", 5, 80}))
	if l := report.Legs[0]; l.CutOff != 1 || l.Answered != 1 {
		t.Errorf("%+v", l)
	}
}

func TestTheGatewaysOwnRuleDivides(t *testing.T) {
	one := trace(0, searched{"dense", "OK", 30, 400}, searched{"graph", "OK", 30, 400})
	rule := spending.Rule{"dense": {Share: 1, Cap: 20 * time.Millisecond}, "graph": {Share: .5}}
	report := analyse(t, rule, nil, []float64{50, 80}, one)
	// Of 80 ms, 64 are for the legs. dense may have 20 of them however long the budget, and graph half.
	if got := report.Budgets[1].Legs; got["dense"].Share != 1 || got["graph"].Share != 0 {
		t.Errorf("80 ms: %+v", got)
	}
	if got := report.Budgets[0].Legs; got["graph"].Share != 1 {
		t.Errorf("50 ms: %+v", got)
	}
}

const evaluation = `{"plan": "lost", "lost": [
 {"legs": [], "means": {"notes": {"recall@10": 0.9}}}, {"legs": ["dense"], "means": {"notes": {"recall@10": 0.5}}},
 {"legs": ["graph"], "means": {"notes": {"recall@10": 0.8}}}]}`

func TestQualityFollowsWhatIsLostTogether(t *testing.T) {
	quality, err := spending.ParseQuality([]byte(evaluation))
	if err != nil {
		t.Fatal(err)
	}
	// Both are late in half of the recalls, and in the same half: independent of each other, one would be alone in a quarter.
	all := []otlp.Trace{
		trace(0, searched{"dense", "OK", 30, 400}, searched{"graph", "OK", 30, 400}),
		trace(1, searched{"dense", "OK", 3, 400}, searched{"graph", "OK", 3, 400}),
	}
	report := analyse(t, spending.Rule{}, quality, []float64{20, 100}, all...)
	if got := report.Budgets[0].Quality["notes"]["recall@10"]; !near(got.Low, 0.45) || !near(got.High, 0.45) {
		t.Errorf("20 ms: %+v, want half of the best and half of nothing", got)
	}
	if got := report.Budgets[1].Quality["notes"]["recall@10"]; !near(got.Low, 0.9) {
		t.Errorf("100 ms: %+v", got)
	}
	if got := report.Budgets[0].Together; len(got) != 2 || !near(got[0].Share, 0.5) {
		t.Errorf("together %+v", got)
	}
	// What was cut off before is worth its loss at worst and nothing at best, and failing is not a matter of time.
	report = analyse(t, spending.Rule{}, quality, []float64{1000}, trace(0, searched{"dense", "TIMED_OUT", 30, 30}, searched{"graph", "OK", 3, 30}),
		trace(1, searched{"dense", "OK", 3, 30}, searched{"graph", "FAILED", 3, 30}))
	if got := report.Budgets[0].Quality["notes"]["recall@10"]; !near(got.Low, (0.5+0.8)/2) || !near(got.High, (0.9+0.8)/2) {
		t.Errorf("1 s: %+v", got)
	}
}

func TestParseQualityRefuses(t *testing.T) {
	for _, text := range []string{`[]`, `{}`, `{"lost": [{"legs": ["dense"]}]}`} {
		if _, err := spending.ParseQuality([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

func TestNothing(t *testing.T) {
	if _, err := spending.Analyse([]otlp.Trace{{ID: "x", Spans: []*triskelev1.Span{{Id: "a", Name: "embeddings"}}}}, spending.Rule{}, nil, nil); !errors.Is(err, spending.ErrNothing) {
		t.Error(err)
	}
}

// FuzzAnalyse makes traces of any shape with any attributes.
func FuzzAnalyse(f *testing.F) {
	f.Add([]byte{0, 0, 1, 20, 0, 1, 2, 2, 10, 1, 1, 3, 3, 10, 2}, "dense", "TIMED_OUT", "80000")
	f.Fuzz(func(t *testing.T, shape []byte, name, state, spent string) {
		one := otlp.Trace{ID: "1"}
		for i := 0; i+4 < len(shape); i += 5 {
			span := &triskelev1.Span{
				Id: strconv.Itoa(int(shape[i])), ParentId: strconv.Itoa(int(shape[i+1])), Name: name, Service: strconv.Itoa(int(shape[i+4] % 3)),
				Start: timestamppb.New(time.UnixMilli(int64(shape[i+2]))), Duration: durationpb.New(time.Duration(shape[i+3]) * time.Millisecond),
				Attributes: map[string]string{"triskele.state": state, "triskele.spent_us": spent, "triskele.budget_us": spent},
			}
			switch shape[i+4] % 4 {
			case 0:
				span.Attributes["gen_ai.operation.name"] = "search_memory"
			case 1:
				span.Attributes["triskele.leg"] = name
			case 2:
				span.Name = "RecallService/Recall"
			}
			one.Spans = append(one.Spans, span)
		}
		report, err := spending.Analyse([]otlp.Trace{one}, spending.Rule{}, []time.Duration{10 * time.Millisecond, time.Second}, nil)
		if err != nil {
			return
		}
		for _, p := range report.Parts {
			if !(p.Share >= 0 && p.Share <= 1+1e-9) {
				t.Fatalf("%+v", report.Parts)
			}
		}
	})
}
