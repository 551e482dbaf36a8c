package sqlite_test

import (
	"database/sql"
	"os"
	"testing"
)

// TestTransactionsAreFlushed: what is acknowledged outlives the power.
func TestTransactionsAreFlushed(t *testing.T) {
	t.Parallel()
	var level int
	if err := open(t).Write.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&level); err != nil || level != 2 {
		t.Errorf("synchronous is %d, error %v; want 2, FULL", level, err)
	}
}

// TestLogShrinks: what one large transaction needs of SQLite's log is given back with the next ones.
func TestLogShrinks(t *testing.T) {
	t.Parallel()
	db := open(t)
	for _, statement := range []string{
		`CREATE TABLE blobs (b BLOB)`, `WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 24) INSERT INTO blobs SELECT zeroblob(1 << 20) FROM n`, `DELETE FROM blobs`, `INSERT INTO blobs VALUES ('x')`,
	} {
		if err := db.Update(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var name, file string
	var number int
	if err := db.Read.QueryRowContext(t.Context(), `PRAGMA database_list`).Scan(&number, &name, &file); err != nil {
		t.Fatal(err)
	}
	if log, err := os.Stat(file + "-wal"); err != nil || log.Size() > 16<<20 {
		t.Errorf("got a log of %d bytes, %v; want 16 MiB at most", log.Size(), err)
	}
}
