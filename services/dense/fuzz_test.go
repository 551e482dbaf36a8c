package dense

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
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
		halves, err := decode(before, slices.Clone(data), dimensions)
		if err != nil {
			return
		}
		if len(halves) != len(before)+dimensions {
			t.Fatalf("got %d components, want %d", len(halves)-len(before), dimensions)
		}
		rows := replica.NewRows()
		m := &matrix{rows: rows, of: stored{dimensions: dimensions, queried: max(1, dimensions/2)}}
		m.set(rows.Put(replica.Memory{ID: uuid.New()}), halves[len(before):])
		if scale := m.blocks[0].scales[0]; !(scale > 0) || math.IsInf(float64(scale), 0) {
			t.Fatalf("the scale is %v, want a finite one above 0", scale)
		}
		query := make([]float32, dimensions)
		for i := range query {
			query[i] = float32(i%3 - 1)
		}
		query[0] = 1
		c := comparison{m, new(scratch), rows.Select(record.Filter{}, time.Time{}), prepared(query[:m.of.queried]), time.Time{}}
		if reason, err := c.likely(context.Background(), 1, 1); err != nil || reason != "" || len(c.candidates) != 1 {
			t.Fatalf("got %v, %q, %v, want the vector", c.candidates, reason, err)
		}
		hits, _, err := c.nearest(context.Background(), leg.Query{Depth: 1})
		if err != nil || len(hits) != 1 || math.Abs(hits[0].Score) > 1.01 {
			t.Errorf("got %v, %v, want a cosine", hits, err)
		}
	})
}
