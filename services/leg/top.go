package leg

import (
	"slices"

	"github.com/triskele/triskele/services/store/replica"
)

// Top keeps the best n of the rows that it is given.
type Top struct {
	n    int
	rows *replica.Rows
	kept []Scored // in the order of hits
}

// TopRows returns an empty Top.
func TopRows(n int, rows *replica.Rows) *Top { return &Top{n: n, rows: rows} }

// Add reports whether n rows are kept.
func (t *Top) Add(v Scored) (full bool) {
	compare := func(a, b Scored) int { return a.Compare(t.rows, b) }
	if full = len(t.kept) == t.n; full {
		if compare(v, t.Worst()) >= 0 {
			return true
		}
		t.kept = t.kept[:t.n-1]
	}
	at, _ := slices.BinarySearchFunc(t.kept, v, compare)
	t.kept = slices.Insert(t.kept, at, v)
	return len(t.kept) == t.n
}

// Worst is the last of n kept rows.
func (t *Top) Worst() Scored { return t.kept[t.n-1] }

// Sorted returns the kept rows, the best first.
func (t *Top) Sorted() []Scored { return t.kept }
