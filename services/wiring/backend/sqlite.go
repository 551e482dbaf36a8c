package backend

import (
	"context"
	"errors"
	"log/slog"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLite is one SQLite file.
type SQLite struct {
	db      *sqlite.DB
	path    string
	derived map[string]memory.Derived // by the memory stores, instead of by workers
	workers
}

var _ Backend = (*SQLite)(nil)

// OpenSQLite opens or creates the file.
func OpenSQLite(path string, tel *telemetry.Service) (*SQLite, error) {
	db, err := sqlite.Open(path, tel)
	if err != nil {
		return nil, err
	}
	return &SQLite{db: db, path: path, derived: map[string]memory.Derived{}, workers: workers{tasks: queue.NewSQLite(db), tel: tel}}, nil
}

// Memory implements Backend.
func (b *SQLite) Memory() memory.Store {
	store := memory.NewSQLite(b.db, &lexical.Index{})
	store.Committed = func() {
		b.told()
		b.wake()
	}
	for name, index := range b.derived {
		store.Derive(name, index)
	}
	return store
}

// Images implements Backend.
func (b *SQLite) Images(ctx context.Context, config replica.Config, log *slog.Logger) *replica.Set {
	images := replica.NewSQLite(ctx, b.db, config, b.tel.MeterProvider.Meter(telemetry.ScopeName), log)
	b.images.Store(images)
	return images
}

// Lexical implements Backend.
func (b *SQLite) Lexical(images *replica.Set, _ lexical.Config) *lexical.Leg {
	return lexical.NewSQLite(b.db, images)
}

// Dense implements Backend.
func (b *SQLite) Dense(ctx context.Context, images *replica.Set, embedder embed.Embedder) (Index, error) {
	index, err := dense.NewSQLite(ctx, b.db, images, embedder, b.tasks)
	if err == nil && embed.Immediate(embedder) {
		b.derived["dense"] = index
	}
	return index, err
}

// Graph implements Backend.
func (b *SQLite) Graph(images *replica.Set, config graph.Config) GraphIndex {
	index := graph.NewSQLite(b.db, images, b.tasks, config)
	if config.Embedder == nil || embed.Immediate(config.Embedder) {
		b.derived["graph"] = index
	}
	return index
}

// Models implements Backend.
func (b *SQLite) Models() *dense.Models { return dense.NewSQLiteModels(b.db) }

// Concern implements Backend.
func (b *SQLite) Concern() string { return b.db.Last.Concern() }

// Ping implements Backend.
func (b *SQLite) Ping(ctx context.Context) error { return b.db.Read.PingContext(ctx) }

// Version implements Backend.
func (b *SQLite) Version(ctx context.Context) (version string, err error) {
	err = b.db.Read.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&version)
	return version, err
}

// Migrate implements Backend.
func (b *SQLite) Migrate(ctx context.Context, tell ...func(schema.Step)) ([]schema.Step, error) {
	return schema.Up(ctx, b.db.Write, schema.SQLite, tell...)
}

// Distribute implements Backend.
func (*SQLite) Distribute(context.Context) error {
	return errors.New("only PostgreSQL with the extension citus distributes tables")
}

// Plan implements Backend.
func (b *SQLite) Plan(ctx context.Context) ([]schema.Planned, error) {
	return schema.Plan(ctx, b.db.Read, schema.SQLite)
}

// Status implements Backend.
func (b *SQLite) Status(ctx context.Context) ([]schema.Step, error) {
	return schema.Status(ctx, b.db.Write, schema.SQLite)
}

// Check implements Backend.
func (b *SQLite) Check(ctx context.Context, tracks ...string) error {
	return schema.Check(ctx, b.db.Write, schema.SQLite, tracks...)
}

// Close implements Backend.
func (b *SQLite) Close() error { return b.db.Close() }
