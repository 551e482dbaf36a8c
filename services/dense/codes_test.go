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
		halves, err := appendHalves(nil, stored, dimensions)
		if err != nil {
			t.Fatal(err)
		}
		group, row := make([]byte, groupBytes(dimensions)), rng.IntN(groupRows)
		for i := range group {
			group[i] = 0xff // of a vector before
		}
		steps, step, sum := inSteps(nil, halves)
		span := code(group, row, steps, sum, dimensions)
		var squares float64
		for _, n := range steps {
			squares += float64(n) * float64(n)
		}
		large := math.Sqrt(squares / float64(dimensions))
		var coded, estimate float64
		for i := range vector {
			level := 0.5
			if math.Abs(float64(steps[i])) >= large {
				level *= 3
			}
			if steps[i] < 0 {
				level = -level
			}
			coded += level * float64(steps[i])
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
		kept := make([]byte, packedBytes(dimensions))
		pack(kept, steps)
		// Each component is off by half a step at most.
		if got, want := float64(product(p, kept)*step), dot/math.Sqrt(squares*lengths); math.Abs(got-want) > float64(step)*math.Sqrt(float64(dimensions)) {
			t.Errorf("%d dimensions: cosine %v, want %v", dimensions, got, want)
		}
	}
}

// with runs fn with each kind of instructions that the processor has.
func with(fn func(avx2 bool)) {
	has := hasAVX2.Load()
	defer hasAVX2.Store(has)
	for _, avx2 := range slices.Compact([]bool{false, has}) {
		hasAVX2.Store(avx2)
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
				inSteps := max(x, -x) / e.step
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

// TestPacked: each component is kept to half a step, the largest exactly.
func TestPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for dimensions := 1; dimensions < 100; dimensions++ {
		vector, stored := direction(rng, dimensions, nil)
		halves, err := appendHalves(nil, stored, dimensions)
		if err != nil {
			t.Fatal(err)
		}
		kept := slices.Repeat([]byte{0xff}, packedBytes(dimensions)) // of a vector before
		all, step, squares := inSteps(nil, halves)
		pack(kept, all)
		with(func(by bool) {
			if some, itsStep, itsSquares := inSteps([]int16{7}, halves); !slices.Equal(some, all) || itsStep != step || itsSquares != squares {
				t.Fatalf("%d dimensions, AVX2 %t: steps %v of %v, squared %v, want %v of %v, %v", dimensions, by, some, itsStep, itsSquares, all, step, squares)
			}
		})
		var most int16
		for i, x := range vector {
			steps := unpack(kept, i)
			most = max(most, steps, -steps)
			if got := float32(steps) * step; math.Abs(float64(got-x)) > float64(step)*0.5001 {
				t.Fatalf("%d dimensions: component %d is %v, want %v to half a step of %v", dimensions, i, got, x, step)
			}
		}
		if most != mostSteps {
			t.Errorf("%d dimensions: the largest component has %d steps, want %d", dimensions, most, mostSteps)
		}
		for i := dimensions; i < len(kept)/packBytes*packed; i++ {
			if steps := unpack(kept, i); steps != 0 {
				t.Errorf("%d dimensions: component %d has %d steps, want none", dimensions, i, steps)
			}
		}
	}
	if steps, step, squares := inSteps([]int16{1, 2, 3}, make([]uint16, 3)); step != 1 || squares != 0 || slices.Max(steps) != 0 {
		t.Errorf("zeros are %v in steps of %v, want zeros in steps of 1", steps, step)
	}
}

// TestProducts compares inner products with those component by component. They are the same to the last bit however they are added up.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for packs := 1; packs < 100; packs++ {
		query, _ := direction(rng, packs*packed, nil)
		var vectors [4][]byte
		for i := range vectors {
			_, stored := direction(rng, packs*packed, nil)
			halves, err := appendHalves(nil, stored, packs*packed)
			if err != nil {
				t.Fatal(err)
			}
			vectors[i] = make([]byte, packedBytes(len(halves)))
			steps, _, _ := inSteps(nil, halves)
			pack(vectors[i], steps)
		}
		p := prepared(query)
		want := [4]float32{}
		for i, vector := range vectors {
			want[i] = scalarProduct(p, vector)
			var sum float64
			for c, x := range p {
				sum += float64(x) * float64(unpack(vector, c))
			}
			if math.Abs(float64(want[i])-sum) > 0.05 {
				t.Errorf("%d packs: product %v, want %v", packs, want[i], sum)
			}
		}
		with(func(by bool) {
			if got := products(p, &vectors, &vectors); got != want {
				t.Fatalf("%d packs, AVX2 %t: %v, want %v", packs, by, got, want)
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
