package dense

import (
	"math"
	"math/bits"
)

// estimator is a query quantized to 0, 1, 3, 5 or 7 steps per component, with signs. Its inner product with a code
// takes only popcounts (Gao and Long, "RaBitQ", SIGMOD 2024, section 3.3).
type estimator struct {
	words int // per code, first bits
	// planes are four bit planes, each padded to a multiple of planeWords words: the sign, whether the component is not 0, and
	// whether 2 and 4 are added to its 1 step.
	planes []uint64
	all    int32   // the sum for a code with equal signs
	step   float32 // the step's size for a query of length 1
}

// planeWords is the words that estimateAVX2 compares at once.
const planeWords = 4

// steps are the candidates for steps per root mean square of the query's components. The one with the least error is
// taken: many for even components, few for a few large ones.
var steps = [...]float64{2.8, 1.8, 0.9}

// newEstimator quantizes a prepared query.
func newEstimator(query []float32) estimator {
	var squares float64
	counted := 0
	for _, x := range query {
		if x != 0 {
			squares += float64(x) * float64(x)
			counted++
		}
	}
	size, least := math.Sqrt(squares/float64(counted)), math.Inf(1)
	var step float32
	for _, n := range steps {
		perStep, failed := float32(n/size), float32(0)
		for _, x := range query {
			inSteps := max(x, -x) * perStep
			missing := float32(rounded(inSteps)) - inSteps
			failed += missing * missing
		}
		if of := float64(failed) / (n * n); of < least {
			step, least = float32(size/n), of
		}
	}
	words := codeWords(len(query))
	stride := (words + planeWords - 1) / planeWords * planeWords
	e := estimator{words: words, planes: make([]uint64, 4*stride), step: step / halfScale}
	for i, x := range query {
		n := rounded(max(x, -x) / step)
		word, bit := i/64, i%64
		if !math.Signbit(float64(x)) {
			e.planes[word] |= 1 << bit
		}
		if n > 0 {
			e.planes[stride+word] |= 1 << bit
		}
		e.planes[2*stride+word] |= uint64(n>>1&1) << bit
		e.planes[3*stride+word] |= uint64(n>>2&1) << bit
		e.all += n
	}
	return e
}

// rounded quantizes a number of steps.
func rounded(steps float32) int32 {
	switch {
	case steps < 0.5:
		return 0
	case steps >= 6:
		return 7
	default:
		return int32(steps)&^1 + 1
	}
}

// estimate sets products to the inner products of the query's steps with consecutive codes, times their spans. There are
// len(spans) codes. The products of the first bits plus half of those of the second, times the step, estimate the inner
// product with the vector.
func (e *estimator) estimate(codes []uint64, spans, products []float32) {
	if len(spans) == 0 {
		return
	}
	_, _ = codes[len(spans)*e.words-1], products[len(spans)-1] // bounds check for the assembly
	switch fastest {
	case avx512:
		estimateAVX512(&codes[0], len(spans), e.words, &e.planes[0], e.all, &spans[0], &products[0])
	case avx2:
		estimateAVX2(&codes[0], len(spans), e.words, &e.planes[0], e.all, &spans[0], &products[0])
	default:
		e.scalarEstimate(codes, spans, products)
	}
}

// scalarEstimate is estimate in portable Go.
func (e *estimator) scalarEstimate(codes []uint64, spans, products []float32) {
	stride := len(e.planes) / 4
	signs, ones, twos, fours := e.planes[:e.words], e.planes[stride:][:e.words], e.planes[2*stride:][:e.words], e.planes[3*stride:][:e.words]
	for i, span := range spans {
		var by1, by2, by4 int
		for j, word := range codes[i*e.words:][:e.words] {
			differs := word ^ signs[j]
			by1 += bits.OnesCount64(differs & ones[j])
			by2 += bits.OnesCount64(differs & twos[j])
			by4 += bits.OnesCount64(differs & fours[j])
		}
		products[i] = float32(e.all-2*int32(by1+2*by2+4*by4)) * span
	}
}
