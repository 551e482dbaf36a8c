package sqlite_test

import "testing"

// TestTransactionsAreFlushed: what is acknowledged outlives the power.
func TestTransactionsAreFlushed(t *testing.T) {
	t.Parallel()
	var level int
	if err := open(t).Write.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&level); err != nil || level != 2 {
		t.Errorf("synchronous is %d, error %v; want 2, FULL", level, err)
	}
}
