package postgres

import (
	"context"
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

// Send sends statements in one round trip and runs their queued callbacks on the results. All are in one transaction, which begins with
// the settings. Nodes of a distributed database hear of settings in a transaction block only, so the batch of a pool is one there.
func (s Scoped) Send(ctx context.Context, statements *pgx.Batch) error {
	batch := &pgx.Batch{}
	pool, pooled := s.db.(*pgxpool.Pool)
	if !pooled {
		if s.namespace != Entered {
			SetNamespace(batch, s.namespace)
		}
		batch.QueuedQueries = append(batch.QueuedQueries, statements.QueuedQueries...)
		return s.db.SendBatch(ctx, batch).Close()
	}
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		block := distributed(conn.Conn())
		if block {
			batch.Queue("BEGIN")
		}
		if s.searching {
			setUp(ctx, conn.Conn(), batch, s.namespace, s.settings)
		} else {
			SetNamespace(batch, s.namespace)
		}
		batch.QueuedQueries = append(batch.QueuedQueries, statements.QueuedQueries...)
		if block {
			batch.Queue("COMMIT")
		}
		err := conn.SendBatch(ctx, batch).Close()
		if server := conn.Conn().PgConn(); server.TxStatus() == 'E' { // the COMMIT was skipped
			_ = server.Exec(ctx, "ROLLBACK").Close() // if this fails, the pool drops the connection
		}
		return err
	})
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
	return Query(ctx, In(pool, namespace), call, args, row)
}

// setUp queues the settings of a search's transaction, on conn. Settings' names and values are this program's own.
func setUp(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, namespace string, settings map[string]string) {
	SetNamespace(batch, namespace)
	var names, values []string
	set := func(name, value string) {
		if distributed(conn) { // nodes hear of nothing else
			batch.Queue("SET LOCAL " + name + " TO '" + value + "'")
		} else {
			names, values = append(names, name), append(values, value)
		}
	}
	set("jit", "off") // compiling takes longer than a search
	for name, value := range settings {
		set(name, value)
	}
	if deadline, ok := ctx.Deadline(); ok {
		names, values = append(names, "statement_timeout"), append(values, strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 1), 10))
	}
	batch.Queue("SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) AS s (name, value)", names, values)
}

// Exec is like pgx's.
func (s Scoped) Exec(ctx context.Context, statement string, args ...any) (tag pgconn.CommandTag, err error) {
	batch := &pgx.Batch{}
	batch.Queue(statement, args...).Exec(func(done pgconn.CommandTag) error { tag = done; return nil })
	return tag, s.Send(ctx, batch)
}

// Query returns what row makes of each row of a statement.
func Query[T any](ctx context.Context, s Scoped, statement string, args []any, row pgx.RowToFunc[T]) (out []T, err error) {
	batch := &pgx.Batch{}
	batch.Queue(statement, args...).Query(func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, row)
		return err
	})
	return out, s.Send(ctx, batch)
}
