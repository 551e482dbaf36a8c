package replica

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Tx is a snapshot of the database, of either engine.
type Tx struct {
	postgres pgx.Tx
	sqlite   *sql.Tx
	whole    *sqlite.Snapshot // in place of sqlite while all memories are read
	check    func() error     // called now and then while many rows are read; may be nil
}

// IsSQLite reports whether the engine is SQLite.
func (tx Tx) IsSQLite() bool { return tx.postgres == nil }

// Dialect returns the part of a statement that is for the engine.
func (tx Tx) Dialect(forPostgres, forSQLite string) string {
	if tx.IsSQLite() {
		return forSQLite
	}
	return forPostgres
}

// Raw is a target for bytes that are valid until the next row. It is nil for NULL.
type Raw []byte

// Scan implements sql.Scanner.
func (r *Raw) Scan(from any) error {
	switch from := from.(type) {
	case nil:
		*r = nil
	case []byte:
		*r = from
	case string:
		*r = Raw(from)
	default:
		return fmt.Errorf("a column of type %T is not bytes", from)
	}
	return nil
}

// ScanBytes implements pgtype.BytesScanner.
func (r *Raw) ScanBytes(from []byte) error {
	*r = from
	return nil
}

// rowError is an error of a row that the database has sent.
type rowError struct{ error }

func (e *rowError) Unwrap() error { return e.error }

// Each runs a query in PostgreSQL's dialect, as package sqldb does, scans each row into targets and calls fn.
func (tx Tx) Each(ctx context.Context, query string, args []any, targets []any, read func() error) error {
	n := 0
	fn := func() error {
		if n++; tx.check != nil && n%checkEvery == 0 {
			if err := tx.check(); err != nil {
				return err
			}
		}
		if err := read(); err != nil {
			return &rowError{err}
		}
		return nil
	}
	if tx.postgres != nil {
		rows, err := tx.postgres.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, slice.Map(targets, sqldb.PostgresTarget), fn)
		return err
	}
	if tx.whole != nil {
		return tx.whole.Each(ctx, query, args, slice.Map(targets, func(target any) any {
			if raw, ok := target.(*Raw); ok {
				return (*[]byte)(raw)
			}
			return target
		}), fn)
	}
	_, err := sqldb.Query(ctx, sqldb.DB{SQLite: tx.sqlite}.In(postgres.Entered), query, args, func(scan sqldb.Scan) (struct{}, error) {
		if err := scan(targets...); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, fn()
	})
	return err
}
