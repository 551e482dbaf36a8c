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
	sampleOf = 7
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
	sums       []int32
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
	rowOf := func(i int) int {
		if rows != nil {
			return int(rows[i])
		}
		return i
	}
	e := newEstimator(query)
	s.sums = slices.Grow(s.sums[:0], total)[:total]
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
			e.sum(m.signs[considered*e.words:block*e.words], s.sums[considered:block])
		} else {
			for i := considered; i < block; i++ {
				row := int(rows[i])
				e.sum(m.signs[row*e.words:(row+1)*e.words], s.sums[i:i+1])
			}
		}
		considered = block
	}
	sums, perStep := s.sums[:considered], e.step*scoreUnits
	s.candidates = slices.Grow(s.candidates[:0], considered)
	// Of one row in sampleOf, as many are above the bound as it takes for bySigns of all, about.
	bySigns, bound := signsPerLikely*n, int32(math.MinInt32)
	if sample := s.candidates; bySigns < considered/2 {
		for i := 0; i < considered; i += sampleOf {
			sample = append(sample, candidate{score: int32(float32(sums[i]) * m.spans[rowOf(i)] * perStep)})
		}
		bound = worst(keepBest(sample, bySigns/sampleOf))
	}
	candidates := m.above(s.candidates, sums, rows, perStep, bound)
	if len(candidates) < n { // the sample was not like the rest
		candidates = m.above(s.candidates, sums, rows, perStep, math.MinInt32)
	}
	var sum [1]int32
	for i, c := range candidates {
		row := int(c.row)
		e.sum(m.sizes[row*e.words:(row+1)*e.words], sum[:])
		candidates[i].score += int32(float32(sum[0]) / 2 * m.spans[row] * perStep)
	}
	return keepBest(candidates, n), considered, nil
}

// above appends the rows whose estimates by the first bits, the sums of which are given, are not below the bound.
func (m matrix) above(to []candidate, sums, rows []int32, perStep float32, bound int32) []candidate {
	if rows == nil {
		spans := m.spans[:len(sums)]
		for row, sum := range sums {
			if score := int32(float32(sum) * spans[row] * perStep); score >= bound {
				to = append(to, candidate{score, int32(row)})
			}
		}
		return to
	}
	for i, sum := range sums {
		if score := int32(float32(sum) * m.spans[rows[i]] * perStep); score >= bound {
			to = append(to, candidate{score, rows[i]})
		}
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
