package dense

import (
	"math"

	"golang.org/x/sys/cpu"
)

// hasAVX2 says that the processor has the instructions for comparing vectors, as nearly all have since 2015. Results are equal to the
// last bit without them.
var hasAVX2 = cpu.X86.HasAVX2

// halfScale restores a half-precision number whose bits were moved to single precision: the exponents' biases differ
// by 112.
const halfScale = 0x1p112

// prepared scales a query to length 1 in single precision, then by halfScale.
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

// moved returns a half-precision number / halfScale.
func moved(half uint16) float32 {
	return math.Float32frombits(uint32(int32(int16(half))<<13) & 0x8fffe000)
}

// dotLanes is the number of partial sums of an inner product. All instruction sets use the same lanes, so results are
// equal to the last bit.
const dotLanes = 8

// halfDot is the inner product of a prepared query and a half-precision vector.
func halfDot(query []float32, halves []uint16) float32 {
	halves = halves[:len(query)]
	vectors := [4][]uint16{halves, halves, halves, halves}
	return halfDots(query, &vectors, &vectors)[0]
}

// halfDots is halfDot of four vectors. Those of the next call may be fetched ahead.
func halfDots(query []float32, vectors, next *[4][]uint16) (dots [4]float32) {
	n := len(query) / dotLanes * dotLanes
	switch {
	case n == 0:
	case hasAVX2:
		var halves [8]*uint16
		for i := range vectors {
			halves[i], halves[4+i] = &vectors[i][0], &next[i][0]
		}
		dotsAVX2(&query[0], &halves, n, &dots)
	default:
		for i, halves := range vectors {
			dots[i] = scalarDot(query[:n], halves[:n])
		}
	}
	for i, x := range query[n:] {
		for v, halves := range vectors {
			dots[v] += float32(x * moved(halves[n+i]))
		}
	}
	return dots
}

// scalarDot is an inner product of whole lanes in portable Go. It rounds products before adding, as the assembly does.
func scalarDot(query []float32, halves []uint16) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(query) >= dotLanes && len(halves) >= dotLanes {
		s0 += float32(query[0] * moved(halves[0]))
		s1 += float32(query[1] * moved(halves[1]))
		s2 += float32(query[2] * moved(halves[2]))
		s3 += float32(query[3] * moved(halves[3]))
		s4 += float32(query[4] * moved(halves[4]))
		s5 += float32(query[5] * moved(halves[5]))
		s6 += float32(query[6] * moved(halves[6]))
		s7 += float32(query[7] * moved(halves[7]))
		query, halves = query[dotLanes:], halves[dotLanes:]
	}
	return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
}
