package page

import (
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/traces/criticalpath"
	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// row is a span in a waterfall. Times are in microseconds after the root's start.
type row struct {
	Name     string     `json:"name"`
	Service  string     `json:"service"`
	Depth    int        `json:"depth"`
	Start    int64      `json:"start"`
	Took     int64      `json:"took"`
	Critical [][2]int64 `json:"critical"` // start and length of its part of the critical path
	Failed   bool       `json:"failed"`
	State    string     `json:"state,omitempty"`
	Reason   string     `json:"reason,omitempty"`
}

func waterfall(spans []*triskelev1.Span) []row {
	rows := []row{}
	path := map[*triskelev1.Span][][2]int64{}
	var origin time.Time
	for depth, span := range criticalpath.Tree(spans) {
		if depth == 0 {
			origin = span.GetStart().AsTime()
			for _, s := range criticalpath.Path(span, spans) {
				path[s.Span] = append(path[s.Span], [2]int64{s.Start.Microseconds(), s.Took.Microseconds()})
			}
		}
		attributes := span.GetAttributes()
		rows = append(rows, row{
			Name: strings.TrimPrefix(span.GetName(), "triskele.v1."), Service: span.GetService(), Depth: depth,
			Start: span.GetStart().AsTime().Sub(origin).Microseconds(), Took: span.GetDuration().AsDuration().Microseconds(),
			Critical: path[span], Failed: span.GetFailed(), State: attributes["triskele.state"], Reason: attributes["triskele.reason"],
		})
	}
	return rows
}

// ms is in milliseconds, as all times in views.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func stateName(s triskelev1.LegState) string { return strings.TrimPrefix(s.String(), "LEG_STATE_") }

// liveView is how the legs did in the last hour, as GET /api/live returns it. Times are in milliseconds. The leg "" is recalls as a
// whole.
func liveView(all []recent.Live) []map[string]any {
	return slice.Map(all, func(l recent.Live) map[string]any {
		states := map[string]int{}
		for state, n := range l.States {
			states[stateName(state)] = n
		}
		// Each ten seconds with searches have a point: seconds since 1970, p50, p95, p99, budget, searches a second, and the percentage of
		// them that lacked something.
		series := slice.Map(l.Series, func(p recent.Point) [7]float64 {
			return [7]float64{
				float64(p.Start.Unix()), ms(p.P50), ms(p.P95), ms(p.P99), ms(p.Budget), float64(p.Searches) / recent.Step.Seconds(), 100 * float64(p.Lacking) / float64(p.Searches),
			}
		})
		return map[string]any{
			"leg": l.Leg, "searches": l.Searches, "p50": ms(l.P50), "p95": ms(l.P95), "p99": ms(l.P99), "budget": ms(l.Budget), "states": states, "series": series,
		}
	})
}

// viewOf is a recent recall, as GET /api/recalls returns it. Times are in milliseconds. A recall that was recorded has spans, not only an
// outline.
func viewOf(r *recent.Recall) map[string]any {
	legs := slice.Map(r.Legs, func(l recent.Leg) map[string]any {
		return map[string]any{
			"leg": l.Name, "state": stateName(l.State), "reason": l.Reason, "spent": ms(l.Spent), "budget": ms(l.Budget), "queued": ms(l.Queued), "hits": l.Hits,
		}
	})
	return map[string]any{
		"id": r.ID, "trace_id": r.TraceID, "start": r.Start.UTC(), "took": ms(r.Took), "budget": ms(r.Budget), "hits": r.Hits, "degraded": r.Degraded,
		"failed": r.Failed, "recorded": len(r.Spans) > 0, "legs": legs,
	}
}
