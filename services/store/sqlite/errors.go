package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/triskele/triskele/services/store/diskerr"
)

var diskErrors = map[int]error{
	sqlite3.SQLITE_FULL: diskerr.ErrFull, sqlite3.SQLITE_READONLY: diskerr.ErrReadOnly, sqlite3.SQLITE_IOERR: diskerr.ErrDisk,
}

// Wrap marks an error of the disk as package diskerr's.
func Wrap(err error) error {
	if of := diskErrors[code(err)]; of != nil && diskerr.Of(err) == nil {
		return fmt.Errorf("%w: %w", of, err)
	}
	return err
}

// IsBusy reports whether another writer held the file for longer than busy_timeout.
func IsBusy(err error) bool { return code(err) == sqlite3.SQLITE_BUSY }

// code returns an error's primary result code, or 0.
func code(err error) int {
	of, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return sqlite3.SQLITE_OK
	}
	return of.Code() & 0xff // the rest is detail
}
