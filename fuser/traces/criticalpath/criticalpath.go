// Package criticalpath finds the critical path of a trace: the spans' own work that the whole call waited for.
//
// Path walks back from the end of the root:
//
//  1. fit clips each child to its parent's time, or moves it there if another service's clock is off.
//  2. The parent waited for the child that ended last. The time after that is the parent's own work.
//  3. The child's path is found in the same way.
//  4. The walk goes on from the child's start, with the children that had ended by then. Those that overlap it ran
//     beside it.
package criticalpath

import (
	"cmp"
	"iter"
	"slices"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Segment is a part of the critical path: the whole call waited for one span's own work.
type Segment struct {
	Span  *triskelev1.Span
	Start time.Duration // after the root began
	Took  time.Duration
}

// rounding is the most that equal times of one clock differ by: Jaeger keeps whole microseconds.
const rounding = 10 * time.Microsecond

// Path returns the critical path of the spans below root, in the order of time. Its segments cover root's time
// without a gap. If one of them were shorter, the whole would be, too.
//
// The algorithm is CRISP (Zhang et al., CRISP: Critical Path Analysis of Large-Scale Microservice Architectures,
// USENIX ATC 2022).
//
// A child that outlives its parent in the same service was not waited for, and is left out. A child in another
// service may be off by the difference of two clocks. It is clipped to its parent's time. If it lies wholly outside,
// it is moved first with all its descendants.
func Path(root *triskelev1.Span, spans []*triskelev1.Span) []Segment {
	w := walker{origin: root.GetStart().AsTime(), children: map[string][]*triskelev1.Span{}}
	for _, span := range spans {
		if span != root {
			w.children[span.GetParentId()] = append(w.children[span.GetParentId()], span)
		}
	}
	w.walk(root, stretch{0, root.GetDuration().AsDuration()}, 0)
	slices.Reverse(w.path)
	return w.path
}

// stretch is an interval after the root's start.
type stretch struct{ from, to time.Duration }

type walker struct {
	origin   time.Time
	children map[string][]*triskelev1.Span
	path     []Segment // from the end
}

// walk appends the path of a span in this interval, whose clock was moved.
func (w *walker) walk(span *triskelev1.Span, at stretch, moved time.Duration) {
	type child struct {
		*triskelev1.Span
		stretch
		moved time.Duration
	}
	var children []child
	for _, c := range w.children[span.GetId()] {
		from := c.GetStart().AsTime().Sub(w.origin) + moved
		s, delta, waited := fit(stretch{from, from + c.GetDuration().AsDuration()}, at, c.GetService() == span.GetService())
		if waited && s.to > s.from {
			children = append(children, child{c, s, moved + delta})
		}
	}
	delete(w.children, span.GetId()) // no span is its own descendant, even in a broken trace
	slices.SortFunc(children, func(a, b child) int {
		return cmp.Or(cmp.Compare(b.to, a.to), cmp.Compare(a.from, b.from), cmp.Compare(a.GetId(), b.GetId()))
	})
	cursor := at.to
	for _, c := range children {
		if c.to > cursor {
			continue // it ran beside what is on the path
		}
		w.own(span, stretch{c.to, cursor})
		w.walk(c.Span, c.stretch, c.moved)
		cursor = c.from
	}
	w.own(span, stretch{at.from, cursor})
}

func (w *walker) own(span *triskelev1.Span, s stretch) {
	if s.to > s.from {
		w.path = append(w.path, Segment{span, s.from, s.to - s.from})
	}
}

// fit clips or moves a child's interval into its parent's. It returns the shift, and whether the parent waited.
func fit(s, parent stretch, sameClock bool) (_ stretch, moved time.Duration, waited bool) {
	if sameClock && s.to > parent.to+rounding {
		return s, 0, false
	}
	if !sameClock {
		switch {
		case s.to <= parent.from:
			moved = parent.from - s.from
		case s.from >= parent.to:
			moved = parent.to - s.to
		}
	}
	return stretch{max(s.from+moved, parent.from), min(s.to+moved, parent.to)}, moved, true
}

// Tree yields the spans of a trace for a waterfall, each with its depth: the root first, and each span before those below it.
// Spans that begin earlier come first. A span whose parent was not recorded is below the root.
func Tree(spans []*triskelev1.Span) iter.Seq2[int, *triskelev1.Span] {
	return func(yield func(int, *triskelev1.Span) bool) {
		if len(spans) == 0 {
			return
		}
		sorted := slices.SortedFunc(slices.Values(spans), func(a, b *triskelev1.Span) int {
			return cmp.Or(a.GetStart().AsTime().Compare(b.GetStart().AsTime()), cmp.Compare(a.GetId(), b.GetId()))
		})
		known := map[string]bool{}
		for _, span := range sorted {
			known[span.GetId()] = true
		}
		root := sorted[max(0, slices.IndexFunc(sorted, func(span *triskelev1.Span) bool { return span.GetParentId() == "" }))]
		children := map[string][]*triskelev1.Span{}
		for _, span := range sorted {
			parent := span.GetParentId()
			if !known[parent] {
				parent = root.GetId()
			}
			if span != root {
				children[parent] = append(children[parent], span)
			}
		}
		var walk func(depth int, span *triskelev1.Span) bool
		walk = func(depth int, span *triskelev1.Span) bool {
			if !yield(depth, span) {
				return false
			}
			below := children[span.GetId()]
			delete(children, span.GetId()) // each once, even in a broken trace
			return !slices.ContainsFunc(below, func(child *triskelev1.Span) bool { return !walk(depth+1, child) })
		}
		walk(0, root)
	}
}
