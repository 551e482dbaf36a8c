package sqlite_test

import (
	"errors"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/sqlite"
)

// A disk without room for the log's index is full, and not broken.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]error{
		sqlite3.SQLITE_FULL: diskerr.ErrFull, sqlite3.SQLITE_IOERR_SHMSIZE: diskerr.ErrFull, sqlite3.SQLITE_IOERR_WRITE: diskerr.ErrDisk,
		sqlite3.SQLITE_READONLY_DBMOVED: diskerr.ErrReadOnly, sqlite3.SQLITE_BUSY: nil, sqlite3.SQLITE_OK: nil,
	} {
		if got := sqlite.DiskError(code); !errors.Is(got, want) {
			t.Errorf("code %d: got %v, want %v", code, got, want)
		}
	}
}
