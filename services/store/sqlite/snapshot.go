package sqlite

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/uuid"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Snapshot reads a great many rows of the file as it was at the first query. Package database/sql would copy and convert each column
// for longer than it takes to read it. A Snapshot has a connection of its own, so the memory of its pages goes with it.
type Snapshot struct {
	tls *libc.TLS
	db  uintptr
}

// lookEvery is the number of rows read between two looks at the context.
const lookEvery = 1 << 8

// Snapshot calls fn with a snapshot, which ends with it.
func (db *DB) Snapshot(ctx context.Context, fn func(*Snapshot) error) (err error) {
	s := &Snapshot{tls: libc.NewTLS()}
	defer s.tls.Close()
	path, err := libc.CString(db.path)
	if err != nil {
		return err
	}
	defer libc.Xfree(s.tls, path)
	place := libc.Xcalloc(s.tls, 1, pointerSize)
	defer libc.Xfree(s.tls, place)
	rc := sqlite3.Xsqlite3_open_v2(s.tls, path, place, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	s.db = libc.AtomicLoadNUintptr(place, 0)
	defer sqlite3.Xsqlite3_close_v2(s.tls, s.db)
	if rc != sqlite3.SQLITE_OK {
		return s.failed(rc)
	}
	for _, statement := range []string{"PRAGMA busy_timeout = 5000", "PRAGMA query_only = 1", "PRAGMA mmap_size = 2147418112", "BEGIN"} {
		if err := s.Each(ctx, statement, nil, nil, func() error { return nil }); err != nil {
			return err
		}
	}
	return fn(s)
}

// pointerSize is enough for a pointer of any machine.
const pointerSize = 8

func (s *Snapshot) failed(rc int32) error {
	return fmt.Errorf("sqlite: %s (%d)", libc.GoString(sqlite3.Xsqlite3_errmsg(s.tls, s.db)), rc)
}

// Each runs a query and calls fn for each row, whose columns are then in targets: *[]byte, valid until fn returns and nil for NULL,
// *string, *uuid.UUID, *int64, *int32, *float64 or *bool. Arguments are strings and int64.
func (s *Snapshot) Each(ctx context.Context, query string, args, targets []any, fn func() error) error {
	statement, free, err := s.prepare(query, args)
	defer free()
	defer sqlite3.Xsqlite3_finalize(s.tls, statement) // nothing, if it did not compile
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if n%lookEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		switch rc := sqlite3.Xsqlite3_step(s.tls, statement); rc {
		case sqlite3.SQLITE_ROW:
		case sqlite3.SQLITE_DONE:
			return nil
		default:
			return s.failed(rc)
		}
		for i, target := range targets {
			if err := s.column(statement, int32(i), target); err != nil {
				return err
			}
		}
		if err := fn(); err != nil {
			return err
		}
	}
}

// places are placeholders. SQLite would number those of PostgreSQL's dialect in the order of the text.
var places = regexp.MustCompile(`\$(\d+)`)

// prepare compiles a query. free frees the memory of its arguments.
func (s *Snapshot) prepare(query string, args []any) (statement uintptr, free func(), err error) {
	var allocated []uintptr
	free = func() {
		for _, p := range allocated {
			libc.Xfree(s.tls, p)
		}
	}
	text := func(of string) (p uintptr, err error) {
		if p, err = libc.CString(of); err == nil {
			allocated = append(allocated, p)
		}
		return p, err
	}
	place := libc.Xcalloc(s.tls, 1, pointerSize)
	allocated = append(allocated, place)
	compiled, err := text(places.ReplaceAllString(translate(query), "?$1"))
	if err != nil {
		return 0, free, err
	}
	rc := sqlite3.Xsqlite3_prepare_v2(s.tls, s.db, compiled, -1, place, 0)
	statement = libc.AtomicLoadNUintptr(place, 0)
	for i, arg := range args {
		if rc != sqlite3.SQLITE_OK {
			break
		}
		switch arg := arg.(type) {
		case int64:
			rc = sqlite3.Xsqlite3_bind_int64(s.tls, statement, int32(i+1), arg)
		case string:
			p, err := text(arg)
			if err != nil {
				return statement, free, err
			}
			rc = sqlite3.Xsqlite3_bind_text(s.tls, statement, int32(i+1), p, int32(len(arg)), 0)
		default:
			return statement, free, fmt.Errorf("an argument is of type %T", arg)
		}
	}
	if rc != sqlite3.SQLITE_OK {
		return statement, free, s.failed(rc)
	}
	return statement, free, nil
}

func (s *Snapshot) column(statement uintptr, i int32, target any) error {
	switch target := target.(type) {
	case *int64:
		*target = sqlite3.Xsqlite3_column_int64(s.tls, statement, i)
	case *int32:
		*target = int32(sqlite3.Xsqlite3_column_int64(s.tls, statement, i))
	case *float64:
		*target = sqlite3.Xsqlite3_column_double(s.tls, statement, i)
	case *bool:
		*target = sqlite3.Xsqlite3_column_int64(s.tls, statement, i) != 0
	case *string:
		if bytes := s.bytes(statement, i); string(bytes) != *target {
			*target = string(bytes)
		}
	case *uuid.UUID:
		bytes := s.bytes(statement, i)
		if len(bytes) != len(target) {
			return errors.New("a column is not an id")
		}
		*target = uuid.UUID(bytes)
	case *[]byte:
		*target = s.bytes(statement, i)
	default:
		return fmt.Errorf("a target is of type %T", target)
	}
	return nil
}

// bytes returns the bytes of a column, nil for NULL.
func (s *Snapshot) bytes(statement uintptr, i int32) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.tls, statement, i)
	if n := sqlite3.Xsqlite3_column_bytes(s.tls, statement, i); p != 0 {
		return libc.GoBytes(p, int(n))
	} else if sqlite3.Xsqlite3_column_type(s.tls, statement, i) != sqlite3.SQLITE_NULL {
		return []byte{}
	}
	return nil
}
