package dense

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"
)

// FuzzStoredVector decodes what a database may have in place of a vector, as SQLite keeps it and as PostgreSQL sends it: an error, or
// a vector that can be searched.
func FuzzStoredVector(f *testing.F) {
	f.Add(uint8(2), false, []byte{0, 0x3c, 0, 0xbc})
	f.Add(uint8(2), true, []byte{0, 2, 0, 0, 0x3c, 0, 0xbc, 0})
	f.Add(uint8(1), false, []byte{1, 0})
	f.Add(uint8(1), false, []byte{0, 0x7c})
	f.Fuzz(func(t *testing.T, dims uint8, sent bool, data []byte) {
		dimensions := int(dims) + 1
		decode := appendHalves
		if sent {
			decode = appendSent
		}
		before := []uint16{1, 2, 3}
		halves, scale, err := decode(before, slices.Clone(data), dimensions)
		if err != nil {
			return
		}
		if len(halves) != len(before)+dimensions || !(scale > 0) || math.IsInf(float64(scale), 0) {
			t.Fatalf("got %d components with the scale %v, want %d and a finite one", len(halves)-len(before), scale, dimensions)
		}
		m := newMatrix(1, dimensions, true)
		m.halves, m.scales = append(m.halves, halves[len(before):]...), append(m.scales, scale)
		m.add(1, m.halves, max(1, dimensions/2))
		query := make([]float32, dimensions)
		for i := range query {
			query[i] = float32(i%3 - 1)
		}
		query[0] = 1
		query = prepared(query)
		candidates, considered, err := m.likely(context.Background(), new(scratch), query, nil, 1, time.Time{})
		if err != nil || len(candidates) != 1 || considered != 1 {
			t.Fatalf("got %v of %d, %v, want the vector", candidates, considered, err)
		}
		scored, err := m.score(context.Background(), candidates, query, time.Time{})
		if err != nil || len(scored) != 1 || math.Abs(fromUnits(scored[0].score)) > 1.01 {
			t.Errorf("got %v, %v, want a cosine", scored, err)
		}
	})
}
