package criticalpath

import (
	"cmp"
	"iter"
	"slices"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

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
