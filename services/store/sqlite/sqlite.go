// Package sqlite is the access to the embedded database that all services share.
//  1. Open opens the file with one write connection and several read connections, in WAL mode.
//  2. Update runs all writes, one transaction at a time, and remembers errors of the disk.
//  3. Reads run beside them. Each connection keeps its statements compiled.
//  4. Statements in PostgreSQL's dialect are translated when they are compiled.
//
// The package knows no service's tables.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/XSAM/otelsql"
	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/attribute"
	modernc "modernc.org/sqlite"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/diskerr"
)

// readers is the number of read connections; in WAL mode they run beside the one writer.
const readers = 8

// busyTries is how often a transaction waits busy_timeout for writers of other processes. SQLite looks seldom whether the file is free:
// one of them that writes all the time may keep another away for longer.
const busyTries = 6

// idleTime is how long a read connection that is not used stays open.
const idleTime = 10 * time.Second

// DB is one SQLite file with one write connection and several read connections. Readers and the writer do not wait
// for each other.
type DB struct {
	Read  *sql.DB
	Write *sql.DB
	Last  diskerr.Last // outcome of Update
	path  string
}

// Open opens or creates the file at path, in WAL mode with foreign keys on.
func Open(path string, tel *telemetry.Service) (*DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	open := func(name string, connections int, options url.Values) *sql.DB {
		// Pragmas apply to one connection, so they go into the DSN. FULL flushes each transaction before it is
		// acknowledged: NORMAL loses the last ones in a power failure.
		// No connection maps the file: each would count its pages as memory of the process.
		options["_pragma"] = append([]string{
			"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)",
		}, options["_pragma"]...)
		dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: absolute}).EscapedPath(), RawQuery: options.Encode()}).String()
		db := otelsql.OpenDB(keeper{&modernc.Driver{}, dsn},
			otelsql.WithTracerProvider(tel.Statements),
			otelsql.WithMeterProvider(tel.MeterProvider),
			otelsql.WithAttributes(attribute.String("db.system.name", "sqlite")),
			// Trace only statements of a call, not the pool's housekeeping.
			otelsql.WithSpanOptions(otelsql.SpanOptions{
				DisableErrSkip: true, OmitConnResetSession: true, OmitConnPrepare: true, OmitRows: true, OmitConnectorConnect: true, DisableQuery: true,
			}),
			otelsql.WithSpanNameFormatter(spanName),
		)
		// Metrics: the pool's size and the waits for a connection.
		telemetry.Must(otelsql.RegisterDBStatsMetrics(db, otelsql.WithMeterProvider(tel.MeterProvider),
			otelsql.WithAttributes(attribute.String("db.client.connection.pool.name", name))))
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		if name == "read" { // each connection caches pages
			db.SetConnMaxIdleTime(idleTime)
		}
		return db
	}
	write := open("write", 1, url.Values{"_txlock": {"immediate"}, "_pragma": {"cache_size(-32768)", "journal_size_limit(16777216)"}})
	if err := ready(write); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, Wrap(err)), write.Close())
	}
	read := open("read", readers, url.Values{"_pragma": {"cache_size(-8192)", "query_only(1)"}})
	return &DB{Read: read, Write: write, path: absolute}, nil
}

// ready creates the file and sets WAL before the first read. Processes that create a file at once may wait for each other's locks. SQLite
// then refuses one of them without waiting for busy_timeout.
func ready(write *sql.DB) error {
	_, err := backoff.Retry(context.Background(), func() (struct{}, error) {
		err := write.Ping()
		if err != nil && !IsBusy(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(20*time.Millisecond)), backoff.WithMaxElapsedTime(5*time.Second))
	return err
}

func spanName(_ context.Context, method otelsql.Method, statement string) string {
	if statement == "" {
		return string(method)
	}
	return telemetry.Summary(statement)
}

// Close closes all connections.
func (db *DB) Close() error { return errors.Join(db.Read.Close(), db.Write.Close()) }

// Update runs fn in a transaction of the write connection. It marks errors of the disk with Wrap.
func (db *DB) Update(ctx context.Context, fn func(*sql.Tx) error) error {
	err := Wrap(db.update(ctx, fn))
	db.Last.Note(ctx, err)
	return err
}

func (db *DB) update(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := db.Write.BeginTx(ctx, nil)
	for try := 1; IsBusy(err) && try < busyTries && ctx.Err() == nil; try++ {
		tx, err = db.Write.BeginTx(ctx, nil)
	}
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after Commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Conn is a transaction or a set of connections.
type Conn interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// ExecEach runs a statement, compiled once, for each item with its arguments.
func ExecEach[T any](ctx context.Context, tx *sql.Tx, statement string, items []T, args func(T) []any) error {
	if len(items) == 0 {
		return nil
	}
	compiled, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = compiled.Close() }()
	for _, item := range items {
		if _, err := compiled.ExecContext(ctx, args(item)...); err != nil {
			return err
		}
	}
	return nil
}
