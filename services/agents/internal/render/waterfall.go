package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Waterfall draws the spans of one trace as a tree with a bar for each. A span whose parent was not recorded is drawn as a
// child of the root.
func (s Style) Waterfall(spans []*triskelev1.Span) string {
	if len(spans) == 0 {
		return "no spans were recorded\n"
	}
	w := waterfall{style: s, children: map[string][]*triskelev1.Span{}}
	known := map[string]bool{}
	for _, span := range spans {
		known[span.GetId()] = true
	}
	byStart := slices.SortedFunc(slices.Values(spans), func(a, b *triskelev1.Span) int {
		return cmp.Or(start(a).Compare(start(b)), cmp.Compare(a.GetId(), b.GetId()))
	})
	root := byStart[0]
	if i := slices.IndexFunc(byStart, func(span *triskelev1.Span) bool { return span.GetParentId() == "" }); i >= 0 {
		root = byStart[i]
	}
	w.origin = start(root)
	for _, span := range byStart {
		w.total = max(w.total, start(span).Add(span.GetDuration().AsDuration()).Sub(w.origin))
		w.service = max(w.service, len(span.GetService()))
		if span == root {
			continue
		}
		parent := span.GetParentId()
		if !known[parent] {
			parent = root.GetId()
		}
		w.children[parent] = append(w.children[parent], span)
	}
	w.service = min(w.service, 12)
	w.bar = max(s.width()/5, 8)
	const times = 2 + 9 + 2 + 9 + 2
	w.name = max(s.width()-w.service-2-times-w.bar, 16)
	w.b.WriteString(s.Bold(fmt.Sprintf("%s  %s  %9s  %9s", fit("service", w.service), fit("span", w.name), "start", "took")) + "\n")
	w.draw(root, 0)
	return w.b.String()
}

func start(span *triskelev1.Span) time.Time { return span.GetStart().AsTime() }

type waterfall struct {
	style              Style
	b                  strings.Builder
	children           map[string][]*triskelev1.Span
	origin             time.Time
	total              time.Duration
	service, name, bar int // widths of columns
}

func (w *waterfall) draw(span *triskelev1.Span, depth int) {
	indent := strings.Repeat(" ", min(depth, w.name/2))
	offset, took := start(span).Sub(w.origin), span.GetDuration().AsDuration()
	name := fit(indent+strings.TrimPrefix(Plain(span.GetName()), "triskele.v1."), w.name)
	bar := w.barOf(offset, took)
	if span.GetFailed() {
		name, bar = w.style.Bad(name), w.style.Bad(bar)
	}
	fmt.Fprintf(&w.b, "%s  %s  %9s  %9s  %s\n", w.style.Dim(fit(Plain(span.GetService()), w.service)), name, Duration(max(offset, 0)), Duration(took), bar)
	if detail := detail(span.GetAttributes()); detail != "" {
		w.b.WriteString(strings.Repeat(" ", w.service+2) + indent + "  " + w.style.Dim(detail) + "\n")
	}
	for _, child := range w.children[span.GetId()] {
		w.draw(child, depth+1)
	}
}

// barOf returns the bar of a span. It is at least one column long, so that every span is visible.
func (w *waterfall) barOf(offset, took time.Duration) string {
	if w.total <= 0 {
		return "━"
	}
	column := func(d time.Duration) int { return int(float64(w.bar) * float64(d) / float64(w.total)) }
	from := min(max(column(offset), 0), w.bar-1)
	to := min(max(column(offset+took), from+1), w.bar)
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
