package replica_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/replica"
)

// TestInOrder: rows are found in any order of asking, and without rows that have been dropped.
func TestInOrder(t *testing.T) {
	t.Parallel()
	rows, random := replica.NewRows(), rand.New(rand.NewPCG(1, 2))
	ids := make([]uuid.UUID, 100)
	for i := range ids {
		ids[i] = uuid.New()
		if i%7 > 0 {
			rows.Put(replica.Memory{ID: ids[i]})
		}
	}
	for i := 1; i < len(ids); i += 5 {
		if row, known := rows.Row(ids[i]); known {
			rows.Drop(row)
		}
	}
	inOrder := rows.InOrder()
	for n := range 1000 {
		id := ids[n%len(ids)]
		if n%3 == 0 {
			id = ids[random.IntN(len(ids))]
		}
		got, found := inOrder(id)
		if want, known := rows.Row(id); found != known || known && got != want {
			t.Fatalf("got row %d, known %t, want %d and %t", got, found, want, known)
		}
	}
}
