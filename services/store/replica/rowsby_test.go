package replica

import (
	"math/rand/v2"
	"testing"
)

// Keys come and go under hashes that collide and wrap around. A map says what should be there.
func TestRowsBy(t *testing.T) {
	for _, spread := range []uint64{1, 4, 1 << 40} {
		random := rand.New(rand.NewPCG(spread, 1))
		keys, want := make([]int, 60), map[int]uint32{} // the key 0 is of no row
		rows := NewRowsBy(func(row uint32) int { return keys[row] }, func(key int) uint64 { return -(uint64(key) % spread) })
		for range 20_000 {
			row, key := random.Uint32N(60), 1+random.IntN(100)
			if _, taken := want[key]; keys[row] != 0 {
				rows.Remove(keys[row])
				delete(want, keys[row])
				keys[row] = 0
			} else if taken {
				rows.Remove(key + 100)
			} else {
				keys[row], want[key] = key, row
				rows.Add(row)
			}
			if rows.Len() != len(want) {
				t.Fatalf("got %d rows, want %d", rows.Len(), len(want))
			}
			for key := range 102 {
				at, there := want[key]
				if got, known := rows.Find(key); known != there || known && got != at {
					t.Fatalf("got row %d (%v) of the key %d, want %d (%v)", got, known, key, at, there)
				}
			}
		}
	}
}
