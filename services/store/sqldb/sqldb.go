// Package sqldb runs one statement on either engine, so that a store has one text for both.
//  1. A statement is written in PostgreSQL's dialect. Package sqlite translates what differs, when it compiles it.
//  2. DB is a database or a transaction. In tells the namespace, which row-level security asks for.
//  3. Query, Get and Exec convert arguments and columns: SQLite has ids as bytes, times as numbers, lists and Rows as JSON.
//
// A zero time and uuid.Nil are stored as NULL, but for a uuid.Nil in Rows. Statements that differ by more stay with the packages of the engines.
package sqldb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// DB is a database of either engine, or a transaction in one. The other field is nil.
type DB struct {
	Postgres postgres.Batcher
	SQLite   sqlite.Conn
}

// Dialect returns the part of a statement that is for the engine.
func (db DB) Dialect(forPostgres, forSQLite string) string {
	if db.SQLite != nil {
		return forSQLite
	}
	return forPostgres
}

// Tx is a transaction that writes. SQLite is nil on PostgreSQL.
type Tx struct {
	Postgres pgx.Tx
	SQLite   *sql.Tx
	changes  map[string]Rows // of memories, by namespace: ids and kinds
}

// DB returns the transaction for statements.
func (tx Tx) DB() DB {
	if tx.SQLite != nil {
		return DB{SQLite: tx.SQLite}
	}
	return DB{Postgres: tx.Postgres}
}

// In is DB.In.
func (tx Tx) In(namespace string) Scoped { return tx.DB().In(namespace) }

// Note tells those who keep copies what has changed of memories, by a kind of package replica. On SQLite triggers do that.
func (tx Tx) Note(namespace, kind string, ids ...uuid.UUID) {
	if tx.SQLite != nil {
		return
	}
	for _, id := range ids {
		tx.changes[namespace] = append(tx.changes[namespace], []any{id, kind})
	}
}

// Putter writes what is derived from the records that a transaction has stored.
type Putter = func(ctx context.Context, tx Tx, stored map[record.Key]bool) error

// Scoped runs statements about one namespace.
type Scoped struct {
	db        DB
	namespace string
}

// In returns db for statements about one namespace, or postgres.AllNamespaces.
func (db DB) In(namespace string) Scoped { return Scoped{db, namespace} }

// Scope returns what In needs for statements about these namespaces.
func Scope(namespaces []string) string {
	if len(namespaces) == 1 {
		return namespaces[0]
	}
	return postgres.AllNamespaces
}

// Namespaces returns the names of all namespaces, in order.
func (db DB) Namespaces(ctx context.Context) ([]string, error) {
	return Column[string](ctx, db.In(postgres.AllNamespaces), `SELECT name FROM memory.namespaces ORDER BY name`)
}

// Among adds a condition on ids to a statement, as its last argument. Without a list, nil, the statement is about all rows.
func Among[T any](ids []T, statement, condition string, args ...any) (string, []any) {
	if ids == nil {
		return statement, args
	}
	return statement + condition, append(args, ids)
}

// Args collects the arguments of a statement while its text is built.
type Args = postgres.Args

// Scan reads the columns of a row into targets. A NULL time or id is the zero one.
type Scan = func(targets ...any) error

// Query returns what scan makes of each row of a statement.
func Query[T any](ctx context.Context, s Scoped, statement string, args []any, scan func(Scan) (T, error)) (out []T, err error) {
	if s.db.SQLite == nil {
		return postgres.Query(ctx, postgres.In(s.db.Postgres, s.namespace), statement, postgresArgs(args), func(row pgx.CollectableRow) (T, error) {
			return scan(FromPostgres(row))
		})
	}
	rows, err := s.db.SQLite.QueryContext(ctx, statement, SQLiteArgs(statement, args)...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		one, err := scan(func(targets ...any) error { return rows.Scan(slice.Map(targets, sqliteTarget)...) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, rows.Err()
}

// Into returns what Query needs to read each row into targets of a T.
func Into[T any](targets func(row *T) []any) func(Scan) (T, error) {
	return func(scan Scan) (row T, err error) {
		err = scan(targets(&row)...)
		return row, err
	}
}

// Records returns the records of a statement that selects record.Columns.
func (s Scoped) Records(ctx context.Context, statement string, args ...any) ([]record.Record, error) {
	return Query(ctx, s, statement, args, func(scan Scan) (record.Record, error) { return ScanRecord(scan) })
}

// Column returns the only column of a statement.
func Column[T any](ctx context.Context, s Scoped, statement string, args ...any) ([]T, error) {
	return Query(ctx, s, statement, args, Into(func(value *T) []any { return []any{value} }))
}

// IDs returns the ids that a statement selects or returns.
func (s Scoped) IDs(ctx context.Context, statement string, args ...any) ([]uuid.UUID, error) {
	return Column[uuid.UUID](ctx, s, statement, args...)
}

// Get scans the only row of a statement, and reports whether there is one.
func (s Scoped) Get(ctx context.Context, statement string, args []any, targets ...any) (found bool, err error) {
	rows, err := Query(ctx, s, statement, args, func(scan Scan) (struct{}, error) { return struct{}{}, scan(targets...) })
	return len(rows) > 0, err
}

// Call is Get with a statement of SQLite's. On PostgreSQL it calls a function instead, as postgres.Call; the DB must be a pool.
func (s Scoped) Call(ctx context.Context, call, statement string, args []any, targets ...any) (found bool, err error) {
	if s.db.SQLite != nil {
		return s.Get(ctx, statement, args, targets...)
	}
	rows, err := postgres.Call(ctx, s.db.Postgres.(*pgxpool.Pool), s.namespace, call, args, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(slice.Map(targets, PostgresTarget)...)
	})
	return len(rows) > 0, err
}

// Batch collects statements that Send runs in one round trip.
type Batch []struct {
	statement string
	args      []any
	read      func(Scan) error // nil for a statement that returns nothing
	each      Rows
}

// Read adds a statement. read is called for each row.
func (b *Batch) Read(read func(Scan) error, statement string, args ...any) {
	*b = append(*b, Batch{{statement: statement, args: args, read: read}}...)
}

// Records adds a statement that selects record.Columns.
func (b *Batch) Records(to *[]record.Record, statement string, args ...any) {
	b.Read(func(scan Scan) error {
		r, err := ScanRecord(scan)
		if err == nil {
			*to = append(*to, r)
		}
		return err
	}, statement, args...)
}

// Query adds a statement. read is called for each row, whose columns are then in targets. With empty Rows there are none, and the
// statement is left out.
func (b *Batch) Query(targets []any, read func(), statement string, args ...any) {
	if !noRows(args) {
		b.Read(func(scan Scan) error {
			err := scan(targets...)
			if err == nil {
				read()
			}
			return err
		}, statement, args...)
	}
}

// Exec is Query for a statement that returns nothing.
func (b *Batch) Exec(statement string, args ...any) {
	if !noRows(args) {
		b.Read(nil, statement, args...)
	}
}

func noRows(args []any) bool {
	return slices.ContainsFunc(args, func(arg any) bool {
		rows, is := arg.(Rows)
		return is && len(rows) == 0
	})
}

// Each adds a statement of SQLite's that runs for each of some rows, whose columns are its last arguments. It is compiled once.
func (b *Batch) Each(statement string, rows Rows, args ...any) {
	if len(rows) > 0 {
		*b = append(*b, Batch{{statement: statement, args: args, each: rows}}...)
	}
}

// Send runs the statements of a batch, and empties it.
func (s Scoped) Send(ctx context.Context, b *Batch) (err error) {
	batch := &pgx.Batch{}
	statements := *b
	*b = nil
	for _, q := range statements {
		switch {
		case s.db.SQLite == nil && q.read == nil:
			batch.Queue(q.statement, postgresArgs(q.args)...)
		case s.db.SQLite == nil:
			batch.Queue(q.statement, postgresArgs(q.args)...).Query(func(rows pgx.Rows) error {
				_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, q.read(FromPostgres(row)) })
				return err
			})
		case q.each != nil:
			args := SQLiteArgs(q.statement, q.args)
			err = sqlite.ExecEach(ctx, s.db.SQLite.(*sql.Tx), q.statement, q.each, func(row []any) []any { return slices.Concat(args, row) })
		case q.read == nil:
			_, err = s.Exec(ctx, q.statement, q.args...)
		default:
			_, err = Query(ctx, s, q.statement, q.args, func(scan Scan) (struct{}, error) { return struct{}{}, q.read(scan) })
		}
		if err != nil {
			return err
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return postgres.In(s.db.Postgres, s.namespace).Send(ctx, batch)
}

// Exec runs a statement and returns how many rows it has changed.
func (s Scoped) Exec(ctx context.Context, statement string, args ...any) (changed int64, err error) {
	if s.db.SQLite != nil {
		result, err := s.db.SQLite.ExecContext(ctx, statement, SQLiteArgs(statement, args)...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
	tag, err := postgres.In(s.db.Postgres, s.namespace).Exec(ctx, statement, postgresArgs(args)...)
	return tag.RowsAffected(), err
}

// Live returns a condition on the memories row called alias, as postgres.Live.
func (db DB) Live(f record.Filter, alias string, args *Args) string {
	if db.SQLite == nil {
		return postgres.Live(f, alias, args)
	}
	common := f
	common.TagsAny, common.TagsAll, common.Metadata = nil, nil, nil
	where := postgres.Live(common, alias, args)
	if len(f.TagsAny) > 0 {
		where += fmt.Sprintf(" AND EXISTS (SELECT 1 FROM json_each(%s.tags) t WHERE t.value IN (SELECT value FROM json_each(%s)))", alias, args.Add(f.TagsAny))
	}
	if len(f.TagsAll) > 0 {
		where += fmt.Sprintf(" AND NOT EXISTS (SELECT value FROM json_each(%s) EXCEPT SELECT value FROM json_each(%s.tags))", args.Add(f.TagsAll), alias)
	}
	if len(f.Metadata) > 0 {
		// Compare as JSON: the number 1, the string "1" and true are different.
		where += fmt.Sprintf(` AND NOT EXISTS (SELECT 1 FROM json_each(%s) w WHERE NOT EXISTS (SELECT 1 FROM json_each(%s.metadata) e
			WHERE e.key = w.key AND e.type IN ('true', 'false', 'text', 'integer', 'real') AND e.value = w.value
				AND (e.type = w.type OR (e.type IN ('integer', 'real') AND w.type IN ('integer', 'real')))))`, args.Add(f.Metadata), alias)
	}
	return where
}

// Rows are rows as the last argument of a statement, which reads them by `unnest($2::uuid[], $3::bigint[]) AS r (id, revision)`, for
// instance. PostgreSQL has an array of each column.
type Rows [][]any

func (r Rows) columns() [][]any {
	if len(r) == 0 {
		return nil
	}
	out := make([][]any, len(r[0]))
	for i := range out {
		out[i] = make([]any, len(r))
		for at, row := range r {
			if out[i][at] = row[i]; isZero(row[i]) {
				out[i][at] = nil
			}
		}
	}
	return out
}

// sqlite returns rows as JSON, with ids in hexadecimal and times in microseconds. A value of bytes becomes its place in all of them.
func (r Rows) sqlite() (text string, bytes []byte) {
	converted := make([][]any, len(r))
	for i, row := range r {
		converted[i] = slice.Map(row, func(v any) any {
			switch v := v.(type) {
			case time.Time:
				if v.IsZero() {
					return nil
				}
				return v.UnixMicro()
			case []byte:
				if bytes == nil {
					bytes = []byte{0} // the driver binds an empty slice as NULL
				}
				if v == nil {
					return nil
				}
				bytes = append(bytes, v...)
				return [2]int{1 + len(bytes) - len(v), len(v)}
			}
			return v
		})
	}
	return asJSON(converted), bytes
}

// postgresArgs replaces zero times and ids by NULL, and rows by their columns.
func postgresArgs(args []any) []any {
	out := make([]any, 0, len(args))
	for _, arg := range args {
		if rows, is := arg.(Rows); is {
			for _, column := range rows.columns() {
				out = append(out, column)
			}
			continue
		}
		out = append(out, orNull(arg))
	}
	return out
}

func orNull(arg any) any {
	if id, is := arg.(uuid.UUID); is && id == uuid.Nil || isZero(arg) {
		return nil
	}
	return arg
}

func isZero(arg any) bool {
	at, is := arg.(time.Time)
	return is && at.IsZero()
}

// SQLiteArgs replaces what SQLite has no type for. It adds the bytes of rows, and the time if the statement asks for it.
func SQLiteArgs(statement string, args []any) []any {
	var bytes []byte
	converted := slice.Map(args, func(arg any) any {
		arg = orNull(arg)
		switch v := arg.(type) {
		case uuid.UUID:
			return v[:]
		case time.Time:
			return v.UnixMicro()
		case Rows:
			text, some := v.sqlite()
			bytes = some
			return text
		case []uuid.UUID, []string, []int64, []record.Link, map[string]any:
			return asJSON(v)
		}
		return arg
	})
	if strings.Contains(statement, "now()") {
		converted = append(converted, sql.Named(sqlite.Now, time.Now().UnixMicro()))
	}
	if bytes != nil {
		converted = append(converted, sql.Named(sqlite.Bytes, bytes))
	}
	return converted
}

// asJSON panics if a value has a number that JSON lacks. Those of records and Rows are finite.
func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
