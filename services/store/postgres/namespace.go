package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// AllNamespaces is the namespace given to In when the rows are of several namespaces. No namespace has this name.
const AllNamespaces = "*"

// Entered is the namespace given to In when the transaction has entered that of the rows already.
const Entered = ""

// SetNamespace queues the setting that the row-level policies read, for the rest of the transaction. Without it the
// database refuses a service's role.
func SetNamespace(batch *pgx.Batch, namespace string) {
	batch.Queue(`SELECT memory.enter($1)`, namespace)
}

// Batcher is a pool, a connection or a transaction.
type Batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Scoped runs statements about one namespace.
type Scoped struct {
	db        Batcher
	namespace string
	searching bool
	settings  map[string]string
}

// In returns db for statements about one namespace, or AllNamespaces. The row-level security policies then hide all
// other rows. It costs no round trip, and holds until the transaction ends: on a pool, that of each statement.
func In(db Batcher, namespace string) Scoped { return Scoped{db: db, namespace: namespace} }

// Searching returns s for searches of one statement each, outside of a transaction. Settings apply to the statement,
// and the server stops it at ctx's deadline, as in Search. It costs one round trip; a transaction costs four.
func (s Scoped) Searching(settings map[string]string) Scoped {
	s.searching, s.settings = true, settings
	return s
}

// Send sends statements in one round trip and runs their queued callbacks on the results.
func (s Scoped) Send(ctx context.Context, statements *pgx.Batch) error {
	results, _, err := s.send(ctx, statements)
	if err != nil {
		return err
	}
	return results.Close()
}

// send sends statements after the settings, in one round trip and one transaction. The first results are of the settings; it says
// how many. Nodes of a distributed database hear of settings in a transaction block only, so the batch of a pool is one there.
func (s Scoped) send(ctx context.Context, statements *pgx.Batch) (results pgx.BatchResults, settings int, err error) {
	batch := &pgx.Batch{}
	pool, pooled := s.db.(*pgxpool.Pool)
	if !pooled {
		if s.namespace != Entered {
			SetNamespace(batch, s.namespace)
		}
		settings = batch.Len()
		batch.QueuedQueries = append(batch.QueuedQueries, statements.QueuedQueries...)
		return s.db.SendBatch(ctx, batch), settings, nil
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	block := distributed(conn.Conn())
	if block {
		batch.Queue("BEGIN")
	}
	if s.searching {
		setUp(ctx, conn.Conn(), batch, s.namespace, s.settings)
	} else {
		SetNamespace(batch, s.namespace)
	}
	settings = batch.Len()
	batch.QueuedQueries = append(batch.QueuedQueries, statements.QueuedQueries...)
	if block {
		batch.Queue("COMMIT")
	}
	return &pooledResults{conn.SendBatch(ctx, batch), ctx, conn}, settings, nil
}

// pooledResults gives the connection back when closed.
type pooledResults struct {
	pgx.BatchResults
	ctx  context.Context
	conn *pgxpool.Conn // nil once it is given back
}

func (r *pooledResults) Close() error {
	err := r.BatchResults.Close()
	if r.conn == nil {
		return err
	}
	if server := r.conn.Conn().PgConn(); server.TxStatus() == 'E' { // the COMMIT was skipped
		_ = server.Exec(r.ctx, "ROLLBACK").Close() // if this fails, the pool drops the connection
	}
	r.conn.Release()
	r.conn = nil
	return err
}

func (s Scoped) one(ctx context.Context, statement string, args []any) (pgx.BatchResults, error) {
	batch := &pgx.Batch{}
	batch.Queue(statement, args...)
	results, settings, err := s.send(ctx, batch)
	if err != nil {
		return nil, err
	}
	for range settings {
		if _, err := results.Exec(); err != nil {
			return nil, errors.Join(err, results.Close())
		}
	}
	return results, nil
}

// Call calls a function of the schema that enters its namespace by itself, and returns the rows that it does. Citus runs it on the node
// of its first argument, in one round trip; nothing else about a namespace is that cheap. Where a cluster does not do that, row
// security refuses the function's statements, and Call repeats it as In does.
func Call[T any](ctx context.Context, pool *pgxpool.Pool, namespace, call string, args []any, row pgx.RowToFunc[T]) ([]T, error) {
	rows, _ := pool.Query(ctx, call, args...) // the rows have its error
	found, err := pgx.CollectRows(rows, row)
	if !IsForbidden(err) {
		return found, err
	}
	if rows, err = In(pool, namespace).Query(ctx, call, args...); err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, row)
}

// setUp queues the settings of a search's transaction, on conn. Settings' names and values are this program's own.
func setUp(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, namespace string, settings map[string]string) {
	SetNamespace(batch, namespace)
	var names, values []string
	for name, value := range settings {
		if distributed(conn) { // nodes hear of nothing else
			batch.Queue("SET LOCAL " + name + " TO '" + value + "'")
		} else {
			names, values = append(names, name), append(values, value)
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		names, values = append(names, "statement_timeout"), append(values, strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 1), 10))
	}
	batch.Queue("SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) AS s (name, value)", names, values)
}

// Exec is like pgx's.
func (s Scoped) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	results, err := s.one(ctx, statement, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if closing := results.Close(); err == nil {
		err = closing
	}
	return tag, err
}

// Query is like pgx's.
func (s Scoped) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	results, err := s.one(ctx, statement, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // returns the same error
		return nil, err
	}
	return &scopedRows{Rows: rows, results: results}, nil
}

// scopedRows closes the batch with the rows, which commits the transaction of a single statement.
type scopedRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error // of closing the batch
}

func (r *scopedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *scopedRows) Close() {
	r.Rows.Close()
	if err := r.results.Close(); r.err == nil {
		r.err = err
	}
}

func (r *scopedRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}
