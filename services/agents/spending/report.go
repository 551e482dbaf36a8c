package spending

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

// Report is the analysis of recorded recalls. Shares are from 0 to 1.
type Report struct {
	Source   string           `json:"source"` // of the traces, in words
	Recalls  int              `json:"recalls"`
	From     time.Time        `json:"from"` // start of the first recall
	To       time.Time        `json:"to"`   // start of the last recall
	Degraded int              `json:"degraded"`
	Failed   int              `json:"failed"`
	Took     eval.Percentiles `json:"took"`
	Budget   float64          `json:"budget_ms"` // the median of the recalls with a budget
	Parts    []Part           `json:"parts"`     // the largest share first
	Hops     []Hop            `json:"hops"`      // as a tree, from the root
	Legs     []Leg            `json:"legs"`      // by name
	Budgets  []Point          `json:"budgets"`
	Quality  string           `json:"quality,omitempty"` // the plan of the evaluation
}

// Part is one of the things that recalls wait for.
type Part struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`      // of the time on the critical paths
	Tail  float64 `json:"share_tail"` // the same, of the slowest 5 %
}

// Hop is a place in the tree of a trace, with the spans that all traces have there.
type Hop struct {
	Service string           `json:"service"`
	Name    string           `json:"name"`
	Depth   int              `json:"depth"` // below the root
	Spans   int              `json:"spans"`
	Took    eval.Percentiles `json:"took"`
	// The hop's own time on the critical path, without the hops below it.
	Share float64 `json:"share"`
	Tail  float64 `json:"share_tail"`
}

// Leg counts how the searches of a leg ended, according to the gateway.
type Leg struct {
	Name     string           `json:"name"`
	Answered int              `json:"answered"`
	CutOff   int              `json:"cut_off"`  // by their budget
	Broken   int              `json:"broken"`   // failed or skipped
	Unneeded int              `json:"unneeded"` // could no longer matter
	Took     eval.Percentiles `json:"took"`     // of the answered and cut off
	// AtLeast marks percentiles that are lower bounds: a search of that time was cut off, and would have taken longer.
	AtLeast struct {
		P50 bool `json:"p50"`
		P95 bool `json:"p95"`
		P99 bool `json:"p99"`
	} `json:"at_least"`
	Budget float64 `json:"budget_ms"` // the median
}

// Sets returns the sets of queries of the evaluation.
func (report *Report) Sets() []string {
	if len(report.Budgets) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(report.Budgets[0].Quality))
}

// Measures returns the evaluation's measures of quality.
func (report *Report) Measures() []string {
	sets := report.Sets()
	if len(sets) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(report.Budgets[0].Quality[sets[0]]))
}

// ErrNothing means that the traces have no recall.
var ErrNothing = errors.New("the traces have no recall")

// Analyse reports how the recalls in the traces spent their time, and predicts the effect of each of the budgets.
func Analyse(traces []otlp.Trace, rule Rule, budgets []time.Duration, quality *Quality) (*Report, error) {
	var all []*recall
	for _, trace := range traces {
		all = append(all, recalls(trace)...)
	}
	if len(all) == 0 {
		return nil, ErrNothing
	}
	slices.SortFunc(all, func(a, b *recall) int { return a.began().Compare(b.began()) })
	report := &Report{Recalls: len(all), From: all[0].began(), To: all[len(all)-1].began()}
	var times, given []time.Duration
	for _, r := range all {
		times = append(times, r.took())
		if r.budget > 0 {
			given = append(given, r.budget)
		}
		switch {
		case r.search.GetFailed():
			report.Failed++
		case r.degraded:
			report.Degraded++
		}
	}
	report.Took, report.Budget = eval.NewPercentiles(times), eval.NewPercentiles(given).P50
	report.spend(all)
	report.Legs = legs(all)
	for _, budget := range budgets {
		report.Budgets = append(report.Budgets, rule.point(all, budget, quality))
	}
	if quality != nil {
		report.Quality = quality.Plan
	}
	return report, nil
}

type hop struct {
	Hop
	took       []time.Duration
	children   map[[2]string]*hop // by service and name
	self, tail time.Duration      // own time on the critical path: of all recalls, and of the slowest 5 %
}

func (h *hop) child(span *triskelev1.Span) *hop {
	id := [2]string{span.GetService(), short(span.GetName())}
	if h.children[id] == nil {
		h.children[id] = &hop{Hop: Hop{Service: id[0], Name: id[1], Depth: h.Depth + 1}, children: map[[2]string]*hop{}}
	}
	return h.children[id]
}

func (report *Report) spend(all []*recall) {
	var total, tailTotal time.Duration
	top := &hop{Hop: Hop{Depth: -1}, children: map[[2]string]*hop{}}
	parts := map[string][2]time.Duration{}
	for _, r := range all {
		slow := milliseconds(r.took()) >= report.Took.P95
		total += r.took()
		if slow {
			tailTotal += r.took()
		}
		hops := map[*triskelev1.Span]*hop{}
		var place func(span *triskelev1.Span, in *hop)
		place = func(span *triskelev1.Span, in *hop) {
			if hops[span] != nil {
				return // the trace has a cycle
			}
			h := in.child(span)
			hops[span] = h
			h.took = append(h.took, span.GetDuration().AsDuration())
			for _, child := range r.children[span.GetId()] {
				place(child, h)
			}
		}
		place(r.root, top)
		for _, s := range r.path {
			h, name := hops[s.Span], r.part(s.Span)
			part := parts[name]
			h.self += s.Took
			part[0] += s.Took
			if slow {
				h.tail += s.Took
				part[1] += s.Took
			}
			parts[name] = part
		}
	}
	share := func(d, of time.Duration) float64 { return float64(d) / float64(max(of, 1)) }
	for name, part := range parts {
		report.Parts = append(report.Parts, Part{name, share(part[0], total), share(part[1], tailTotal)})
	}
	slices.SortFunc(report.Parts, func(a, b Part) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name)) })
	var list func(h *hop)
	list = func(h *hop) {
		if h.Depth >= 0 {
			h.Spans, h.Took = len(h.took), eval.NewPercentiles(h.took)
			h.Share, h.Tail = share(h.self, total), share(h.tail, tailTotal)
			report.Hops = append(report.Hops, h.Hop)
		}
		for _, child := range slices.SortedFunc(maps.Values(h.children), func(a, b *hop) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Service, b.Service))
		}) {
			list(child)
		}
	}
	list(top)
}

func legs(all []*recall) (out []Leg) {
	of := map[string][]leg{}
	for _, r := range all {
		for name, l := range r.legs {
			of[name] = append(of[name], l)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		l := Leg{Name: name}
		var times, given []time.Duration
		least := time.Duration(-1) // of the searches that were cut off
		for _, one := range of[name] {
			given = append(given, one.budget)
			switch one.outcome {
			case answered:
				l.Answered++
				times = append(times, one.spent)
			case cutOff:
				l.CutOff++
				times = append(times, one.spent)
				if least < 0 || one.spent < least {
					least = one.spent
				}
			case broken:
				l.Broken++
			case unneeded:
				l.Unneeded++
			}
		}
		l.Took, l.Budget = eval.NewPercentiles(times), eval.NewPercentiles(given).P50
		if least >= 0 {
			ms := milliseconds(least)
			l.AtLeast.P50, l.AtLeast.P95, l.AtLeast.P99 = l.Took.P50 >= ms, l.Took.P95 >= ms, l.Took.P99 >= ms
		}
		out = append(out, l)
	}
	return out
}
