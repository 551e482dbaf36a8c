package leg_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// shares are what up to four neighbours lend, the nearest first, to the one behind and to the one in front of them.
var behind, inFront = []float64{.6, .42, .294, .2058}, []float64{.42, .294, .2058, .14406}

// lenders walks along a row's thread and returns who lends to it.
func lenders(rows *replica.Rows, selection *replica.Selection, row uint32) map[uint32]float64 {
	found := map[uint32]float64{}
	for _, side := range []struct {
		next   func(uint32) (uint32, bool)
		shares []float64
	}{{rows.Before, behind}, {rows.After, inFront}} {
		at, there := side.next(row)
		for _, share := range side.shares {
			if !there {
				break
			}
			if selection.Has(at) {
				found[at] = share
			}
			at, there = side.next(at)
		}
	}
	return found
}

// TestSurroundings compares stretches of threads with a walk along each thread, under a filter that half of the memories pass.
func TestSurroundings(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for n := range 60 {
		rows := replica.NewRows()
		for i := range 200 {
			m := replica.Memory{ID: uuid.New(), Created: int64(i), Position: int64(random.IntN(300)), Category: []string{"in", "out"}[random.IntN(2)]}
			if random.IntN(8) > 0 {
				m.Thread = fmt.Sprint(random.IntN(1 + n%6))
			}
			rows.Put(m)
		}
		selection := rows.Select(record.Filter{Categories: []string{"in"}}, time.Time{})
		var of []uint32
		for range 1 + random.IntN(12) {
			if row := uint32(random.IntN(200)); selection.Has(row) {
				of = append(of, row)
			}
		}
		want := map[uint32]bool{}
		for _, row := range of {
			want[row] = true
			for _, next := range []func(uint32) (uint32, bool){rows.Before, rows.After} {
				at, there := next(row)
				for range 4 {
					if there && selection.Has(at) {
						want[at] = true
					}
					if there {
						at, there = next(at)
					}
				}
			}
		}
		for _, borrowers := range []bool{false, true} {
			around := leg.Surround(rows, selection, of, 1, borrowers)
			got := map[uint32]bool{}
			for _, place := range around.Wanted {
				row := around.Rows[place]
				if got[row] {
					t.Fatalf("row %d is wanted twice", row)
				}
				got[row] = true
				lent := map[uint32]float64{}
				around.EachLender(place, func(lender int, share float64) { lent[around.Rows[lender]] = share })
				if wantLent := lenders(rows, selection, row); !maps.EqualFunc(lent, wantLent, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
					t.Fatalf("row %d: got the lenders %v, want %v", row, lent, wantLent)
				}
			}
			if !borrowers {
				want := maps.Collect(func(yield func(uint32, bool) bool) {
					for _, row := range of {
						yield(row, true)
					}
				})
				if !maps.Equal(got, want) {
					t.Fatalf("got the rows %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
				}
			} else if !maps.Equal(got, want) {
				t.Fatalf("got the rows %v and their borrowers %v, want %v", of, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
		}
	}
}

// TestBorrowScalesShares has neighbours lend a half, and more than they have.
func TestBorrowScalesShares(t *testing.T) {
	rows := replica.NewRows()
	for i := range 3 {
		rows.Put(replica.Memory{ID: uuid.New(), Thread: "t", Position: int64(i)})
	}
	selection := rows.Select(record.Filter{}, time.Time{})
	for borrow, want := range map[float64][]float64{0.5: {.3, .21}, 4: {1, 1}} {
		around, got := leg.Surround(rows, selection, []uint32{1}, borrow, false), map[uint32]float64{}
		around.EachLender(around.Wanted[0], func(lender int, share float64) { got[around.Rows[lender]] = share })
		if len(got) != 2 || math.Abs(got[0]-want[0]) > 1e-9 || math.Abs(got[2]-want[1]) > 1e-9 {
			t.Errorf("borrow %v: got the shares %v, want %v", borrow, got, want)
		}
	}
}
