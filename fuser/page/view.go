package page

import (
	"strings"
	"time"

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

// waterfall returns the spans of a trace as a tree, root first.
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

// live is how a leg did in the last hour, as GET /api/live returns it. Times are in milliseconds.
type live struct {
	Leg      string         `json:"leg"` // "" for recalls as a whole
	Searches int            `json:"searches"`
	P50      float64        `json:"p50"`
	P95      float64        `json:"p95"`
	P99      float64        `json:"p99"`
	Budget   float64        `json:"budget"`
	States   map[string]int `json:"states"`
	// Series has a point for each ten seconds with searches: seconds since 1970, p50, p95, p99, budget, searches a second, and
	// the percentage of them that lacked something.
	Series [][7]float64 `json:"series"`
}

func liveView(all []recent.Live) []live {
	views := []live{}
	for _, l := range all {
		view := live{Leg: l.Leg, Searches: l.Searches, P50: ms(l.P50), P95: ms(l.P95), P99: ms(l.P99), Budget: ms(l.Budget), States: map[string]int{}, Series: [][7]float64{}}
		for state, n := range l.States {
			view.States[stateName(state)] = n
		}
		for _, p := range l.Series {
			view.Series = append(view.Series, [7]float64{
				float64(p.Start.Unix()), ms(p.P50), ms(p.P95), ms(p.P99), ms(p.Budget), float64(p.Searches) / recent.Step.Seconds(), 100 * float64(p.Lacking) / float64(p.Searches),
			})
		}
		views = append(views, view)
	}
	return views
}

// recalled is a recent recall, as GET /api/recalls returns it. Times are in milliseconds.
type recalled struct {
	ID       uint64    `json:"id"`
	TraceID  string    `json:"trace_id"`
	Start    time.Time `json:"start"`
	Took     float64   `json:"took"`
	Budget   float64   `json:"budget"`
	Hits     int       `json:"hits"`
	Degraded string    `json:"degraded"`
	Failed   string    `json:"failed"`
	Recorded bool      `json:"recorded"` // with spans, not only an outline
	Legs     []leg     `json:"legs"`
}

// leg is a leg's part in a recall.
type leg struct {
	Leg    string  `json:"leg"`
	State  string  `json:"state"`
	Reason string  `json:"reason"`
	Spent  float64 `json:"spent"`
	Budget float64 `json:"budget"`
	Queued float64 `json:"queued"`
	Hits   int     `json:"hits"`
}

func viewOf(r *recent.Recall) recalled {
	view := recalled{
		ID: r.ID, TraceID: r.TraceID, Start: r.Start.UTC(), Took: ms(r.Took), Budget: ms(r.Budget), Hits: r.Hits, Degraded: r.Degraded,
		Failed: r.Failed, Recorded: len(r.Spans) > 0, Legs: []leg{},
	}
	for _, l := range r.Legs {
		view.Legs = append(view.Legs, leg{l.Name, stateName(l.State), l.Reason, ms(l.Spent), ms(l.Budget), ms(l.Queued), l.Hits})
	}
	return view
}
