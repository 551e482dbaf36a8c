package dense

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
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

// signsOf returns the first bits of a query's code.
func signsOf(query []float32) []uint64 {
	signs := make([]uint64, codeWords(len(query)))
	for i, x := range query {
		if !math.Signbit(float64(x)) {
			signs[i/64] |= 1 << (i % 64)
		}
	}
	return signs
}

// hamming counts the bits in which codes of equal length differ.
func hamming(a, b []uint64) (n int) {
	for len(a) >= 4 && len(b) >= 4 {
		n += bits.OnesCount64(a[0]^b[0]) + bits.OnesCount64(a[1]^b[1]) + bits.OnesCount64(a[2]^b[2]) + bits.OnesCount64(a[3]^b[3])
		a, b = a[4:], b[4:]
	}
	for i := range min(len(a), len(b)) {
		n += bits.OnesCount64(a[i] ^ b[i])
	}
	return n
}

// queryPlanes is how many bits an estimator has of a query's component.
const queryPlanes = 4

// estimator is a query whose components are rounded to whole steps, from -7 to 7, in two's complement: of 64 components
// each, plane p has bit p. A sum of these steps, each with the sign that a code's bit stands for, is a matter of counting bits
// (Gao and Long, "RaBitQ", SIGMOD 2024, section 3.3).
type estimator struct {
	planes [][queryPlanes]uint64
	none   int     // the sum by a code without any bits
	step   float32 // of a query of length 1
}

// newEstimator returns the estimator of a prepared query.
func newEstimator(query []float32) estimator {
	const most = 1<<(queryPlanes-1) - 1
	var largest float32
	for _, x := range query {
		largest = max(largest, x, -x)
	}
	e := estimator{planes: make([][queryPlanes]uint64, codeWords(len(query))), step: largest / most / halfScale}
	for i, x := range query {
		steps := int(math.Round(float64(x / largest * most)))
		for p := range queryPlanes {
			e.planes[i/64][p] |= uint64(steps>>p&1) << (i % 64)
		}
		e.none -= steps
	}
	return e
}

// sum adds up the query's steps with the signs that the bits of a code stand for. The sum by the first bits and half of that
// by the second, times the code's span and the query's step, is an estimate of the product with the vector.
func (e *estimator) sum(code []uint64) int32 {
	planes := e.planes[:len(code)]
	var ones, twos, fours, eights int
	for i, word := range code {
		p := &planes[i]
		ones += bits.OnesCount64(word & p[0])
		twos += bits.OnesCount64(word & p[1])
		fours += bits.OnesCount64(word & p[2])
		eights += bits.OnesCount64(word & p[3])
	}
	return int32(e.none + 2*(ones+2*twos+4*fours-8*eights))
}

// halfScale is what a half-precision number is too small by if its bits are moved to where single precision has them: the
// exponents' biases differ by 112.
const halfScale = 0x1p112

// prepared is a query's vector for comparing: scaled to length 1 in single precision, and then by halfScale.
func prepared(vector []float32) []float32 {
	var squares float64
	for _, x := range vector {
		squares += float64(x) * float64(x)
	}
	scale := halfScale / math.Sqrt(squares)
	query := make([]float32, len(vector))
	for i, x := range vector {
		query[i] = float32(float64(x) * scale)
	}
	return query
}

// halfDot is the inner product of a prepared query and a vector in half precision.
func halfDot(query []float32, halves []uint16) float32 {
	var s0, s1, s2, s3 float32
	for len(query) >= 4 && len(halves) >= 4 {
		s0 += query[0] * moved(halves[0])
		s1 += query[1] * moved(halves[1])
		s2 += query[2] * moved(halves[2])
		s3 += query[3] * moved(halves[3])
		query, halves = query[4:], halves[4:]
	}
	for i := range min(len(query), len(halves)) {
		s0 += query[i] * moved(halves[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// moved is a half-precision number divided by halfScale.
func moved(half uint16) float32 {
	return math.Float32frombits(uint32(int32(int16(half))<<13) & 0x8fffe000)
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
	distances  []uint16
	candidates []candidate
}

// likely returns the rows whose codes say that they are among the nearest, n of them at most, in any order: of those with the
// least Hamming distances, which are quick to find, the ones with the best estimates, by the first bits and then by both.
// It considers the given rows, or all if they are nil, as far as it gets before the moment until, and says how many.
func (m matrix) likely(ctx context.Context, s *scratch, query []float32, rows []int32, n int, until time.Time) (likely []candidate, considered int, err error) {
	total := len(m.ids)
	if rows != nil {
		total = len(rows)
	}
	words, of := codeWords(len(query)), signsOf(query)
	s.distances = slices.Grow(s.distances[:0], total)[:total]
	histogram := make([]int, len(query)+1)
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
		for i := considered; i < block; i++ {
			row := i
			if rows != nil {
				row = int(rows[i])
			}
			distance := hamming(m.signs[row*words:row*words+words], of)
			s.distances[i] = uint16(distance)
			histogram[distance]++
		}
		considered = block
	}
	bySigns := signsPerLikely * n
	farthest, near := 0, histogram[0]
	for near < max(bySigns, considered/2) && farthest < len(query) { // distances are so coarse that only the far half can be left out
		farthest++
		near += histogram[farthest]
	}
	e := newEstimator(query)
	unitsPerStep := e.step * scoreUnits
	s.candidates = slices.Grow(s.candidates[:0], near)
	for i, distance := range s.distances[:considered] {
		if int(distance) > farthest {
			continue
		}
		row := i
		if rows != nil {
			row = int(rows[i])
		}
		sum := e.sum(m.signs[row*words : row*words+words])
		s.candidates = append(s.candidates, candidate{int32(float32(sum) * m.spans[row] * unitsPerStep), int32(row)})
	}
	candidates := keepBest(s.candidates, bySigns)
	for i, c := range candidates {
		row := int(c.row)
		candidates[i].score += int32(float32(e.sum(m.sizes[row*words:row*words+words])) / 2 * m.spans[row] * unitsPerStep)
	}
	return keepBest(candidates, n), considered, nil
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
