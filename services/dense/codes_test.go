package dense

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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
		signs, sizes, span := appendCode(nil, nil, halves, queried)
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
		var bySigns, bySizes [1]float32
		e.estimate(signs, []float32{1}, bySigns[:])
		e.estimate(sizes, []float32{1}, bySizes[:])
		if got := (float64(bySigns[0]) + float64(bySizes[0])/2) * float64(e.step); math.Abs(got-estimate) > rounding {
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
func with(fn func(instructions)) {
	defer func(best instructions) { fastest = best }(fastest)
	for fastest = scalar; fastest <= available(); fastest++ {
		fn(fastest)
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
		rows := 1 + rng.IntN(5)
		codes, spans, want := make([]uint64, rows*codeWords(dimensions)), make([]float32, rows), make([]float32, rows)
		for i := range codes {
			codes[i] = rng.Uint64()
		}
		for row := range rows {
			spans[row] = rng.Float32()
			var sum int32
			for i, x := range p {
				inSteps := max(x, -x) / (e.step * halfScale)
				n := rounded(inSteps)
				if math.Abs(float64(float32(n)-inSteps)) > 1.01 && n != 7 {
					t.Fatalf("%d dimensions: %v steps are rounded to %d", dimensions, inSteps, n)
				}
				if math.Signbit(float64(x)) == (codes[row*e.words+i/64]>>(i%64)&1 == 1) {
					n = -n
				}
				sum += n
			}
			want[row] = float32(sum) * spans[row]
		}
		with(func(by instructions) {
			products := make([]float32, rows)
			if e.estimate(codes, spans, products); !slices.Equal(products, want) {
				t.Fatalf("%d dimensions, instructions %d: %v, want %v", dimensions, by, products, want)
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
		with(func(by instructions) {
			if got := halfDot(p, halves); got != want {
				t.Fatalf("%d lanes, instructions %d: %v, want %v", lanes, by, got, want)
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

func TestKeepBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		candidates := make([]candidate, 1+rng.IntN(40))
		for i := range candidates {
			candidates[i] = candidate{rng.Int32N(20), int32(i)}
		}
		n := 1 + rng.IntN(len(candidates)+2)
		kept := keepBest(slices.Clone(candidates), n)
		byScore := func(a, b candidate) int { return cmp.Compare(b.score, a.score) }
		slices.SortFunc(kept, byScore)
		slices.SortFunc(candidates, byScore)
		rows := map[int32]bool{}
		for i, c := range kept {
			if rows[c.row] || c.score != candidates[i].score {
				t.Fatalf("the best %d of %v are not %v", n, candidates, kept)
			}
			rows[c.row] = true
		}
		if len(kept) != min(n, len(candidates)) {
			t.Fatalf("%d kept of %d, want %d", len(kept), len(candidates), n)
		}
	}
}

// TestLikelyAreNearest: among clusters, the likely ones hold nearly all of the nearest; all rows hold the rest.
func TestLikelyAreNearest(t *testing.T) {
	const vectors, dimensions, depth = 20_000, 256, 50
	rng := rand.New(rand.NewPCG(2, 2))
	m, centres := clusters(t, rng, vectors, dimensions)
	var work scratch
	even := make([]int32, 0, vectors/2)
	for row := int32(0); row < vectors; row += 2 {
		even = append(even, row)
	}
	for name, rows := range map[string][]int32{"all": nil, "half": even} {
		found, queries := 0, 20
		for range queries {
			query, _ := direction(rng, dimensions, centres[rng.IntN(len(centres))])
			p := prepared(query)
			every := make([]candidate, 0, vectors)
			for row := range int32(vectors) {
				if rows == nil || row%2 == 0 {
					every = append(every, candidate{row: row})
				}
			}
			every, err := m.score(t.Context(), every, p, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(every, func(a, b candidate) int { return int(b.score - a.score) })
			likely, considered, err := m.likely(t.Context(), &work, p, rows, likelyFor(depth, len(every)), time.Time{})
			if err != nil || considered != len(every) || len(likely) != likelyFor(depth, len(every)) {
				t.Fatalf("%s: %d likely of %d, %v", name, len(likely), considered, err)
			}
			for _, best := range every[:depth] {
				if slices.ContainsFunc(likely, func(c candidate) bool { return c.row == best.row }) {
					found++
				}
			}
		}
		if recall := float64(found) / float64(depth*queries); recall < 0.985 {
			t.Errorf("%s: %.3f of the nearest are among the likely, want 0.985", name, recall)
		}
	}
}

// TestSampleUnlikeTheRest: there are as many likely ones as asked for even if none but the rows of the sample are near.
func TestSampleUnlikeTheRest(t *testing.T) {
	const vectors, dimensions = 20_000, 64
	rng := rand.New(rand.NewPCG(7, 7))
	query, _ := direction(rng, dimensions, nil)
	m := newMatrix(vectors, dimensions, true)
	for id := range vectors {
		around := query
		if id%sampleOf != 0 {
			around = nil
		}
		_, stored := direction(rng, dimensions, around)
		halves, _, err := appendHalves(m.halves, stored, dimensions)
		if err != nil {
			t.Fatal(err)
		}
		m.halves = halves
		m.add(int64(id), halves[id*dimensions:], dimensions)
	}
	likely, _, err := m.likely(t.Context(), new(scratch), prepared(query), nil, minLikely, time.Time{})
	if err != nil || len(likely) != minLikely {
		t.Errorf("%d likely, %v, want %d", len(likely), err, minLikely)
	}
}

// clusters are vectors around 200 centres.
func clusters(t testing.TB, rng *rand.Rand, vectors, dimensions int) (m matrix, centres [][]float32) {
	m = newMatrix(vectors, dimensions, true)
	centres = make([][]float32, 200)
	for i := range centres {
		centres[i], _ = direction(rng, dimensions, nil)
	}
	for id := range vectors {
		_, stored := direction(rng, dimensions, centres[rng.IntN(len(centres))])
		halves, scale, err := appendHalves(m.halves, stored, dimensions)
		if err != nil {
			t.Fatal(err)
		}
		m.halves, m.scales = halves, append(m.scales, scale)
		m.add(int64(id), halves[id*dimensions:], dimensions)
	}
	return m, centres
}

// BenchmarkScan finds and scores the likely ones of 20,000 vectors, with each kind of instructions that the processor has.
func BenchmarkScan(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 6))
	m, centres := clusters(b, rng, 20_000, 384)
	var queries [][]float32
	for range 100 {
		query, _ := direction(rng, 384, centres[rng.IntN(len(centres))])
		queries = append(queries, prepared(query))
	}
	var work scratch
	with(func(by instructions) {
		b.Run([]string{"scalar", "AVX2", "AVX-512"}[by], func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				likely, _, err := m.likely(b.Context(), &work, queries[i%len(queries)], nil, 300, time.Time{})
				if err == nil {
					_, err = m.score(b.Context(), likely, queries[i%len(queries)], time.Time{})
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
