package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/traces/criticalpath"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Waterfall draws the spans of one trace as a tree with a bar for each. A span whose parent was not recorded is drawn as a
// child of the root.
func (s Style) Waterfall(spans []*triskelev1.Span) string {
	if len(spans) == 0 {
		return "no spans were recorded\n"
	}
	var origin time.Time
	var total time.Duration
	service := 0
	for depth, span := range criticalpath.Tree(spans) {
		if depth == 0 {
			origin = span.GetStart().AsTime()
		}
		total = max(total, span.GetStart().AsTime().Add(span.GetDuration().AsDuration()).Sub(origin))
		service = max(service, len(span.GetService()))
	}
	service = min(service, 12)
	bar := max(s.width()/5, 8)
	const times = 2 + 9 + 2 + 9 + 2
	name := max(s.width()-service-2-times-bar, 16)
	var b strings.Builder
	b.WriteString(s.Bold(fmt.Sprintf("%s  %s  %9s  %9s", fit("service", service), fit("span", name), "start", "took")) + "\n")
	for depth, span := range criticalpath.Tree(spans) {
		indent := strings.Repeat(" ", min(depth, name/2))
		offset, took := span.GetStart().AsTime().Sub(origin), span.GetDuration().AsDuration()
		name := fit(indent+strings.TrimPrefix(Plain(span.GetName()), "triskele.v1."), name)
		bar := barOf(bar, total, offset, took)
		if span.GetFailed() {
			name, bar = s.Bad(name), s.Bad(bar)
		}
		fmt.Fprintf(&b, "%s  %s  %9s  %9s  %s\n", s.Dim(fit(Plain(span.GetService()), service)), name, Duration(max(offset, 0)), Duration(took), bar)
		if detail := detail(span.GetAttributes()); detail != "" {
			b.WriteString(strings.Repeat(" ", service+2) + indent + "  " + s.Dim(detail) + "\n")
		}
	}
	return b.String()
}

// barOf returns the bar of a span, in so many columns for the whole trace. It is at least one column long, so that every span is visible.
func barOf(width int, total, offset, took time.Duration) string {
	if total <= 0 {
		return "━"
	}
	column := func(d time.Duration) int { return int(float64(width) * float64(d) / float64(total)) }
	from := min(max(column(offset), 0), width-1)
	to := min(max(column(offset+took), from+1), width)
	return strings.Repeat(" ", from) + strings.Repeat("━", to-from)
}

// detail returns the state, hits and budget of a search, from the project's own attributes.
func detail(attributes map[string]string) string {
	var parts []string
	if state := attributes["triskele.state"]; state != "" {
		parts = append(parts, Plain(strings.TrimPrefix(state, "LEG_STATE_")))
	}
	if hits, err := strconv.ParseInt(attributes["triskele.hits"], 10, 64); err == nil {
		parts = append(parts, Count(hits, "hit", "hits"))
	}
	if micros, err := strconv.ParseInt(attributes["triskele.budget_us"], 10, 64); err == nil {
		parts = append(parts, "budget "+Duration(time.Duration(micros)*time.Microsecond))
	}
	return strings.Join(parts, ", ")
}
