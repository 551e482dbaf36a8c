package dense

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/x448/float16"
)

// A code is two bits per component of a vector. The first is set where the component is not negative: vectors that differ in
// few of these point the same way (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002).
// With the second, a component is one of four numbers: -3/2, -1/2, 1/2 or 3/2 times the vector's span.

const (
	// blockRows is how many codes, and scoreRows how many vectors, are compared between looks at the clock.
	blockRows = 1 << 16
	scoreRows = 256
	// sampleOf is how many rows there are for each that says what score the best begin with; a prime, because few things repeat after that.
	sampleOf = 13
)

// codeWords is the length of the first bits, and of the second bits, of a code.
func codeWords(dimensions int) int { return (dimensions + 63) / 64 }

// appendCode appends the two bits of each component of a vector. The span fits the first components, as many as queries
// have, such that estimates are right on average (the scaling of Gao and Long, "RaBitQ", SIGMOD 2024).
func appendCode(signs, sizes []uint64, halves []uint16, queried int) (outSigns, outSizes []uint64, span float32) {
	var squares, product float64
	for _, half := range halves[:queried] {
		x := float64(moved(half))
		squares += x * x
	}
	large := math.Sqrt(squares / float64(queried))
	for i, half := range halves {
		if i%64 == 0 {
			signs, sizes = append(signs, 0), append(sizes, 0)
		}
		positive, size, level := half>>15 == 0, math.Abs(float64(moved(half))), 0.5
		if size >= large {
			level = 1.5
		}
		word, bit := len(signs)-1, uint64(1)<<(i%64)
		if positive {
			signs[word] |= bit
		}
		if positive == (size >= large) {
			sizes[word] |= bit
		}
		if i < queried {
			product += level * size
		}
	}
	if product > 0 {
		span = float32(squares / product * halfScale)
	}
	return signs, sizes, span
}

// appendHalves appends a vector as dense_vectors keeps it, and returns what makes its length 1.
func appendHalves(halves []uint16, stored []byte, dimensions int) (out []uint16, scale float32, err error) {
	if len(stored) != 2*dimensions {
		return halves, 0, fmt.Errorf("a stored vector has %d bytes, not %d", len(stored), 2*dimensions)
	}
	var squares float64
	for ; len(stored) > 0; stored = stored[2:] {
		half := binary.LittleEndian.Uint16(stored)
		x := float64(float16.Frombits(half).Float32())
		squares += x * x
		halves = append(halves, half)
	}
	if !(squares > 0) || math.IsInf(squares, 0) {
		return halves, 0, errors.New("a stored vector has no length, or one beyond numbers")
	}
	return halves, float32(1 / math.Sqrt(squares)), nil
}

// scratch is what a search works in.
type scratch struct {
	products   []float32
	candidates []candidate
}

// likely returns the rows whose codes say that they are among the nearest, n of them at most, in any order: of those with the
// best estimates by the first bits, the ones with the best by both. It considers the given rows, or all if they are nil, as
// far as it gets before the moment until, and says how many.
func (m matrix) likely(ctx context.Context, s *scratch, query []float32, rows []int32, n int, until time.Time) (likely []candidate, considered int, err error) {
	total := len(m.ids)
	if rows != nil {
		total = len(rows)
	}
	e := newEstimator(query)
	s.products = slices.Grow(s.products[:0], total)[:total]
	for considered < total {
		if considered > 0 {
			if err := ctx.Err(); err != nil {
				return nil, 0, err
			}
			if passed(until) {
				break
			}
		}
		block := min(considered+blockRows, total)
		if rows == nil {
			e.estimate(m.signs[considered*e.words:block*e.words], m.spans[considered:block], s.products[considered:block])
		} else {
			for i := considered; i < block; i++ {
				row := int(rows[i])
				e.estimate(m.signs[row*e.words:(row+1)*e.words], m.spans[row:row+1], s.products[i:i+1])
			}
		}
		considered = block
	}
	products := s.products[:considered]
	s.candidates = slices.Grow(s.candidates[:0], considered)
	// Of one row in sampleOf, as many are above the bound as it takes for bySigns of all, about.
	bySigns, bound, perStep := signsPerLikely*n, float32(math.Inf(-1)), e.step*scoreUnits
	if sample := s.candidates; bySigns < considered/2 {
		for i := 0; i < considered; i += sampleOf {
			sample = append(sample, candidate{score: int32(products[i] * perStep)})
		}
		bound = float32(worst(keepBest(sample, bySigns/sampleOf))) / perStep
	}
	candidates := above(s.candidates, products, rows, bound, perStep)
	if len(candidates) < n { // the sample was not like the rest
		candidates = above(s.candidates, products, rows, float32(math.Inf(-1)), perStep)
	}
	var bySizes [1]float32
	for i, c := range candidates {
		row := int(c.row)
		e.estimate(m.sizes[row*e.words:(row+1)*e.words], m.spans[row:row+1], bySizes[:])
		candidates[i].score += int32(bySizes[0] / 2 * perStep)
	}
	return keepBest(candidates, n), considered, nil
}

// above appends the rows whose products are not below the bound; to has room for all.
func above(to []candidate, products []float32, rows []int32, bound, perStep float32) []candidate {
	to = to[:len(products)]
	n := 0
	for i, product := range products {
		to[n].row = int32(i) // is written over unless it stays; a branch would often be taken wrongly
		if product >= bound {
			n++
		}
	}
	to = to[:n]
	for i, c := range to {
		row := c.row
		if rows != nil {
			row = rows[c.row]
		}
		to[i] = candidate{int32(products[c.row] * perStep), row}
	}
	return to
}

// worst is the least score of candidates, of which there must be some.
func worst(candidates []candidate) int32 {
	least := candidates[0].score
	for _, c := range candidates {
		least = min(least, c.score)
	}
	return least
}

// keepBest moves the n candidates that score best to the front, in any order, and returns them (Hoare, "Algorithm 65: Find",
// CACM 1961).
func keepBest(candidates []candidate, n int) []candidate {
	if n >= len(candidates) {
		return candidates
	}
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
			return candidates[:n]
		}
	}
	return candidates[:n]
}
