package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/page"
)

// Top is what a gateway does at a moment. Times are in milliseconds, as the page has them.
type Top struct {
	Source  string        `json:"source"`
	At      time.Time     `json:"at"`
	Live    []page.Live   `json:"live"`         // by name, recalls as a whole first
	Recalls []page.Recall `json:"recalls"`      // each once, in any order
	Queues  []Queue       `json:"queues"`       // by index
	Images  int           `json:"images"`       // of namespaces that processes keep in memory
	Memory  int64         `json:"memory_bytes"` // of these
	Away    []string      `json:"away"`         // why services do not report
}

// Queue is what waits for an index.
type Queue struct {
	Index   string  `json:"index"`
	Pending int64   `json:"pending"`
	Dead    int64   `json:"dead"`
	Lag     float64 `json:"lag"` // of the oldest
}

// mostSlow is how many recalls a frame lists.
const mostSlow = 8

// fresh is how old the last figures may be to count as now.
const fresh = 30 * time.Second

// Top draws a frame.
func (s Style) Top(t Top) string {
	var b strings.Builder
	b.WriteString(s.Bold("Triskele") + " " + s.Dim(Plain(t.Source)+", "+t.At.Format(time.TimeOnly)) + "\n\n")
	legs := Table{Columns: []Column{
		{Name: "last hour"}, {Name: "a second", Right: true}, {Name: "searches", Right: true}, {Name: "p50", Right: true}, {Name: "p95", Right: true}, {Name: "p99", Right: true},
		{Name: "budget", Right: true}, {Name: "p95 of it", Right: true}, {Name: "ended", Gives: true},
	}}
	for _, l := range t.Live {
		rate, share := 0.0, "–"
		if n := len(l.Series); n > 0 && t.At.Sub(time.Unix(int64(l.Series[n-1][0]), 0)) < fresh {
			rate = l.Series[n-1][5]
		}
		if l.Budget > 0 {
			share = fmt.Sprintf("%.0f %%", 100*l.P95/l.Budget)
		}
		legs.Add(cmp.Or(l.Leg, "recalls"), fmt.Sprintf("%.1f", rate), fmt.Sprint(l.Searches), millis(l.P50), millis(l.P95), millis(l.P99), millis(l.Budget), share, ends(l))
	}
	if len(t.Live) == 0 {
		b.WriteString(s.Dim("no recall in the last hour") + "\n")
	} else {
		b.WriteString(s.Table(legs))
	}
	if len(t.Queues) > 0 {
		queues := Table{Columns: []Column{{Name: "index"}, {Name: "pending", Right: true}, {Name: "given up", Right: true}, {Name: "oldest waits", Right: true}}}
		for _, q := range t.Queues {
			queues.Add(q.Index, fmt.Sprint(q.Pending), fmt.Sprint(q.Dead), millis(q.Lag))
		}
		b.WriteString("\n" + s.Table(queues))
	}
	if t.Images > 0 {
		fmt.Fprintf(&b, "\nin memory: %s, %.1f MiB\n", Count(int64(t.Images), "image of a namespace", "images of namespaces"), float64(t.Memory)/(1<<20))
	}
	for _, why := range t.Away {
		b.WriteString("\n" + s.Bad(Plain(why)) + "\n")
	}
	s.slowest(&b, t.Recalls, t.At.Location())
	return b.String()
}

// slowest lists the recalls that took longest, with their reasons.
func (s Style) slowest(b *strings.Builder, recalls []page.Recall, zone *time.Location) {
	sorted := slices.SortedFunc(slices.Values(recalls), func(x, y page.Recall) int { return cmp.Or(cmp.Compare(y.Took, x.Took), cmp.Compare(y.ID, x.ID)) })
	slow := Table{Columns: []Column{{Name: "slowest"}, {Name: "took", Right: true}, {Name: "of", Right: true}, {Name: "because", Gives: true}}}
	for _, r := range sorted[:min(len(sorted), mostSlow)] {
		slow.Add(r.Start.In(zone).Format(time.TimeOnly), millis(r.Took), millis(r.Budget), because(r))
	}
	if len(sorted) > 0 {
		b.WriteString("\n" + s.Table(slow))
	}
}

// because says why a recall took as long as it did, or what it lacked.
func because(r page.Recall) string {
	if r.Failed != "" {
		return "failed: " + r.Failed
	}
	reason := strings.TrimPrefix(r.Degraded, "This recall is incomplete: ")
	if reason == "" && len(r.Legs) > 0 {
		last := slices.MaxFunc(r.Legs, func(x, y page.Leg) int { return cmp.Compare(x.Spent, y.Spent) })
		reason = fmt.Sprintf("the %s leg took %s", last.Leg, millis(last.Spent))
		if last.Queued >= 1 {
			reason += fmt.Sprintf(", %s of it waiting for a free slot", millis(last.Queued))
		}
		if rest := r.Took - last.Spent; rest > last.Spent {
			reason = fmt.Sprintf("after the legs, %s went into contents and order", millis(rest))
		}
	}
	return reason
}

// ends counts how searches ended, most frequent first.
func ends(l page.Live) string {
	names := map[string]string{}
	if l.Leg == "" {
		names = map[string]string{"OK": "answered", "TRUNCATED": "degraded", "FAILED": "failed"}
	}
	states := make([]string, 0, len(l.States))
	for state := range l.States {
		states = append(states, state)
	}
	slices.SortFunc(states, func(x, y string) int { return cmp.Or(cmp.Compare(l.States[y], l.States[x]), cmp.Compare(x, y)) })
	for i, state := range states {
		states[i] = fmt.Sprintf("%s %d", cmp.Or(names[state], state), l.States[state])
	}
	return strings.Join(states, ", ")
}

func millis(ms float64) string { return Duration(time.Duration(ms * float64(time.Millisecond))) }
