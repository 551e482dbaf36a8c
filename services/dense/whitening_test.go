package dense

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/x448/float16"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// alikeMatrix has vectors that share a direction, in some order of rows.
func alikeMatrix(order []int, dimensions int) *matrix {
	m := newModel(dimensions)
	for _, n := range order {
		random := rand.New(rand.NewPCG(7, uint64(n)))
		vector := make([]float32, dimensions)
		for i := range vector {
			vector[i] = float32(random.NormFloat64())
		}
		vector[3] += 20
		m.put(replica.Memory{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n))}, encoded(vector))
	}
	return m.matrix
}

func encoded(vector []float32) (of []byte) {
	for _, x := range vector {
		of = binary.LittleEndian.AppendUint16(of, float16.Fromfloat32(x).Bits())
	}
	return of
}

func TestWhitening(t *testing.T) {
	t.Parallel()
	const vectors, dimensions = 3000, 100
	inOrder := rand.New(rand.NewPCG(1, 1)).Perm(vectors)
	m := alikeMatrix(inOrder, dimensions)
	s := m.sample()
	if s.vectors <= mostSampled/2*9/10 || s.vectors > mostSampled {
		t.Errorf("the sample has %d vectors, want about %d", s.vectors, vectors/2)
	}
	w := s.whitening()
	if first := w.directions[:dimensions]; math.Abs(float64(first[3])) < 0.99 {
		t.Errorf("the first direction has %v in the shared dimension, want nearly 1 or -1", first[3])
	}
	for i := range w.factors {
		for j := range i + 1 {
			want := 0.
			if i == j {
				want = 1
			}
			if got := dot(w.directions[i*dimensions:(i+1)*dimensions], w.directions[j*dimensions:(j+1)*dimensions]); math.Abs(float64(got)-want) > 1e-3 {
				t.Fatalf("directions %d and %d have the product %v, want %v", i, j, got, want)
			}
		}
	}
	query := make([]float32, dimensions)
	query[3], query[5] = 0.8, 0.6
	of := w.of(query)
	if was, is := query[3]/query[5], of[3]/of[5]; is > was/2 {
		t.Errorf("the shared dimension has %v times the other, and had %v", is, was)
	}
	slices.Reverse(inOrder)
	if other := alikeMatrix(inOrder, dimensions).sample().whitening(); !slices.Equal(other.directions, w.directions) || !slices.Equal(other.factors, w.factors) {
		t.Error("the order of the rows changes the directions")
	}
}

// TestMoments compares moments with those of the vectors as they are kept.
func TestMoments(t *testing.T) {
	t.Parallel()
	const vectors, dimensions = 300, 20
	m := newModel(dimensions)
	random := rand.New(rand.NewPCG(8, 8))
	for n := range vectors {
		vector := make([]float32, dimensions)
		for i := range vector {
			vector[i] = float32(random.NormFloat64()) / float32(1+i)
		}
		vector[n%2] *= 30 // every other vector has small steps in one dimension, or in the next
		m.put(replica.Memory{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n))}, encoded(vector))
	}
	var want [dimensions][dimensions]float64
	for _, vector := range m.decode {
		for i, x := range vector {
			for j, y := range vector {
				want[i][j] += x * y
			}
		}
	}
	const even = float64(evenVectors) / (vectors + evenVectors)
	rows, units := m.sample().moments()
	for i := range dimensions {
		for j := range dimensions {
			mean := (1 - even) * want[i][j] * dimensions / vectors // vectors have the length 1
			if i == j {
				mean += even
			}
			got := float64(unpack(rows[i*packedBytes(dimensions):], j)) * float64(units[i])
			if math.Abs(got-mean) > 2e-3*(1+want[i][i]*dimensions/vectors) {
				t.Errorf("the moment of dimensions %d and %d is %v, want %v", i, j, got, mean)
			}
		}
	}
}

// A search waits for the first directions, a given vector is compared as it is, and new ones follow many changes.
func TestWhiteningFollows(t *testing.T) {
	t.Parallel()
	const dimensions = 64
	m := alikeMatrix(rand.Perm(leastWhitened), dimensions)
	query := make([]float32, dimensions)
	query[3], query[5] = 0.8, 0.6
	if m.lacking(t.Context(), leg.Query{Vector: query}) != nil {
		t.Error("a query with a vector waits for directions")
	}
	made := m.lacking(t.Context(), leg.Query{Text: "x"})
	if made == nil {
		t.Fatal("the first query does not wait for the directions")
	}
	<-made
	if got := m.whiten(leg.Query{Vector: query}, query); !slices.Equal(got, query) {
		t.Errorf("a given vector became %v", got)
	}
	if got := m.whiten(leg.Query{Text: "x"}, query); slices.Equal(got, query) {
		t.Error("the vector of a text stayed as it is")
	}
	first := m.whitening.Load()
	if m.lacking(t.Context(), leg.Query{Text: "x"}) != nil {
		t.Error("the directions are lacking without a change")
	}
	if m.whitening.Load() != first {
		t.Error("the directions were computed anew without a change")
	}
	vector := make([]float32, dimensions)
	vector[9] = 1
	halves, err := appendHalves(nil, encoded(vector), dimensions)
	if err != nil {
		t.Fatal(err)
	}
	for row := range uint32(leastWhitened/renewedAfter + 1) {
		m.set(row, halves)
	}
	if m.lacking(t.Context(), leg.Query{Text: "x"}) != nil {
		t.Error("a query waits for new directions")
	}
	<-m.renew(t.Context())
	if m.whitening.Load() == first {
		t.Error("the directions are still those from before an eighth of the vectors changed")
	}
}

func BenchmarkWhitening(b *testing.B) {
	m := alikeMatrix(rand.New(rand.NewPCG(1, 1)).Perm(mostSampled), 384)
	for b.Loop() {
		m.sample().whitening()
	}
}
