package dense

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/triskele/triskele/services/leg"
)

// Parameters of searches in memory, measured in docs/bench/dense.md.
const (
	// Up to exactRows vectors are all scored. Of more, likelyPerHit per hit are scored, at least minLikely, for likelyOf
	// vectors; the number grows with the square root of the vectors.
	exactRows, likelyPerHit, minLikely, likelyOf = 2048, 6, 200, 20_000
	// signsPerLikely is the number of full code estimates per likely vector.
	signsPerLikely = 10
	// listShare is how many filter checks in sequence cost as much as one look-up.
	listShare = 8
)

// database is the store behind a scan.
type database interface {
	// score replaces estimates by exact scores and returns the candidates scored before until.
	score(ctx context.Context, m matrix, candidates []candidate, query []float32, until time.Time) ([]candidate, error)
	// live returns the candidates, unordered, that are still stored, live, and pass the filter.
	live(ctx context.Context, m matrix, candidates []candidate) ([]leg.Hit, error)
	// allowed returns the rows, ascending, that are live and pass the filter.
	allowed(ctx context.Context, m matrix) ([]int32, error)
}

// scan is one search in memory.
type scan struct {
	database
	q        leg.Query
	query    []float32 // prepared
	matrix   matrix
	work     *scratch
	until    time.Time // deadline of comparing
	patience int       // bound on candidates looked up under a filter, before allowed is called
}

// run returns the nearest memories. A reason says what cut it short.
func (s scan) run(ctx context.Context) (hits []leg.Hit, reason string, err error) {
	var rows []int32 // rows that pass the filter; nil means all
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
		if !all && cut == "" { // more candidates are available, so stop early
			enough = min(patience, n)
		}
		var needed int
		if hits, needed, err = s.best(ctx, &remaining, enough); err != nil || cut != "" {
			return hits, cut, err
		}
		lookUps := needed
		if s.matrix.halves == nil { // scoring reads the likely vectors
			lookUps = likelyFor(needed, total)
		}
		switch {
		case lookUps > patience: // few pass the filter: listing the allowed memories first is cheaper
			if rows, err = s.allowed(ctx, s.matrix); err != nil {
				return nil, "", err
			}
			patience = math.MaxInt
			n = likelyFor(s.q.Depth, len(rows))
		case all:
			return hits, "", nil
		case needed > 2*s.q.Depth && n < likelyFor(needed, total): // many candidates were dropped
			n = likelyFor(needed, total)
		case len(hits) < s.q.Depth && len(remaining) == 0:
			n *= 4
		default:
			return hits, "", nil
		}
	}
}

// likelyFor is the number of vectors to score exactly for a number of hits.
func likelyFor(hits, vectors int) int {
	return int(float64(max(likelyPerHit*hits, minLikely)) * math.Sqrt(max(1, float64(vectors)/likelyOf)))
}

// compare scores rows, or all if rows is nil. It scores each, or only the n likeliest and returns all = false.
// The reason says what cut it short.
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

// best returns the best remaining candidates that are live and pass the filter, up to the query's depth. It stops when
// more than patience candidates would be needed, and returns the number needed. Ties with the last score are included,
// because other fields order them.
func (s scan) best(ctx context.Context, remaining *ranking, patience int) (hits []leg.Hit, needed int, err error) {
	var candidates []candidate
	for tried := 0; len(hits) < s.q.Depth && needed <= patience && remaining.eligible(s.q); {
		// Take a few more than missing, because most namespaces have superseded memories. Under a filter, extrapolate
		// from the pass rate so far, but not far from few hits.
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
