package dense

import (
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
		of := code(vector)
		if kept := appendCode(nil, stored); !slices.Equal(kept, of) {
			t.Fatalf("%d dimensions: code %x of what is kept, %x of the vector", dimensions, kept, of)
		}
		differ, sum := 0, 0.0
		for i, x := range query {
			switch {
			case math.Signbit(float64(vector[i])):
				sum -= float64(x)
			default:
				sum += float64(x)
			}
			if math.Signbit(float64(x)) != math.Signbit(float64(vector[i])) {
				differ++
			}
		}
		if got := hamming(code(query), of); got != differ {
			t.Errorf("%d dimensions: %d bits differ, want %d", dimensions, got, differ)
		}
		p := prepared(query)
		if got := newEstimator(p).estimate(of); math.Abs(float64(got)-sum) > 1e-2 {
			t.Errorf("%d dimensions: estimate %v, want %v", dimensions, got, sum)
		}
		halves, scale, err := appendHalves(nil, stored, dimensions)
		if err != nil {
			t.Fatal(err)
		}
		var dot, squares, lengths float64
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
		m.ids, m.codes, m.halves, m.scales = append(m.ids, int64(id)), appendCode(m.codes, stored), halves, append(m.scales, scale)
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
			likely, considered, err := m.likely(t.Context(), &work, p, rows, likelyPerHit*depth, time.Time{})
			if err != nil || considered != len(every) || len(likely) != likelyPerHit*depth {
				t.Fatalf("%s: %d likely of %d, %v", name, len(likely), considered, err)
			}
			for _, best := range every[:depth] {
				if slices.ContainsFunc(likely, func(c candidate) bool { return c.row == best.row }) {
					found++
				}
			}
		}
		if recall := float64(found) / float64(depth*queries); recall < 0.97 {
			t.Errorf("%s: %.3f of the nearest are among the likely, want 0.97", name, recall)
		}
	}
}
