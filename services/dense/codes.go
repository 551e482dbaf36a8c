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

// A code is a bit per component of a vector: set where it is not negative. Codes that differ in few bits are of vectors
// that point the same way (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002).

const (
	// blockRows is how many codes, and scoreRows how many vectors, are compared between looks at the clock.
	blockRows = 1 << 16
	scoreRows = 1024
)

// codeWords is the length of a code.
func codeWords(dimensions int) int { return (dimensions + 63) / 64 }

// code returns a vector's.
func code(vector []float32) []uint64 {
	code := make([]uint64, codeWords(len(vector)))
	for i, x := range vector {
		if !math.Signbit(float64(x)) {
			code[i/64] |= 1 << (i % 64)
		}
	}
	return code
}

// appendCode appends the code of a vector as dense_vectors keeps it.
func appendCode(codes []uint64, stored []byte) []uint64 {
	for ; len(stored) > 0; stored = stored[min(128, len(stored)):] {
		var word uint64
		for i := 0; i < min(128, len(stored)); i += 2 {
			word |= uint64(^stored[i+1]>>7) << (i / 2)
		}
		codes = append(codes, word)
	}
	return codes
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

// estimator estimates a prepared query's product with vectors from their codes: the sum of its components, each with the sign that
// the vector's has. For each byte of a code it has the sum for all 256 values.
type estimator [][256]float32

func newEstimator(query []float32) estimator {
	e := make(estimator, 8*codeWords(len(query)))
	for i := range e {
		of := query[min(8*i, len(query)):min(8*i+8, len(query))]
		for _, x := range of {
			e[i][0] -= x / halfScale
		}
		for value := 1; value < 256; value++ {
			e[i][value] = e[i][value&(value-1)]
			if lowest := bits.TrailingZeros(uint(value)); lowest < len(of) {
				e[i][value] += 2 * of[lowest] / halfScale
			}
		}
	}
	return e
}

func (e estimator) estimate(code []uint64) (sum float32) {
	for _, word := range code {
		of := e[:8]
		sum += (of[0][byte(word)] + of[1][byte(word>>8)]) + (of[2][byte(word>>16)] + of[3][byte(word>>24)]) +
			((of[4][byte(word>>32)] + of[5][byte(word>>40)]) + (of[6][byte(word>>48)] + of[7][word>>56]))
		e = e[8:]
	}
	return sum
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

// likely returns the rows whose codes say that they are among the nearest, about n of them, in any order: of those with
// the least Hamming distances, which are quick to find, the ones with the best estimates. It considers the given rows, or
// all if they are nil, as far as it gets before the moment until, and says how many.
func (m matrix) likely(ctx context.Context, s *scratch, query []float32, rows []int32, n int, until time.Time) (likely []candidate, considered int, err error) {
	total := len(m.ids)
	if rows != nil {
		total = len(rows)
	}
	words, of := codeWords(len(query)), code(query)
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
			distance := hamming(m.codes[row*words:row*words+words], of)
			s.distances[i] = uint16(distance)
			histogram[distance]++
		}
		considered = block
	}
	const perLikely, leastShare = 4, 32 // found to lose little: see docs/bench/dense.md
	farthest, near := 0, histogram[0]
	for near < perLikely*n+considered/leastShare && farthest < len(query) {
		farthest++
		near += histogram[farthest]
	}
	e := newEstimator(query)
	candidates := slices.Grow(s.candidates[:0], near)
	for i, distance := range s.distances[:considered] {
		if int(distance) > farthest {
			continue
		}
		row := int32(i)
		if rows != nil {
			row = rows[i]
		}
		candidates = append(candidates, candidate{toUnits(e.estimate(m.codes[int(row)*words : int(row)*words+words])), row})
	}
	s.candidates = candidates
	if len(candidates) <= n {
		return candidates, considered, nil
	}
	// The heap gives them best first; each goes where the heap no longer is.
	r := newRanking(candidates)
	for len(r) > len(candidates)-n {
		best := r.pop()
		candidates[len(r)] = best
	}
	return candidates[len(candidates)-n:], considered, nil
}
