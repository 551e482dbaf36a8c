package sqldb_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestWriteAgain: a transaction that others were in the way of is repeated, but not for ever.
func TestWriteAgain(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	for name, x := range map[string]struct {
		conflicts, attempts int
		failed              bool
	}{
		"no conflict":    {0, 1, false},
		"two conflicts":  {2, 3, false},
		"many conflicts": {100, 5, true},
	} {
		attempts := 0
		err := f.Store().Write(t.Context(), "", func(sqldb.Tx) error {
			if attempts++; attempts <= x.conflicts {
				return &pgconn.PgError{Code: "40P01"}
			}
			return nil
		})
		if attempts != x.attempts || (err != nil) != x.failed {
			t.Errorf("%s: got %d attempts and the error %v, want %d and failed %t", name, attempts, err, x.attempts, x.failed)
		}
	}
}
