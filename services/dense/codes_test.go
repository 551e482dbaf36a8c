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
		var squares, differ float64
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
			if math.Signbit(float64(x)) != math.Signbit(float64(query[i])) {
				differ++
			}
		}
		if want := squares / coded; math.Abs(float64(span)/want-1) > 1e-4 {
			t.Errorf("%d dimensions: span %v, want %v", dimensions, span, want)
		}
		if got := hamming(signsOf(query), signs); got != int(differ) {
			t.Errorf("%d dimensions: %d bits differ, want %v", dimensions, got, differ)
		}
		p := prepared(query)
		e := newEstimator(p)
		rounding := float64(e.step) * math.Sqrt(float64(dimensions)) // of a component at most half a step, times 3/2
		if got := (float64(e.sum(signs)) + float64(e.sum(sizes))/2) * float64(e.step); math.Abs(got-estimate) > rounding {
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
	m := newMatrix(vectors, dimensions, true)
	centres := make([][]float32, 200)
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
