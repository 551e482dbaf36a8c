package dense

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// Parameters of searches in memory, measured in docs/bench/dense.md.
const (
	// Up to exactRows vectors are all scored. Of more, likelyPerHit per hit are scored, at least minLikely, for likelyOf
	// vectors; the number grows with the square root of the vectors.
	exactRows, likelyPerHit, minLikely, likelyOf = 2048, 6, 300, 20_000
	// scoreRows vectors are scored between two checks of the deadline.
	scoreRows = 256
	// scanRows estimates are made between two checks of the deadline. A search of helped times as many is shared by two processors, of
	// twice that by three.
	scanRows, helped = 1 << 13, 8
	// estimated groups are compared at once.
	estimated = 32
	// One of sparsest groups is sampled, or fewer, so that about sampledGroups are.
	sparsest, sampledGroups = 16, 128
)

// candidate is a row and its score, which is an estimate at first.
type candidate struct {
	score float32
	row   uint32
}

// scratch holds a search's buffers.
type scratch struct {
	estimates  [estimated * groupRows]float32
	above      [estimated]uint32
	scoring    [scoreRows]uint32
	scores     [scoreRows]float32 // of scoring
	candidates []candidate
	sampled    []candidate
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// comparison is one search of a matrix.
type comparison struct {
	*matrix
	*scratch
	selection *replica.Selection
	query     []float32 // prepared
	until     time.Time // its deadline
}

// nearest returns the selected memories with the most similar vectors, whatever their rows' numbers. A reason says what cut it short.
func (c comparison) nearest(ctx context.Context, q leg.Query) (hits []leg.Hit, reason string, err error) {
	total := c.count
	if c.selection.Narrow() {
		total = c.selection.Count()
	}
	n := likelyFor(q.Depth, total)
	if c.exact || total <= max(exactRows, n) {
		c.all()
		n = len(c.candidates)
	} else if reason, err = c.likely(ctx, n, total); err != nil {
		return nil, "", err
	}
	depth := q.Depth
	if q.Borrows(c.rows) {
		depth = max(depth, leg.Lenders)
	}
	scored, inTime, err := c.scoreLikeliest(ctx, n, depth)
	if err != nil {
		return nil, "", err
	}
	if !inTime {
		reason = fmt.Sprintf("only %d of the likeliest %d of %d vectors were compared in time", scored, n, total)
	}
	best := keepBest(c.candidates[:scored], depth)
	lenders := len(keepBest(best, leg.Lenders)) // at the front now
	found := slice.Map(best, candidate.scored)
	if q.Borrows(c.rows) {
		found = q.Lent(c.rows, c.selection, found, lenders, c.lend)
	}
	return q.Hits(c.rows, found), reason, nil
}

// scored returns a candidate with its exact score.
func (c candidate) scored() leg.Scored {
	return leg.Scored{Row: c.row, Score: fromUnits(c.score), Own: fromUnits(c.score)}
}

// lend implements leg.Lender. A row moves towards the neighbour that lifts it most, by that one's share. So a score is still a
// cosine. Rows without a vector are left out.
func (c comparison) lend(around *leg.Surroundings) []leg.Scored {
	own := c.scoreEach(around.Rows)
	lent := make([]leg.Scored, 0, len(around.Wanted))
	for _, place := range around.Wanted {
		if !c.has(around.Rows[place]) {
			continue
		}
		score := own[place]
		around.EachLender(place, func(lender int, share float64) {
			lifted := own[place] + float64(share*(own[lender]-own[place]))
			score = max(score, math.RoundToEven(lifted*scoreUnits)/scoreUnits)
		})
		lent = append(lent, leg.Scored{Row: around.Rows[place], Score: score, Own: own[place]})
	}
	return lent
}

// scoreEach returns the cosines of rows' vectors and the query, -1 for a row without a vector.
func (c comparison) scoreEach(rows []uint32) []float64 {
	scores, all := make([]float32, len(rows)), make([]float64, len(rows))
	with := slices.DeleteFunc(slices.Clone(rows), func(row uint32) bool { return !c.has(row) })
	c.score(with, c.query, scores)
	next := 0
	for i, row := range rows {
		if all[i] = -1; c.has(row) {
			all[i] = fromUnits(scores[next])
			next++
		}
	}
	return all
}

// likelyFor is the number of vectors to score exactly for a number of hits.
func likelyFor(hits, vectors int) int {
	return int(float64(max(likelyPerHit*hits, minLikely)) * math.Sqrt(max(1, float64(vectors)/likelyOf)))
}

// all makes candidates of all selected rows with a vector.
func (c comparison) all() {
	c.candidates = c.candidates[:0]
	for _, row := range c.selection.List() {
		if c.has(row) {
			c.candidates = append(c.candidates, candidate{row: row})
		}
	}
}

// likely makes candidates of selected rows with their estimates: the n best, and those that tie with the last. It samples the
// estimates first, for a bound that about three times n reach, and begins again with a lower one if fewer than n do.
func (c comparison) likely(ctx context.Context, n, total int) (reason string, err error) {
	e := newEstimator(c.query)
	c.candidates = c.candidates[:0]
	groups := (min(len(c.blocks)*blockRows, c.rows.Len()) + groupRows - 1) / groupRows
	step := max(sparsest, groups/sampledGroups)
	for group := 0; group < groups; group += step {
		c.estimateGroups(e, group, group+1, lowest)
	}
	c.sampled = append(c.sampled[:0], c.candidates...)
	for reach := 3 * n * len(c.sampled) / total; ; reach *= 4 {
		bound := lowest
		if reach++; reach < len(c.sampled) {
			bound = worst(keepBest(c.sampled, reach))
		}
		if reason, err = c.scan(ctx, e, groups, bound); err != nil || reason != "" || len(c.candidates) >= n || bound == lowest {
			c.candidates = keepBest(c.candidates, n)
			return reason, err
		}
	}
}

// lowest is below every estimate.
var lowest = float32(math.Inf(-1))

// scan makes candidates of the selected rows of the first groups whose estimates are not below a bound. Of many vectors, each
// processor takes the next ones while there are any. So one that is busy with another leg holds nothing up.
func (c comparison) scan(ctx context.Context, e estimator, groups int, bound float32) (reason string, err error) {
	const size = scanRows / groupRows
	parts := (groups + size - 1) / size
	var taken, compared atomic.Int64
	var left sync.WaitGroup // of parts
	left.Add(parts)
	take := func() (part int) { return int(taken.Add(1)) - 1 }
	compare := func(c comparison, part int) {
		defer left.Done()
		if part > 0 && (ctx.Err() != nil || passed(c.until)) {
			return
		}
		end := min((part+1)*size, groups)
		c.estimateGroups(e, part*size, end, bound)
		compared.Add(int64(end - part*size))
	}
	helpers := make([]*scratch, min(runtime.GOMAXPROCS(0), parts/helped+1)-1)
	for i := range helpers {
		go func() {
			// After a panic the part counts as not compared.
			_ = panics.Catch(ctx, nil, "compare vectors", func() error {
				for part := take(); part < parts; part = take() {
					if helpers[i] == nil {
						helpers[i] = scratches.Get().(*scratch)
						helpers[i].candidates = helpers[i].candidates[:0]
					}
					helper := c
					helper.scratch = helpers[i]
					compare(helper, part)
				}
				return nil
			})
		}()
	}
	c.candidates = c.candidates[:0]
	for part := take(); part < parts; part = take() {
		compare(c, part)
	}
	left.Wait()
	for _, helper := range helpers {
		if helper != nil {
			c.candidates = append(c.candidates, helper.candidates...)
			scratches.Put(helper)
		}
	}
	n := int(compared.Load())
	if n == groups {
		return "", nil
	}
	return fmt.Sprintf("only %d of %d vectors were compared in time", n*groupRows, groups*groupRows), ctx.Err()
}

// estimateGroups adds the selected rows of groups whose estimates are not below a bound.
func (c comparison) estimateGroups(e estimator, from, end int, bound float32) {
	const blockGroups = blockRows / groupRows
	selected, size := c.selection.Bits(), groupBytes(c.of.queried)
	for from < end {
		b, at := &c.blocks[from/blockGroups], from%blockGroups
		most := min(end-from, estimated, blockGroups-at, len(b.spans)/groupRows-at)
		if most <= 0 { // rows without vectors end a block
			from += blockGroups - at
			continue
		}
		n := 0
		for n < most && (selected == nil || selectedIn(selected, from+n) != 0) {
			n++
		}
		if n == 0 {
			from++
			continue
		}
		above := c.above[:n]
		e.estimate(b.codes[at*size:(at+n)*size], b.spans[at*groupRows:(at+n)*groupRows], c.estimates[:], bound, above)
		for g, rows := range above {
			if selected != nil {
				rows &= selectedIn(selected, from+g)
			}
			for ; rows != 0; rows &= rows - 1 {
				place := g*groupRows + bits.TrailingZeros32(rows)
				if row := uint32(from*groupRows + place); selected != nil || c.selection.Has(row) {
					c.candidates = append(c.candidates, candidate{c.estimates[place], row})
				}
			}
		}
		from += n
	}
}

// selectedIn returns the bits of a group's selected rows.
func selectedIn(selected []uint64, group int) uint32 {
	return uint32(selected[group/2] >> (group % 2 * groupRows))
}

// scoreLikeliest replaces estimates by exact scores and moves the scored candidates to the front: the n likeliest, and as many
// again while that changes the best. It returns the number of candidates that it scored until the deadline.
func (c comparison) scoreLikeliest(ctx context.Context, n, depth int) (scored int, inTime bool, err error) {
	for more := true; more && scored < len(c.candidates); {
		bound := lowest // scores below are not among the best
		if best := keepBest(c.candidates[:scored], depth); len(best) >= depth {
			bound = worst(best)
		}
		more = false
		batch := keepBest(c.candidates[scored:], (n+1)/2)
		for some := range slices.Chunk(batch, scoreRows) {
			if scored > 0 {
				if err := ctx.Err(); err != nil {
					return 0, false, err
				}
				if passed(c.until) {
					return scored, false, nil
				}
			}
			for i := range some {
				c.scoring[i] = some[i].row
			}
			c.score(c.scoring[:len(some)], c.query, c.scores[:len(some)])
			for i, score := range c.scores[:len(some)] {
				some[i].score = score
				more = more || score >= bound
			}
			scored += len(some)
		}
	}
	return scored, true, nil
}

// toUnits rounds a cosine to score units, which single precision has exactly.
func toUnits(cosine float32) float32 { return float32(math.RoundToEven(float64(cosine) * scoreUnits)) }

// fromUnits is the inverse of toUnits.
func fromUnits(score float32) float64 { return float64(score) / scoreUnits }

// worst is the least score; candidates must not be empty.
func worst(candidates []candidate) float32 {
	least := candidates[0].score
	for _, c := range candidates {
		least = min(least, c.score)
	}
	return least
}

// keepBest returns the n best candidates and those that tie with the last, unordered, by moving them to the front.
func keepBest(candidates []candidate, n int) []candidate {
	if n >= len(candidates) || n == 0 {
		return candidates[:min(n, len(candidates))]
	}
	moveBest(candidates, n)
	least := worst(candidates[:n])
	for i := n; i < len(candidates); i++ {
		if candidates[i].score == least {
			candidates[n], candidates[i] = candidates[i], candidates[n]
			n++
		}
	}
	return candidates[:n]
}

// moveBest moves the n best candidates to the front (Hoare, "Algorithm 65: Find", CACM 1961).
func moveBest(candidates []candidate, n int) {
	for from, to := 0, len(candidates)-1; from < to; {
		pivot := candidates[(from+to)/2].score
		i, j := from, to
		for i <= j {
			for candidates[i].score > pivot {
				i++
			}
			for candidates[j].score < pivot {
				j--
			}
			if i <= j {
				candidates[i], candidates[j] = candidates[j], candidates[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n <= j:
			to = j
		case n >= i:
			from = i
		default:
			return
		}
	}
}
