package gateway

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/timespan"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// defaultTimeWeight is the weight of a time in the query where no request or policy gives one.
	defaultTimeWeight = 4
	// maxTimed is how many of the best memories a time in the query may put into a new order.
	maxTimed = 50
)

// times are the times that a query names, if they count.
type times struct {
	now    time.Time
	factor float64 // of the scores of memories that fit
	spans  []timespan.Span
	event  timespan.Event
	named  bool // whether there is an event
}

func timesOf(req *triskelev1.RecallRequest, s settings, now time.Time) times {
	weight := s.times.GetWeight()
	if weight == 0 || req.GetSortBy() == triskelev1.SortBy_SORT_BY_RECENCY {
		return times{}
	}
	if req.GetAsOf() != nil {
		now = req.GetAsOf().AsTime()
	}
	t := times{now: now, factor: 1 + weight, spans: timespan.Find(req.GetQuery(), now)}
	t.event, t.named = timespan.FindEvent(req.GetQuery())
	return t
}

func (t times) any() bool { return len(t.spans) > 0 || t.named }

// prefer raises the winners whose dates fit a time in the query, and sorts by score again.
func (r *recall) prefer(winners []winner) {
	spans, event := r.times.spans, r.times.happened(winners)
	if event >= 0 {
		spans = append(slices.Clip(spans), r.times.event.Span(winners[event].memory.GetOccurredAt().AsTime(), r.times.now))
	}
	raised := false
	for i := range winners {
		m := winners[i].memory
		if m == nil {
			continue
		}
		spans := spans
		if i == event { // who dates a question by an event asks about something else
			spans = r.times.spans
		}
		at := cmp.Or(m.GetOccurredAt(), m.GetCreatedAt()).AsTime()
		for _, span := range spans {
			if span.Contains(at) {
				winners[i].matchedTime, raised = span.Text, true
				raise(&winners[i].Fused, r.times.factor, r.fusion.Method)
				break
			}
		}
	}
	if raised {
		slices.SortStableFunc(winners, func(a, b winner) int { return cmp.Compare(b.Score, a.Score) })
	}
}

// happened returns the winner that is the query's event, or -1: the best one with a date whose title, or the last heading in it, begins
// with the event's name.
func (t times) happened(winners []winner) int {
	if !t.named {
		return -1
	}
	name := strings.ToLower(t.event.Name)
	for i, w := range winners {
		title := strings.ToLower(w.memory.GetTitle())
		title = strings.TrimPrefix(title[strings.LastIndex(title, "> ")+1:], " ")
		title = strings.TrimPrefix(title, "the ")
		if rest, begins := strings.CutPrefix(title, name); begins && w.memory.GetOccurredAt() != nil && (rest == "" || rest[0] == ' ') {
			return i
		}
	}
	return -1
}

// raise multiplies a score, or a probability's odds. The contributions still add up to it.
func raise(f *fusion.Fused, factor float64, method triskelev1.FusionMethod) {
	f.Prior *= factor
	if method == calibrated {
		f.Base += math.Log(factor)
		addLogOdds(f, math.Log(factor))
		return
	}
	f.Score *= factor
	f.Contributions = slices.Clone(f.Contributions)
	for i := range f.Contributions {
		f.Contributions[i].Value *= factor
	}
}
