package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestOpenByManyAtOnce opens a file that is not there yet, as processes do that start at once.
func TestOpenByManyAtOnce(t *testing.T) {
	t.Parallel()
	const rounds, processes = 50, 4
	for range rounds {
		path := filepath.Join(t.TempDir(), "new.db")
		var opening sync.WaitGroup
		for range processes {
			opening.Go(func() {
				db, err := sqlite.Open(path, storetest.Telemetry(t))
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		opening.Wait()
	}
}

// TestWritersOfOtherProcessesAreOutwaited: a write waits for those of other processes for longer than SQLite does by itself. Else a command
// beside a program that imports would fail.
func TestWritersOfOtherProcessesAreOutwaited(t *testing.T) {
	t.Parallel()
	var dbs [2]*sqlite.DB
	path := filepath.Join(t.TempDir(), "shared.db")
	for i := range dbs {
		db, err := sqlite.Open(path, storetest.Telemetry(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		dbs[i] = db
	}
	if _, err := dbs[0].Write.ExecContext(t.Context(), `PRAGMA busy_timeout = 1000`); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	if err := dbs[1].Update(t.Context(), func(*sql.Tx) error {
		go func() { written <- dbs[0].Update(t.Context(), func(*sql.Tx) error { return nil }) }()
		select {
		case err := <-written:
			return fmt.Errorf("it did not wait: %w", err)
		case <-time.After(1500 * time.Millisecond):
			return nil
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("after the other write: got %v, want no error", err)
	}
}
