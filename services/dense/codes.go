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

// A code quantizes each component of a vector to two bits. The first bits are signs: vectors with few differing signs have
// similar directions (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002).
// With both bits, a component is -3/2, -1/2, 1/2 or 3/2 times the vector's span.

const (
	// blockRows codes or scoreRows vectors are compared between checks of the deadline.
	blockRows = 1 << 16
	scoreRows = 256
	// sampleOf is the sampling interval for the score bound. It is prime, because few patterns repeat at a prime.
	sampleOf = 13
)

// codeWords is the number of words of a code's first bits, or second bits.
func codeWords(dimensions int) int { return (dimensions + 63) / 64 }

// appendCode appends a vector's code. The span is fitted to the first queried components, so that estimates are
// unbiased (the scaling of Gao and Long, "RaBitQ", SIGMOD 2024).
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

// appendHalves appends a stored vector. It returns the factor for unit length.
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

// scratch holds a search's buffers.
type scratch struct {
	products   []float32
	candidates []candidate
}

// likely returns at most n rows with the best estimates, unordered. It ranks all rows by their first bits, and the best of
// these by both bits. rows nil means all rows. It stops at until and returns how many rows it considered.
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
	// Estimate from a sample the bound that about bySigns rows exceed.
	bySigns, bound, perStep := signsPerLikely*n, float32(math.Inf(-1)), e.step*scoreUnits
	if sample := s.candidates; bySigns < considered/2 {
		for i := 0; i < considered; i += sampleOf {
			sample = append(sample, candidate{score: int32(products[i] * perStep)})
		}
		bound = float32(worst(keepBest(sample, bySigns/sampleOf))) / perStep
	}
	candidates := above(s.candidates, products, rows, bound, perStep)
	if len(candidates) < n { // the sample was not representative
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

// above appends the rows with products of at least bound; to needs room for all.
func above(to []candidate, products []float32, rows []int32, bound, perStep float32) []candidate {
	to = to[:len(products)]
	n := 0
	for i, product := range products {
		to[n].row = int32(i) // overwritten unless kept; a branch would often be mispredicted
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

// worst is the least score; candidates must not be empty.
func worst(candidates []candidate) int32 {
	least := candidates[0].score
	for _, c := range candidates {
		least = min(least, c.score)
	}
	return least
}

// keepBest returns the n best candidates, unordered, by moving them to the front (Hoare, "Algorithm 65: Find",
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
