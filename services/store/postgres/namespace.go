package postgres

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// AllNamespaces is what a worker says to In when the rows it goes through are of several namespaces. No namespace has
// this name.
const AllNamespaces = "*"

// namespaceSetting is what the policies of row-level security compare rows with.
const namespaceSetting = "triskele.namespace"

// SetNamespace queues the setting that the policies of row-level security compare rows with, for what follows in the
// transaction. Without it a service's role is refused.
func SetNamespace(batch *pgx.Batch, namespace string) {
	batch.Queue(`SELECT set_config('`+namespaceSetting+`', $1, true)`, namespace)
}

// Batcher is a pool, a connection or a transaction.
type Batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Scoped runs statements that concern one namespace.
type Scoped struct {
	db        Batcher
	namespace string
	searching bool
	settings  map[string]string
}

// In returns db for statements about one namespace, or AllNamespaces. The database's policies then let no other row
// through, whatever the statement says. It costs no round trip, and holds until the transaction ends: on a pool, the
// statement's own.
func In(db Batcher, namespace string) Scoped { return Scoped{db: db, namespace: namespace} }

// Searching returns s for searches that are one statement each, outside of a transaction: settings hold for it, and as in
// Search the server stops it when ctx's deadline has passed. That costs one round trip, where a transaction costs four.
func (s Scoped) Searching(settings map[string]string) Scoped {
	s.searching, s.settings = true, settings
	return s
}

// Send sends statements together, in one round trip, and has their results read as they were queued to be.
func (s Scoped) Send(ctx context.Context, statements *pgx.Batch) error {
	batch := s.batch(ctx)
	batch.QueuedQueries = append(batch.QueuedQueries, statements.QueuedQueries...)
	return s.db.SendBatch(ctx, batch).Close()
}

// batch returns what goes before the statements.
func (s Scoped) batch(ctx context.Context) *pgx.Batch {
	batch := &pgx.Batch{}
	if s.searching {
		setUp(ctx, batch, s.namespace, s.settings)
	} else {
		SetNamespace(batch, s.namespace)
	}
	return batch
}

func (s Scoped) send(ctx context.Context, statement string, args []any) (pgx.BatchResults, error) {
	batch := s.batch(ctx)
	batch.Queue(statement, args...)
	results := s.db.SendBatch(ctx, batch)
	if _, err := results.Exec(); err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return results, nil
}

// setUp queues what holds for the transaction of a search.
func setUp(ctx context.Context, batch *pgx.Batch, namespace string, settings map[string]string) {
	all := map[string]string{namespaceSetting: namespace}
	maps.Copy(all, settings)
	if deadline, ok := ctx.Deadline(); ok {
		all["statement_timeout"] = strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 1), 10)
	}
	Configure(batch, all)
}

// Exec is as pgx's.
func (s Scoped) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	results, err := s.send(ctx, statement, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if closing := results.Close(); err == nil {
		err = closing
	}
	return tag, err
}

// Query is as pgx's.
func (s Scoped) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	results, err := s.send(ctx, statement, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // repeats the error
		return nil, err
	}
	return &scopedRows{Rows: rows, results: results}, nil
}

// QueryRow is as pgx's.
func (s Scoped) QueryRow(ctx context.Context, statement string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, statement, args...)
	return scopedRow{rows, err}
}

// scopedRows ends the batch with the rows; only then is a statement of its own transaction committed.
type scopedRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error // of the end
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

type scopedRow struct {
	rows pgx.Rows
	err  error
}

func (r scopedRow) Scan(targets ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(targets...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
