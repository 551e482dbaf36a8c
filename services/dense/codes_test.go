package dense

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/x448/float16"
)

// direction is a random vector of length 1, and as dense_vectors keeps it.
func direction(rng *rand.Rand, dimensions int, around []float32) (vector []float32, stored []byte) {
	vector = make([]float32, dimensions)
	for i := range vector {
		vector[i] = float32(rng.NormFloat64())
		if around != nil {
			vector[i] += around[i] * float32(math.Sqrt(float64(dimensions)))
		}
	}
	vector, err := unit(vector)
	if err != nil {
		panic(err) // normal numbers are finite
	}
	return vector, encode(vector)
}

func TestCodesOfStoredVectors(t *testing.T) {
	for _, dimensions := range []int{1, 63, 64, 100, 256, 1000} {
		rng := rand.New(rand.NewPCG(1, uint64(dimensions)))
		query, _ := direction(rng, dimensions, nil)
		vector, stored := direction(rng, dimensions, nil)
		halves, scale, err := appendHalves(nil, stored, dimensions)
		if err != nil {
			t.Fatal(err)
		}
		queried := max(1, dimensions-1) // as if queries had nothing in the last component
		group, row := make([]byte, groupBytes(dimensions)), rng.IntN(groupRows)
		for i := range group {
			group[i] = 0xff // of a vector before
		}
		span := code(group, row, halves, queried)
		var squares float64
		for _, x := range vector[:queried] {
			squares += float64(x) * float64(x)
		}
		large := math.Sqrt(squares / float64(queried))
		var coded, estimate float64
		for i, x := range vector {
			level := math.Copysign(0.5, float64(x))
			if math.Abs(float64(x)) >= large {
				level *= 3
			}
			if i < queried {
				coded += level * float64(x)
			}
			estimate += level * float64(query[i])
		}
		if want := squares / coded; math.Abs(float64(span)/want-1) > 1e-4 {
			t.Errorf("%d dimensions: span %v, want %v", dimensions, span, want)
		}
		p := prepared(query)
		e := newEstimator(p)
		rounding := float64(e.step) * math.Sqrt(float64(dimensions)) // of a component at most half a step, times 3/2
		var spans, estimates [groupRows]float32
		spans[row] = 1
		e.estimate(group, spans[:], estimates[:], 0, make([]uint32, 1))
		if got := float64(estimates[row]) * float64(e.step); math.Abs(got-estimate) > rounding {
			t.Errorf("%d dimensions: estimate %v spans, want %v", dimensions, got, estimate)
		}
		var dot, lengths float64
		squares = 0
		for i, x := range query {
			dot += float64(x) * float64(vector[i])
			squares += float64(x) * float64(x)
			lengths += float64(vector[i]) * float64(vector[i])
		}
		if got, want := float64(halfDot(p, halves)*scale), dot/math.Sqrt(squares*lengths); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d dimensions: cosine %v, want %v", dimensions, got, want)
		}
	}
}

// with runs fn with each kind of instructions that the processor has.
func with(fn func(avx2 bool)) {
	defer func(has bool) { hasAVX2 = has }(hasAVX2)
	for _, avx2 := range slices.Compact([]bool{false, hasAVX2}) {
		hasAVX2 = avx2
		fn(avx2)
	}
}

// TestEstimates compares estimates with additions, component by component.
func TestEstimates(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for dimensions := 1; dimensions < 1100; dimensions += 1 + rng.IntN(40) {
		query, _ := direction(rng, dimensions, nil)
		query[rng.IntN(dimensions)] *= float32(1 + rng.IntN(30))
		p := prepared(query)
		e := newEstimator(p)
		groups := 1 + rng.IntN(5)
		codes, spans := make([]byte, groups*groupBytes(dimensions)), make([]float32, groups*groupRows)
		want, wantAbove := make([]float32, len(spans)), make([]uint32, groups)
		for i := range codes {
			codes[i] = byte(rng.Uint32())
		}
		product := func(row, second int) float32 {
			var sum int32
			for i, x := range p {
				inSteps := max(x, -x) / (e.step * halfScale)
				n := rounded(inSteps)
				if math.Abs(float64(float32(n)-inSteps)) > 1.01 && n != 7 {
					t.Fatalf("%d dimensions: %v steps are rounded to %d", dimensions, inSteps, n)
				}
				column := row/groupRows*2*codeColumns(dimensions) + i/8*2 + second
				if math.Signbit(float64(x)) == (codes[column*groupRows+row%groupRows]>>(i%8)&1 == 1) {
					n = -n
				}
				sum += n
			}
			return float32(sum) * spans[row]
		}
		for row := range spans {
			spans[row] = rng.Float32()
			want[row] = product(row, 0) + product(row, 1)/2
		}
		bound := want[rng.IntN(len(want))]
		for row, estimate := range want {
			if estimate >= bound {
				wantAbove[row/groupRows] |= 1 << (row % groupRows)
			}
		}
		with(func(by bool) {
			e := newEstimator(p)
			estimates, above := make([]float32, len(spans)), make([]uint32, groups)
			if e.estimate(codes, spans, estimates, bound, above); !slices.Equal(estimates, want) {
				t.Fatalf("%d dimensions, AVX2 %t: estimates %v, want %v", dimensions, by, estimates, want)
			}
			if !slices.Equal(above, wantAbove) {
				t.Fatalf("%d dimensions, AVX2 %t: rows from the bound on %b, want %b", dimensions, by, above, wantAbove)
			}
		})
	}
}

// TestDots: an inner product is the same to the last bit however it is added up.
func TestDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for lanes := 1; lanes < 100; lanes++ {
		query, _ := direction(rng, lanes*dotLanes, nil)
		_, stored := direction(rng, lanes*dotLanes, nil)
		halves, _, err := appendHalves(nil, stored, lanes*dotLanes)
		if err != nil {
			t.Fatal(err)
		}
		p := prepared(query)
		want := scalarDot(p, halves)
		with(func(by bool) {
			if got := halfDot(p, halves); got != want {
				t.Fatalf("%d lanes, AVX2 %t: %v, want %v", lanes, by, got, want)
			}
		})
	}
}

func TestEveryHalfIsMoved(t *testing.T) {
	for bits := range 1 << 16 {
		half := float16.Frombits(uint16(bits))
		if half.IsNaN() || half.IsInf(0) {
			continue
		}
		if got, want := moved(uint16(bits))*halfScale, half.Float32(); got != want {
			t.Fatalf("%#x is %v, want %v", bits, got, want)
		}
	}
}
