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
func withSQL[T any](b *Backend, pool *pgxpool.Pool, fn func(*sql.DB, schema.Engine) (T, error)) (T, error) {
	if pool == nil {
		return fn(b.store.File.Write, schema.SQLite)
	}
	db := postgres.SQL(pool)
	defer func() { _ = db.Close() }()
	return fn(db, schema.Postgres)
}

// Migrate is schema.Up.
func (b *Backend) Migrate(ctx context.Context, tell ...func(schema.Step)) ([]schema.Step, error) {
	if b.store.Pool != nil {
		defer b.store.Pool.Reset() // older connections do not know the vector extension's types
	}
	return withSQL(b, b.store.Pool, func(db *sql.DB, engine schema.Engine) ([]schema.Step, error) {
		return schema.Up(ctx, db, engine, tell...)
	})
}

// Plan is schema.Plan.
func (b *Backend) Plan(ctx context.Context) ([]schema.Planned, error) {
	return withSQL(b, b.store.Pool, func(db *sql.DB, engine schema.Engine) ([]schema.Planned, error) { return schema.Plan(ctx, db, engine) })
}

// Status is schema.Status.
func (b *Backend) Status(ctx context.Context) ([]schema.Step, error) {
	return withSQL(b, b.store.Pool, func(db *sql.DB, engine schema.Engine) ([]schema.Step, error) { return schema.Status(ctx, db, engine) })
}

// Check is schema.Check, of the standby if there is one. It refuses a user from whom row security hides every memory: the database would
// look empty.
func (b *Backend) Check(ctx context.Context, tracks ...string) error {
	pool := b.store.Standby.Or(b.store.Pool)
	_, err := withSQL(b, pool, func(db *sql.DB, engine schema.Engine) (struct{}, error) {
		return struct{}{}, schema.Check(ctx, db, engine, tracks...)
	})
	if err != nil || pool == nil {
		return err
	}
	var hidden bool
	err = pool.QueryRow(ctx, `SELECT row_security_active('memory.memories') AND NOT EXISTS (
		SELECT FROM pg_policy, unnest(polroles) AS role WHERE polrelid = 'memory.memories'::regclass AND pg_has_role(role, 'USAGE'))`).Scan(&hidden)
	if err == nil && hidden {
		err = errors.New("row security hides all memories from this user of the database: connect as the owner of its tables, or as a user with BYPASSRLS")
	}
	return err
}

// Distribute is schema.Distribute; a file cannot be distributed.
func (b *Backend) Distribute(ctx context.Context) error {
	if b.store.File != nil {
		return errors.New("only PostgreSQL with the extension citus distributes tables")
	}
	_, err := withSQL(b, b.store.Pool, func(db *sql.DB, _ schema.Engine) (struct{}, error) { return struct{}{}, schema.Distribute(ctx, db) })
	b.store.Pool.Reset() // older connections do not tell the nodes which namespace they are about
	return err
}
