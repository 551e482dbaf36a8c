// Package postgres is the access to PostgreSQL that all services share. A typical search works as follows:
//  1. Open makes a pool. connected prepares each connection: id and vector types, and a check for clients that are
//     gone.
//  2. In or Search sets the namespace for row-level security, and statement_timeout from the caller's deadline.
//  3. Live and Matches turn a record.Filter into SQL conditions.
//  4. Functions such as IsTimeout and Wrap classify the server's errors, so that no driver type leaves the stores.
//
// A Standby redirects searches to hot standbys. The package knows no service's tables but the filter columns of
// memory.memories.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	pgvector "github.com/pgvector/pgvector-go/pgx"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
	"go.opentelemetry.io/otel/attribute"

	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/record"
)

// Open returns a pool for a connection string in URL or keyword form. The service's name shows in pg_stat_activity.
// Open does not wait for the server.
func Open(ctx context.Context, url string, tel *telemetry.Service) (*pgxpool.Pool, error) {
	return open(ctx, url, tel, tel.Name, nil)
}

// open is Open with a name for metrics and a hook before each use of a connection.
func open(ctx context.Context, url string, tel *telemetry.Service, name string, prepare func(context.Context, *pgx.Conn) (bool, error)) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The cause quotes the connection string with its password.
		return nil, settings.Wrong(errors.New("the PostgreSQL connection string is not valid"))
	}
	config.ConnConfig.RuntimeParams["application_name"] = "triskele-" + tel.Name
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.Tracer = otelpgx.NewTracer(
		otelpgx.WithTracerProvider(tel.Statements),
		otelpgx.WithMeterProvider(tel.MeterProvider),
		otelpgx.WithDisableConnectionDetailsInAttributes(),
		otelpgx.WithDisableSQLStatementInAttributes(),
		otelpgx.WithSpanNameCtxFunc(func(_ context.Context, statement string) string { return telemetry.Summary(statement) }),
	)
	config.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		// Certificates and passwords are in files, which may have changed. While they cannot be read, what was read before is used.
		if now, err := pgx.ParseConfig(url); err == nil {
			conn.Password, conn.TLSConfig, conn.Fallbacks = cmp.Or(now.Password, conn.Password), now.TLSConfig, now.Fallbacks
		}
		return nil
	}
	config.AfterConnect, config.PrepareConn = connected, prepare
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	// Metrics: the pool's size and the waits for a connection.
	return pool, otelpgx.RecordStats(pool, otelpgx.WithStatsMeterProvider(tel.MeterProvider),
		otelpgx.WithStatsAttributes(attribute.String("db.client.connection.pool.name", name)))
}

// goneAfter is how soon the server notices, during a statement, that its client is gone.
const goneAfter = 500 * time.Millisecond

// distributedKey is where a connection remembers whether its server knows nodes of Citus.
const distributedKey = "distributed"

// nodesHear has Citus tell nodes of SET LOCAL. A statement about many namespaces takes one connection to each node: with one for each
// shard, most would be opened for it alone, which takes longer than small statements gain.
const nodesHear = `SET citus.propagate_set_commands = 'local'; SET citus.max_adaptive_executor_pool_size = 1`

func distributed(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[distributedKey] == true }

// connected prepares a connection. The connection check ends a statement whose cancellation was lost, also while pgx
// prepares it, when no statement_timeout applies yet. Ids travel as sixteen bytes instead of text. Vector types are
// registered if the extension is installed. A connection remembers whether the server spreads tables over nodes.
func connected(ctx context.Context, conn *pgx.Conn) error {
	pgxuuid.Register(conn.TypeMap())
	var vectors, citus bool
	if err := conn.QueryRow(ctx, `SELECT to_regtype('halfvec') IS NOT NULL, to_regclass('pg_dist_node') IS NOT NULL
		FROM set_config('client_connection_check_interval', $1, false)`, goneAfter.String()).Scan(&vectors, &citus); err != nil {
		return err
	}
	if conn.PgConn().CustomData()[distributedKey] = citus; citus {
		if _, err := conn.Exec(ctx, nodesHear); err != nil {
			return err
		}
	}
	if !vectors {
		return nil
	}
	return pgvector.RegisterTypes(ctx, conn)
}

// SQL returns a database/sql handle over the pool, for the migration tool. Close it before the pool.
func SQL(pool *pgxpool.Pool) *sql.DB { return stdlib.OpenDBFromPool(pool) }

// Args collects the arguments of a statement while its text is built.
type Args []any

// Add appends an argument and returns its placeholder.
func (a *Args) Add(v any) string {
	*a = append(*a, v)
	return "$" + strconv.Itoa(len(*a))
}

// Search runs fn in a read-only transaction about one namespace, as In, on one snapshot of the database. The running
// statement is cancelled when ctx ends. If the cancellation is lost, the server stops each statement after the time
// that ctx had left at the start, or soon after its client is gone. Extra settings apply to the transaction.
func Search(ctx context.Context, pool *pgxpool.Pool, namespace string, settings map[string]string, fn func(pgx.Tx) error) error {
	return SearchAfter(ctx, pool, namespace, settings, func(*pgx.Batch) {}, fn)
}

// SearchAfter is Search with statements, queued by first, that go out with the settings and end before fn begins.
func SearchAfter(ctx context.Context, pool *pgxpool.Pool, namespace string, settings map[string]string, first func(*pgx.Batch), fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		setUp(ctx, tx.Conn(), batch, namespace, settings)
		first(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		return fn(tx)
	})
}

// IsTimeout reports whether an error is the server's statement timeout or the caller's expired deadline.
func IsTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, "57014")
}

// IsRetryable reports whether a transaction failed only because of concurrent ones.
func IsRetryable(err error) bool { return hasCode(err, "40001", "40P01") }

// Wrap marks errors of the server's disk or resources as package diskerr's. A standby's are not: see IsUnreachable.
func Wrap(err error) error {
	of := map[string]error{
		"53000": diskerr.ErrShort, "53100": diskerr.ErrFull, "53200": diskerr.ErrShort, "53400": diskerr.ErrShort, "58030": diskerr.ErrDisk,
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && of[pgErr.Code] != nil {
		return fmt.Errorf("%w: %w", of[pgErr.Code], err)
	}
	return err
}

// IsReadOnly reports whether the transaction was read-only, on a standby or by configuration.
func IsReadOnly(err error) bool { return hasCode(err, "25006") }

// IsForbidden reports whether the role lacks a privilege.
func IsForbidden(err error) bool { return hasCode(err, "42501") }

// IsLockTimeout reports whether a statement waited for a lock longer than lock_timeout.
func IsLockTimeout(err error) bool { return hasCode(err, "55P03") }

// IsUniqueViolation reports whether a row existed already.
func IsUniqueViolation(err error) bool { return hasCode(err, "23505") }

// IsForeignKeyViolation reports whether a referenced row does not exist.
func IsForeignKeyViolation(err error) bool { return hasCode(err, "23503") }

func hasCode(err error, codes ...string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, pgErr.Code)
}

// Live returns a condition on the memory.memories row called alias: it matches the filter, is not expired, and
// superseded only if asked for.
func Live(f record.Filter, alias string, args *Args) string {
	where := fmt.Sprintf("(%[1]s.expires_at IS NULL OR %[1]s.expires_at > now())", alias)
	if !f.IncludeSuperseded {
		where += fmt.Sprintf(" AND %s.superseded_by IS NULL", alias)
	}
	return where + Matches(f, alias, args)
}

// Matches returns the filter's conditions on the memory.memories row called alias, each with a leading AND.
func Matches(f record.Filter, alias string, args *Args) string {
	var where string
	add := func(format string, v any) {
		where += " AND " + fmt.Sprintf(format, alias, args.Add(v))
	}
	if len(f.TagsAny) > 0 {
		add("%s.tags && %s", f.TagsAny)
	}
	if len(f.TagsAll) > 0 {
		add("%s.tags @> %s", f.TagsAll)
	}
	if len(f.Categories) > 0 {
		add("%s.category = ANY(%s::text[])", f.Categories)
	}
	if !f.CreatedFrom.IsZero() {
		add("%s.created_at >= %s", f.CreatedFrom)
	}
	if !f.CreatedBefore.IsZero() {
		add("%s.created_at < %s", f.CreatedBefore)
	}
	if !f.OccurredFrom.IsZero() {
		add("coalesce(%[1]s.occurred_at, %[1]s.created_at) >= %[2]s", f.OccurredFrom)
	}
	if !f.OccurredBefore.IsZero() {
		add("coalesce(%[1]s.occurred_at, %[1]s.created_at) < %[2]s", f.OccurredBefore)
	}
	if len(f.Metadata) > 0 {
		add("%s.metadata @> %s", f.Metadata)
	}
	return where
}
