package leg

import (
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/replica"
)

// A turn of a conversation means little without the turns around it. So a memory borrows from up to reach neighbours on each
// side in its thread: share of what the one in front scores, and decay times as much from each one farther away. Those behind
// lend afterShare of that. What borrowing does to a score is up to the leg. The plan "surroundings" has measured it
// (docs/evidence/surroundings.md).
const (
	reach                    = 4
	share, decay, afterShare = 0.6, 0.7, 0.7
)

// Lenders is how many of the best memories, by their own scores, are looked at with their neighbours: these and the neighbours
// borrow. The other hits keep their own scores: nothing near them scores much.
const Lenders = 24

// Surroundings are memories with what stands beside them in their threads: stretches of threads, one after another. A memory
// without a thread is a stretch of its own.
type Surroundings struct {
	Rows []uint32
	// Wanted are the places in Rows of those to be scored, ascending.
	Wanted []int
	lends  []bool     // by place: the filter lets it pass
	ends   [][2]int32 // by place: the stretch
	shares [2][reach]float64
	given  []int // scratch
	left   bits  // scratch: given rows that are in no stretch yet; empty between uses
}

var surroundings = sync.Pool{New: func() any { return &Surroundings{} }}

// Release ends the use of surroundings: others get their room.
func (s *Surroundings) Release() { surroundings.Put(s) }

// Surround returns rows with their surroundings. borrow is Query.Borrow. With borrowers, selected rows that the given ones may
// lend to are wanted too. The caller must Release the surroundings.
func Surround(rows *replica.Rows, selection *replica.Selection, of []uint32, borrow float64, borrowers bool) *Surroundings {
	s := surroundings.Get().(*Surroundings)
	for j, k := 0, borrow*share; j < reach; j++ {
		s.shares[0][j], s.shares[1][j] = min(k, 1), min(k*afterShare, 1)
		k *= decay
	}
	of = slices.Sorted(slices.Values(of)) // so that Rows are nearly in order, too
	if words := rows.Len()/64 + 1; words > len(s.left) {
		s.left = make(bits, words)
	}
	for _, row := range of {
		s.left.set(row)
	}
	around, margin := 0, 0
	if borrow > 0 {
		margin = reach
	}
	if borrowers {
		around, margin = reach, reach+margin
	}
	s.Rows, s.Wanted, s.lends, s.ends = s.Rows[:0], s.Wanted[:0], s.lends[:0], s.ends[:0]
	for _, row := range of {
		if s.left.has(row) {
			s.stretch(rows, selection, s.firstBefore(rows, row, margin), around, margin)
		}
	}
	return s
}

// firstBefore returns the first row of a stretch: so many rows before the first of the rows that are left. Fewer rows lie between
// any two of these.
func (s *Surroundings) firstBefore(rows *replica.Rows, row uint32, margin int) uint32 {
	for away := 0; away < margin; away++ {
		before, there := rows.Before(row)
		if !there {
			break
		}
		if row = before; s.left.has(row) {
			away = -1
		}
	}
	return row
}

// stretch adds the stretch that begins with a row. Its margin is wide enough for those who lend to the wanted rows.
func (s *Surroundings) stretch(rows *replica.Rows, selection *replica.Selection, row uint32, around, margin int) {
	from, last := len(s.Rows), -1 // the last given row
	given := s.given[:0]
	for there := true; there && (last < 0 || len(s.Rows)-last <= margin); row, there = rows.After(row) {
		if s.left.has(row) {
			last = len(s.Rows)
			given = append(given, last)
			s.left.clear(row)
		}
		s.Rows, s.lends = append(s.Rows, row), append(s.lends, selection.Has(row))
	}
	to := len(s.Rows)
	for range to - from {
		s.ends = append(s.ends, [2]int32{int32(from), int32(to)})
	}
	s.given = given
	next := from
	for _, place := range given {
		for i := max(next, place-around); i < min(to, place+around+1); i++ {
			if i == place || s.lends[i] {
				s.Wanted = append(s.Wanted, i)
			}
		}
		next = min(to, place+around+1)
	}
}

// EachLender calls lend with the places of those who lend to a place, and their shares from 0 to 1.
func (s *Surroundings) EachLender(place int, lend func(place int, share float64)) {
	from, to := int(s.ends[place][0]), int(s.ends[place][1])
	for j := range reach {
		if i := place - 1 - j; i >= from && s.lends[i] {
			lend(i, s.shares[0][j])
		}
		if i := place + 1 + j; i < to && s.lends[i] {
			lend(i, s.shares[1][j])
		}
	}
}

// Borrows reports whether memories borrow from their neighbours in a search.
func (q Query) Borrows(rows *replica.Rows) bool { return q.Borrow > 0 && rows.Threaded() }

// Lender returns the scores of the wanted rows, with what their neighbours lend.
type Lender func(*Surroundings) []Scored

// Lent returns what a search has found: the best rows by their own scores, and those that the first of them lend to. At least
// q.Depth and Lenders rows are the best, if there are so many.
func (q Query) Lent(rows *replica.Rows, selection *replica.Selection, best []Scored, lenders int, lend Lender) []Scored {
	given, least := make([]uint32, len(best)), 0.
	for i, b := range best {
		if given[i] = b.Row; i == 0 || b.Score < least {
			least = b.Score
		}
	}
	around := Surround(rows, selection, given[:lenders], q.Borrow, true)
	defer around.Release()
	found := lend(around)
	if len(best) >= q.Depth { // lower scores are not among the best: nothing lowers a score
		found = slices.DeleteFunc(found, func(f Scored) bool { return f.Score < least })
	}
	wanted := slice.Map(around.Wanted, func(place int) uint32 { return around.Rows[place] })
	slices.Sort(wanted)
	for _, b := range best {
		if _, is := slices.BinarySearch(wanted, b.Row); !is {
			found = append(found, b)
		}
	}
	return found
}

// Scores returns the scores of those of the memories that a leg has.
func (q Query) Scores(rows *replica.Rows, selection *replica.Selection, ids []uuid.UUID, has func(row uint32) bool, lend Lender) []Hit {
	var of []uint32
	for _, id := range ids {
		if row, known := rows.Row(id); known && has(row) {
			of = append(of, row)
		}
	}
	around := Surround(rows, selection, of, q.Borrow, false)
	defer around.Release()
	return slice.Map(lend(around), func(f Scored) Hit { return f.hit(rows) })
}

// bits mark rows.
type bits []uint64

func (b bits) has(row uint32) bool { return b[row>>6]>>(row&63)&1 == 1 }
func (b bits) set(row uint32)      { b[row>>6] |= 1 << (row & 63) }
func (b bits) clear(row uint32)    { b[row>>6] &^= 1 << (row & 63) }
