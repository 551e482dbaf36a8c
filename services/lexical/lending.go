package lexical

import (
	"cmp"
	"slices"
	"sync"

	"github.com/triskele/triskele/services/leg"
)

// borrows reports whether memories borrow from their neighbours in a search.
func (s *bm25) borrows(q leg.Query) bool { return q.Borrow > 0 && s.rows.Threaded() }

// lend returns the wanted rows with what their neighbours lend. Neighbours lend terms. Let x be the part, 0 to 1, of the most
// that a term can add to a score. A memory then has 1 - (1 - x) * product of (1 - share * x) over its lenders. So words of
// neighbours complete those of the memory, and a word that several have counts little more than once.
func (s *bm25) lend(around *leg.Surroundings) []scored {
	n := len(s.terms)
	buffer := contributionBuffers.Get().(*[]float64)
	defer contributionBuffers.Put(buffer)
	contributions := s.contributions(*buffer, around.Rows)
	*buffer = contributions
	most, missing := make([]float64, n), make([]float64, n)
	for i, t := range s.terms {
		if most[i] = t.weight; !t.phrase {
			most[i] = float64(t.weight * s.saturation.scale)
		}
	}
	found := make([]scored, len(around.Wanted))
	for i, place := range around.Wanted {
		own, lent := 0.0, false
		for t, c := range contributions[place*n : place*n+n] {
			own += c
			missing[t] = 1 - float64(c/most[t])
		}
		around.EachLender(place, func(lender int, share float64) {
			for t, c := range contributions[lender*n : lender*n+n] {
				if c > 0 {
					lent = true
					missing[t] *= 1 - float64(share*float64(c/most[t]))
				}
			}
		})
		found[i] = scored{row: around.Rows[place], score: own, own: own}
		if lent {
			score := 0.0
			for t := range missing {
				score += float64(most[t] * (1 - missing[t]))
			}
			found[i].score = max(score, own)
		}
	}
	return found
}

var contributionBuffers = sync.Pool{New: func() any { return new([]float64) }}

// contributions returns what each term adds to each row, row by row. It uses the space of to.
func (s *bm25) contributions(to []float64, rows []uint32) []float64 {
	n := len(s.terms)
	to = slices.Grow(to[:0], len(rows)*n)[:len(rows)*n]
	clear(to)
	ascending := make([]int, len(rows))
	for i := range ascending {
		ascending[i] = i
	}
	slices.SortFunc(ascending, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	for i := range s.terms {
		t := &s.terms[i]
		t.next = 0
		for _, place := range ascending {
			t.next += gallop(t.postings[t.next:], rows[place]<<8)
			if t.next == len(t.postings) {
				break
			}
			if posting := t.postings[t.next]; posting>>8 == rows[place] {
				to[place*n+i] = s.contribution(t, posting)
			}
		}
	}
	return to
}

// lent returns the best of the given rows and of those that they lend to.
func (s *bm25) lent(q leg.Query, best []scored) []scored {
	rows := make([]uint32, len(best))
	for i, b := range best {
		rows[i] = b.row
	}
	found, least := newTop(q.Depth, s.compare), leastOf(q)
	for _, b := range s.lend(leg.Surround(s.rows, s.Selection, rows, q.Borrow, true)) {
		if b.own >= least && b.score > 0 {
			found.add(b)
		}
	}
	return found.sorted()
}
