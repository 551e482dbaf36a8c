package leg

import (
	"slices"

	"github.com/triskele/triskele/services/store/replica"
)

// Top keeps the first n of the values that it is given, in an order.
type Top[T any] struct {
	n       int
	compare func(a, b T) int
	kept    []T // a heap once it has n, the last on top
}

// NewTop returns an empty Top.
func NewTop[T any](n int, compare func(a, b T) int) *Top[T] { return &Top[T]{n: n, compare: compare} }

// TopRows returns a Top for rows in the order of hits.
func TopRows(n int, rows *replica.Rows) *Top[Scored] {
	return NewTop(n, func(a, b Scored) int { return a.Compare(rows, b) })
}

// Add reports whether n values are kept.
func (t *Top[T]) Add(v T) (full bool) {
	switch {
	case len(t.kept) < t.n:
		if t.kept = append(t.kept, v); len(t.kept) == t.n {
			for i := t.n/2 - 1; i >= 0; i-- {
				t.sink(i)
			}
		}
	case t.compare(v, t.kept[0]) < 0:
		t.kept[0] = v
		t.sink(0)
	}
	return len(t.kept) == t.n
}

// Worst is the last of n kept values.
func (t *Top[T]) Worst() T { return t.kept[0] }

// Sorted returns the kept values. No more may be added.
func (t *Top[T]) Sorted() []T {
	slices.SortFunc(t.kept, t.compare)
	return t.kept
}

// sink restores the heap's order below its i-th element.
func (t *Top[T]) sink(i int) {
	for {
		last := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.kept); child++ {
			if t.compare(t.kept[child], t.kept[last]) > 0 {
				last = child
			}
		}
		if last == i {
			return
		}
		t.kept[i], t.kept[last] = t.kept[last], t.kept[i]
		i = last
	}
}
