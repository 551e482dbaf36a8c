package graph

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	// rescored is how many rows, nearest by their signs, are compared in full.
	rescored = 512
	// arcBytes is what an arc of a network takes in memory, about.
	arcBytes = 100
)

// code is a vector by a byte for each dimension, which is all that a cosine of two hundredths wants. Its length is lost.
type code []int8

// encode rounds a vector; the empty code stands for the zero vector.
func encode(vector []float32) code {
	var most float64
	for _, x := range vector {
		most = max(most, math.Abs(float64(x)))
	}
	if most == 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		return code{}
	}
	out := make(code, len(vector))
	for i, x := range vector {
		out[i] = int8(math.Round(float64(x) / most * math.MaxInt8))
	}
	return out
}

func (c code) bytes() []byte {
	out := make([]byte, len(c))
	for i, x := range c {
		out[i] = byte(x)
	}
	return out
}

func toCode(stored []byte) code {
	out := make(code, len(stored))
	for i, x := range stored {
		out[i] = int8(x)
	}
	return out
}

// space holds vectors of one model by row, some rows without.
type space struct {
	dims  int
	signs []uint64 // a bit for each dimension
	codes []int8
	norms []float32 // 0 in a row without a vector
}

func (s *space) words() int { return (s.dims + 63) / 64 }

// rowArcs is how many arcs a row takes the memory of.
func (s *space) rowArcs() int { return (s.dims + 8*s.words() + 4 + arcBytes - 1) / arcBytes }

func (s *space) has(row int32) bool { return int(row) < len(s.norms) && s.norms[row] > 0 }

// set gives a row a vector, and says whether it could: not if the vector has other dimensions, or none.
func (s *space) set(row int32, vector code) bool {
	if s.dims == 0 || len(vector) != s.dims {
		return false
	}
	for int(row) >= len(s.norms) {
		s.norms = append(s.norms, 0)
		s.codes = append(s.codes, make([]int8, s.dims)...)
		s.signs = append(s.signs, make([]uint64, s.words())...)
	}
	copy(s.codes[int(row)*s.dims:], vector)
	sketch(s.signs[int(row)*s.words():int(row+1)*s.words()], vector)
	s.norms[row] = float32(math.Sqrt(float64(dot(vector, vector))))
	return s.norms[row] > 0
}

func (s *space) clear(row int32) {
	if int(row) < len(s.norms) {
		s.norms[row] = 0
	}
}

// near is a row and its cosine to what was asked about.
type near struct {
	row    int32
	cosine float64
}

// nearest returns the rows with at least a cosine to a vector, nearest first and equally near ones in the given order, that
// pass a check, at most n. Of many rows it compares in full those with the most signs in common (Charikar, "Similarity estimation techniques from rounding
// algorithms", STOC 2002), so that it can miss one.
func (s *space) nearest(vector code, n int, least float64, pass func(row int32) bool, order func(a, b int32) int) []near {
	if s.dims == 0 || len(vector) != s.dims || len(s.norms) == 0 {
		return nil
	}
	signs := make([]uint64, s.words())
	sketch(signs, vector)
	apart := make([]uint16, len(s.norms)) // signs that differ
	counts := make([]int, s.dims+1)
	for row := range apart {
		var d int
		for i, word := range s.signs[row*len(signs) : (row+1)*len(signs)] {
			d += bits.OnesCount64(word ^ signs[i])
		}
		apart[row] = uint16(d)
		counts[d]++
	}
	limit, sum := uint16(0), 0
	for d, count := range counts {
		if sum += count; sum >= rescored || d == s.dims {
			limit = uint16(d)
			break
		}
	}
	norm := math.Sqrt(float64(dot(vector, vector)))
	var out []near
	for row, d := range apart {
		if d > limit || s.norms[row] == 0 {
			continue
		}
		cosine := float64(dot(vector, s.codes[row*s.dims:(row+1)*s.dims])) / (norm * float64(s.norms[row]))
		if cosine >= least && pass(int32(row)) {
			out = append(out, near{int32(row), cosine})
		}
	}
	slices.SortFunc(out, func(a, b near) int { return cmp.Or(cmp.Compare(b.cosine, a.cosine), order(a.row, b.row)) })
	return out[:min(len(out), n)]
}

// sketch writes a vector's signs.
func sketch(into []uint64, vector code) {
	clear(into)
	for i, x := range vector {
		if x > 0 {
			into[i/64] |= 1 << (i % 64)
		}
	}
}

// dot is the inner product. The partial sums do not wait for one another.
func dot(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += int32(a[0]) * int32(b[0])
		s1 += int32(a[1]) * int32(b[1])
		s2 += int32(a[2]) * int32(b[2])
		s3 += int32(a[3]) * int32(b[3])
		a, b = a[4:], b[4:]
	}
	for i := range min(len(a), len(b)) {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}
