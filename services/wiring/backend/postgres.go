package backend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
)

// Postgres is a PostgreSQL database with pgvector.
type Postgres struct {
	pool *pgxpool.Pool
	// Standby serves searches; nil for the primary.
	Standby *postgres.Standby
	last    diskerr.Last              // of the memory stores' writes
	derived map[string]memory.Derived // by the memory stores, instead of by workers
	workers
}

var _ Backend = (*Postgres)(nil)

// OpenOnStandby is OpenPostgres for services that search in a hot standby, at URL read; "" for none.
func OpenOnStandby(ctx context.Context, url, read string, tel *telemetry.Service) (*Postgres, error) {
	b, err := OpenPostgres(ctx, url, tel)
	if err != nil || read == "" {
		return b, err
	}
	if b.Standby, err = postgres.OpenStandby(ctx, read, b.pool, tel); err != nil {
		return nil, errors.Join(fmt.Errorf("open the standby: %w", err), b.Close())
	}
	return b, nil
}

// OpenPostgres prepares a pool; it does not wait for the server.
func OpenPostgres(ctx context.Context, url string, tel *telemetry.Service) (*Postgres, error) {
	pool, err := postgres.Open(ctx, url, tel)
	if err != nil {
		return nil, err
	}
	b := &Postgres{pool: pool, derived: map[string]memory.Derived{}, workers: workers{tel: tel}}
	b.tasks = urging{queue.NewPostgres(pool), b.wake}
	return b, nil
}

// Memory implements Backend.
func (b *Postgres) Memory() memory.Store {
	store := memory.NewPostgres(b.pool, &lexical.Index{Vectors: true})
	store.Standby, store.Last, store.Committed = b.Standby, &b.last, b.told
	for name, index := range b.derived {
		store.Derive(name, index)
	}
	return store
}

// Concern implements Backend.
func (b *Postgres) Concern() string { return b.last.Concern() }

// Images implements Backend.
func (b *Postgres) Images(ctx context.Context, config replica.Config, log *slog.Logger) *replica.Set {
	images := replica.NewPostgres(ctx, b.pool, b.Standby, config, b.tel.MeterProvider.Meter(telemetry.ScopeName), log)
	b.images.Store(images)
	return images
}

// Lexical implements Backend.
func (b *Postgres) Lexical(images *replica.Set, config lexical.Config) *lexical.Leg {
	searcher := lexical.NewPostgres(b.pool, images, config)
	searcher.Standby = b.Standby
	return searcher
}

// Dense implements Backend.
func (b *Postgres) Dense(ctx context.Context, images *replica.Set, embedder embed.Embedder) (Index, error) {
	index, err := dense.NewPostgres(ctx, b.pool, images, b.Standby, embedder, b.tasks)
	if err == nil && embed.Immediate(embedder) {
		b.derived["dense"] = index
	}
	return index, err
}

// Graph implements Backend.
func (b *Postgres) Graph(images *replica.Set, config graph.Config) GraphIndex {
	index := graph.NewPostgres(b.pool, images, b.tasks, config)
	index.Standby = b.Standby
	if config.Embedder == nil || embed.Immediate(config.Embedder) {
		b.derived["graph"] = index
	}
	return index
}

// Models implements Backend.
func (b *Postgres) Models() *dense.Models { return dense.NewPostgresModels(b.pool) }

// Ping implements Backend. It pings the standby if there is one: searches work without the primary.
func (b *Postgres) Ping(ctx context.Context) error { return b.Standby.Or(b.pool).Ping(ctx) }

// Version implements Backend.
func (b *Postgres) Version(ctx context.Context) (version string, err error) {
	err = b.Standby.Or(b.pool).QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') ||
		coalesce((SELECT ', pgvector ' || extversion FROM pg_extension WHERE extname = 'vector'), ', without pgvector')`).Scan(&version)
	return version, err
}

func (b *Postgres) withSQL(fn func(*sql.DB) error) error {
	db := postgres.SQL(b.pool)
	defer func() { _ = db.Close() }()
	return fn(db)
}

// Migrate implements Backend.
func (b *Postgres) Migrate(ctx context.Context, tell ...func(schema.Step)) (steps []schema.Step, err error) {
	err = b.withSQL(func(db *sql.DB) error { steps, err = schema.Up(ctx, db, schema.Postgres, tell...); return err })
	b.pool.Reset() // older connections do not know the vector extension's types
	return steps, err
}

// Distribute implements Backend.
func (b *Postgres) Distribute(ctx context.Context) error {
	err := b.withSQL(func(db *sql.DB) error { return schema.Distribute(ctx, db) })
	b.pool.Reset() // older connections do not tell the nodes which namespace they are about
	return err
}

// Plan implements Backend.
func (b *Postgres) Plan(ctx context.Context) (steps []schema.Planned, err error) {
	err = b.withSQL(func(db *sql.DB) error { steps, err = schema.Plan(ctx, db, schema.Postgres); return err })
	return steps, err
}

// Status implements Backend.
func (b *Postgres) Status(ctx context.Context) (steps []schema.Step, err error) {
	err = b.withSQL(func(db *sql.DB) error { steps, err = schema.Status(ctx, db, schema.Postgres); return err })
	return steps, err
}

// Check implements Backend.
func (b *Postgres) Check(ctx context.Context, tracks ...string) error {
	db := postgres.SQL(b.Standby.Or(b.pool))
	defer func() { _ = db.Close() }()
	return schema.Check(ctx, db, schema.Postgres, tracks...)
}

// Close implements Backend.
func (b *Postgres) Close() error {
	b.Standby.Close()
	b.pool.Close()
	return nil
}
