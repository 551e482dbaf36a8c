package lexical

import (
	"cmp"
	"slices"
	"sync"

	"github.com/triskele/triskele/services/leg"
)

// lend implements leg.Lender. Neighbours lend terms. Let x be the part, 0 to 1, of the most
// that a term can add to a score. A memory then has 1 - (1 - x) * product of (1 - share * x) over its lenders. So words of
// neighbours complete those of the memory, and a word that several have counts little more than once.
func (s *bm25) lend(around *leg.Surroundings) []leg.Scored {
	n, buffer := len(s.terms), contributionBuffers.Get().(*contributions)
	defer contributionBuffers.Put(buffer)
	s.contribute(buffer, around.Rows)
	most, missing := make([]float64, n), make([]float64, n)
	for i, t := range s.terms {
		if most[i] = t.weight; !t.phrase {
			most[i] = float64(t.weight * s.threaded.scale)
		}
	}
	found := make([]leg.Scored, len(around.Wanted))
	for i, place := range around.Wanted {
		own, lent := 0.0, false
		for t, c := range buffer.of[place*n : place*n+n] {
			own += c
			missing[t] = 1 - float64(c/most[t])
		}
		around.EachLender(place, func(lender int, share float64) {
			if !buffer.some[lender] {
				return
			}
			lent = true
			for t, c := range buffer.of[lender*n : lender*n+n] {
				if c > 0 {
					missing[t] *= 1 - float64(share*float64(c/most[t]))
				}
			}
		})
		found[i] = leg.Scored{Row: around.Rows[place], Score: own, Own: own}
		if lent {
			score := 0.0
			for t := range missing {
				score += float64(most[t] * (1 - missing[t]))
			}
			found[i].Score = max(score, own)
		}
	}
	return found
}

// contributions are what each term adds to each of some rows, row by row, and whether any does.
type contributions struct {
	of        []float64
	some      []bool
	ascending []int // places in the order of rows
}

var contributionBuffers = sync.Pool{New: func() any { return new(contributions) }}

// contribute computes the contributions to rows.
func (s *bm25) contribute(to *contributions, rows []uint32) {
	n := len(s.terms)
	to.of = slices.Grow(to.of[:0], len(rows)*n)[:len(rows)*n]
	to.some = slices.Grow(to.some[:0], len(rows))[:len(rows)]
	clear(to.of)
	clear(to.some)
	to.ascending = to.ascending[:0]
	for i := range rows {
		to.ascending = append(to.ascending, i)
	}
	if !slices.IsSorted(rows) {
		slices.SortFunc(to.ascending, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	}
	for i := range s.terms {
		t := &s.terms[i]
		t.next = 0
		for _, place := range to.ascending {
			t.next += gallop(t.postings[t.next:], rows[place]<<8)
			if t.next == len(t.postings) {
				break
			}
			if posting := t.postings[t.next]; posting>>8 == rows[place] {
				to.of[place*n+i], to.some[place] = s.contribution(t, posting), true
			}
		}
	}
}
