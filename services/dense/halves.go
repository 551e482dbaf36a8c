package dense

import "math"

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

// moved is a half-precision number divided by halfScale.
func moved(half uint16) float32 {
	return math.Float32frombits(uint32(int32(int16(half))<<13) & 0x8fffe000)
}

// dotLanes is how many sums an inner product is added up in, of each of which every so many components are. So it is the
// same to the last bit whichever instructions add it up.
const dotLanes = 8

// halfDot is the inner product of a prepared query and a vector in half precision.
func halfDot(query []float32, halves []uint16) float32 {
	n := len(query) / dotLanes * dotLanes
	var dot float32
	halves = halves[:len(query)]
	switch {
	case n == 0:
	case fastest >= avx2:
		dot = dotAVX2(&query[0], &halves[0], n)
	default:
		dot = scalarDot(query[:n], halves[:n])
	}
	for i, x := range query[n:] {
		dot += float32(x * moved(halves[n+i]))
	}
	return dot
}

// scalarDot is halfDot without vector instructions, for whole lanes. Products are rounded before they are added, as these do.
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
