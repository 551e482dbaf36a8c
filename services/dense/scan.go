package dense

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/triskele/triskele/services/leg"
)

// How the vectors in memory are searched. docs/bench/dense.md has what is found.
const (
	// Up to exactRows vectors are scored, of more those that are likely to be nearest: likelyPerHit for each hit, minLikely at least,
	// where there are likelyOf, and more where there are more.
	exactRows, likelyPerHit, minLikely, likelyOf = 2048, 6, 200, 20_000
	// signsPerLikely is how many vectors are estimated by the whole of their codes for each likely one.
	signsPerLikely = 10
	// listShare is how many memories can be checked for a filter in a row while one is looked up.
	listShare = 8
)

// database is what a scan asks of the store that the vectors in memory are from.
type database interface {
	// score replaces estimates by scores, of all candidates or of those that it gets to before the moment until.
	score(ctx context.Context, m matrix, candidates []candidate, query []float32, until time.Time) ([]candidate, error)
	// live returns the candidates, in any order, whose vectors are still stored and whose memories are live and pass the filter.
	live(ctx context.Context, m matrix, candidates []candidate) ([]leg.Hit, error)
	// allowed returns the rows, ascending, whose memories are live and pass the filter.
	allowed(ctx context.Context, m matrix) ([]int32, error)
}

// scan is one search of the vectors in memory.
type scan struct {
	database
	q        leg.Query
	query    []float32 // prepared
	matrix   matrix
	work     *scratch
	until    time.Time // when to stop comparing
	patience int       // how many candidates are looked up, under a filter, before it is asked which memories pass
}

// run returns the nearest memories. A reason says what cut it short.
func (s scan) run(ctx context.Context) (hits []leg.Hit, reason string, err error) {
	var rows []int32 // that pass the filter; nil is all
	patience := math.MaxInt
	if s.q.Filter.Narrow() {
		patience = s.patience
	}
	total := len(s.matrix.ids)
	for n := likelyFor(s.q.Depth, total); ; {
		candidates, all, cut, err := s.compare(ctx, rows, n)
		if err != nil {
			return nil, "", err
		}
		remaining := newRanking(candidates)
		enough := patience
		if !all && cut == "" { // more can be had, so there is no use in trying what will not suffice
			enough = min(patience, n)
		}
		var needed int
		if hits, needed, err = s.best(ctx, &remaining, enough); err != nil || cut != "" {
			return hits, cut, err
		}
		lookUps := needed
		if s.matrix.halves == nil { // the likely ones are read to be scored
			lookUps = likelyFor(needed, total)
		}
		switch {
		case lookUps > patience: // so few of the nearest pass the filter that it is cheaper to see first which memories do
			if rows, err = s.allowed(ctx, s.matrix); err != nil {
				return nil, "", err
			}
			patience = math.MaxInt
			n = likelyFor(s.q.Depth, len(rows))
		case all:
			return hits, "", nil
		case needed > 2*s.q.Depth && n < likelyFor(needed, total): // many of the nearest are not to be returned
			n = likelyFor(needed, total)
		case len(hits) < s.q.Depth && len(remaining) == 0:
			n *= 4
		default:
			return hits, "", nil
		}
	}
}

// likelyFor is how many likely vectors are scored to find the nearest few of so many.
func likelyFor(hits, vectors int) int {
	return int(float64(max(likelyPerHit*hits, minLikely)) * math.Sqrt(max(1, float64(vectors)/likelyOf)))
}

// compare scores rows, or all if they are nil: each, or the n that are likely to be nearest, in which case it says that
// those are not all. A reason says what cut it short.
func (s scan) compare(ctx context.Context, rows []int32, n int) (candidates []candidate, all bool, cut string, err error) {
	total := len(s.matrix.ids)
	if rows != nil {
		total = len(rows)
	}
	of := fmt.Sprintf("%d", total)
	if total <= max(exactRows, n) {
		all = true
		candidates = slices.Grow(s.work.candidates[:0], total)
		for i := range total {
			row := int32(i)
			if rows != nil {
				row = rows[i]
			}
			candidates = append(candidates, candidate{0, row})
		}
		s.work.candidates = candidates
	} else {
		var considered int
		if candidates, considered, err = s.matrix.likely(ctx, s.work, s.query, rows, n, s.until); err != nil {
			return nil, false, "", err
		}
		if considered < total {
			cut = fmt.Sprintf("only %d of %d vectors were compared in time", considered, total)
		}
		of = fmt.Sprintf("the likeliest %d of %d", len(candidates), total)
	}
	scored, err := s.score(ctx, s.matrix, candidates, s.query, s.until)
	if len(scored) < len(candidates) && passed(s.until) {
		cut = fmt.Sprintf("only %d of %s vectors were compared in time", len(scored), of)
	}
	return scored, all, cut, err
}

// best returns the best of the remaining candidates that turn out to be live and to pass the filter, as many as there are
// to be. It gives up when more than patience would have to be tried for that, and says how many would have to be. Those
// that score like the last one are tried too, because other things than the score order them.
func (s scan) best(ctx context.Context, remaining *ranking, patience int) (hits []leg.Hit, needed int, err error) {
	var candidates []candidate
	for tried := 0; len(hits) < s.q.Depth && needed <= patience && remaining.eligible(s.q); {
		// A few more than are missing, because most namespaces hold some superseded memories, and under a filter as many as it
		// takes if the rest is like those that were tried; but few hits say little about the rest.
		n := max(s.q.Depth-len(hits), needed-tried) + 8 + tried/4
		if tried > 0 {
			n = min(n, 4*tried)
		}
		candidates = candidates[:0]
		for remaining.eligible(s.q) && (len(candidates) < n || (*remaining)[0].score == candidates[len(candidates)-1].score) {
			candidates = append(candidates, remaining.pop())
		}
		tried += len(candidates)
		live, err := s.live(ctx, s.matrix, candidates)
		if err != nil {
			return nil, 0, err
		}
		hits = append(hits, live...)
		needed = tried * s.q.Depth / max(len(hits), 1)
	}
	slices.SortFunc(hits, compareHits)
	return hits[:min(len(hits), s.q.Depth)], needed, nil
}
