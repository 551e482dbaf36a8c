package backend

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/schema"
)

// withSQL calls fn with the database as package schema takes it. pool is nil for a file.
func (b *Backend) withSQL(pool *pgxpool.Pool, fn func(*sql.DB, schema.Engine) error) error {
	if pool == nil {
		return fn(b.store.File.Write, schema.SQLite)
	}
	db := postgres.SQL(pool)
	defer func() { _ = db.Close() }()
	return fn(db, schema.Postgres)
}

// Migrate is schema.Up.
func (b *Backend) Migrate(ctx context.Context, tell ...func(schema.Step)) (steps []schema.Step, err error) {
	err = b.withSQL(b.store.Pool, func(db *sql.DB, engine schema.Engine) error {
		steps, err = schema.Up(ctx, db, engine, tell...)
		return err
	})
	if b.store.Pool != nil {
		b.store.Pool.Reset() // older connections do not know the vector extension's types
	}
	return steps, err
}

// Plan is schema.Plan.
func (b *Backend) Plan(ctx context.Context) (steps []schema.Planned, err error) {
	err = b.withSQL(b.store.Pool, func(db *sql.DB, engine schema.Engine) error {
		steps, err = schema.Plan(ctx, db, engine)
		return err
	})
	return steps, err
}

// Status is schema.Status.
func (b *Backend) Status(ctx context.Context) (steps []schema.Step, err error) {
	err = b.withSQL(b.store.Pool, func(db *sql.DB, engine schema.Engine) error {
		steps, err = schema.Status(ctx, db, engine)
		return err
	})
	return steps, err
}

// Check is schema.Check, of the standby if there is one.
func (b *Backend) Check(ctx context.Context, tracks ...string) error {
	return b.withSQL(b.Standby.Or(b.store.Pool), func(db *sql.DB, engine schema.Engine) error { return schema.Check(ctx, db, engine, tracks...) })
}

// Distribute is schema.Distribute; a file cannot be distributed.
func (b *Backend) Distribute(ctx context.Context) error {
	if b.store.File != nil {
		return errors.New("only PostgreSQL with the extension citus distributes tables")
	}
	err := b.withSQL(b.store.Pool, func(db *sql.DB, _ schema.Engine) error { return schema.Distribute(ctx, db) })
	b.store.Pool.Reset() // older connections do not tell the nodes which namespace they are about
	return err
}
