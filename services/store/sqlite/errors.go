package sqlite

import (
	"cmp"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/triskele/triskele/services/store/diskerr"
)

// diskErrors are conditions by code, with detail or without.
var diskErrors = map[int]error{
	sqlite3.SQLITE_FULL: diskerr.ErrFull, sqlite3.SQLITE_READONLY: diskerr.ErrReadOnly, sqlite3.SQLITE_IOERR: diskerr.ErrDisk,
	sqlite3.SQLITE_IOERR_SHMSIZE: diskerr.ErrFull, // the log's index could not grow
}

// Wrap marks an error of the disk as package diskerr's.
func Wrap(err error) error {
	if of := diskError(code(err)); of != nil && diskerr.Of(err) == nil {
		return fmt.Errorf("%w: %w", of, err)
	}
	return err
}

func diskError(code int) error { return cmp.Or(diskErrors[code], diskErrors[code&0xff]) }

// IsBusy reports whether another writer held the file for longer than busy_timeout.
func IsBusy(err error) bool { return code(err)&0xff == sqlite3.SQLITE_BUSY }

// code returns an error's result code, or 0. Its last byte is the primary code, and the rest is detail.
func code(err error) int {
	of, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return sqlite3.SQLITE_OK
	}
	return of.Code()
}
