package graph

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// rescored is the number of rows for exact rescoring.
const rescored = 512

// code is a vector quantized to a signed byte per dimension, without its length. Its cosines are exact to about 0.02.
type code []byte

// encode quantizes a vector; the empty code is the zero vector.
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
		out[i] = byte(int8(math.Round(float64(x) / most * math.MaxInt8)))
	}
	return out
}

// space holds one model's vectors by row, with gaps.
type space struct {
	dims  int
	signs []uint64 // a bit for each dimension
	codes code
	norms []float32 // 0 in a row without a vector
}

func (s *space) words() int { return (s.dims + 63) / 64 }

// bytes is the memory of the vectors.
func (s *space) bytes() int64 { return int64(len(s.codes) + 8*len(s.signs) + 4*len(s.norms)) }

func (s *space) has(row uint32) bool { return int(row) < len(s.norms) && s.norms[row] > 0 }

// set stores a row's vector. It returns false for other dimensions or a zero vector.
func (s *space) set(row uint32, vector code) bool {
	if s.dims == 0 || len(vector) != s.dims {
		return false
	}
	if rows := int(row) + 1; rows > len(s.norms) {
		more := rows - len(s.norms)
		s.norms = append(s.norms, make([]float32, more)...)
		s.codes = append(s.codes, make(code, more*s.dims)...)
		s.signs = append(s.signs, make([]uint64, more*s.words())...)
	}
	copy(s.codes[int(row)*s.dims:], vector)
	sketch(s.signs[int(row)*s.words():int(row+1)*s.words()], vector)
	s.norms[row] = float32(math.Sqrt(float64(dot(vector, vector))))
	return s.norms[row] > 0
}

func (s *space) clear(row uint32) {
	if int(row) < len(s.norms) {
		s.norms[row] = 0
	}
}

// near is a row with its cosine similarity.
type near struct {
	row    uint32
	cosine float64
}

// nearest returns at most n rows that pass a check and have at least the cosine least, best first, ties by order. It rescores only
// the rows with the fewest differing signs (Charikar, STOC 2002), so it can miss a row.
func (s *space) nearest(vector code, n int, least float64, pass func(row uint32) bool, order func(a, b uint32) int) []near {
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
		if cosine >= least && pass(uint32(row)) {
			out = append(out, near{uint32(row), cosine})
		}
	}
	slices.SortFunc(out, func(a, b near) int { return cmp.Or(cmp.Compare(b.cosine, a.cosine), order(a.row, b.row)) })
	return out[:min(len(out), n)]
}

// sketch writes the sign bits.
func sketch(into []uint64, vector code) {
	clear(into)
	for i, x := range vector {
		if int8(x) > 0 {
			into[i/64] |= 1 << (i % 64)
		}
	}
}

// dot is the inner product of vectors of one length.
func dot(a, b code) (sum int32) {
	b = b[:len(a)]
	if n := len(a) &^ 15; hasDot && n > 0 {
		sum, a, b = dotAVX2(&a[0], &b[0], n), a[n:], b[n:]
	}
	for i, x := range a {
		sum += int32(int8(x)) * int32(int8(b[i]))
	}
	return sum
}
