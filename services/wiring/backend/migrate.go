package backend

import (
	"context"
	"errors"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/schema"
)

// Migrate is schema.Up.
func (b *Backend) Migrate(ctx context.Context, tell ...func(schema.Step)) ([]schema.Step, error) {
	if b.store.Pool != nil {
		defer b.store.Pool.Reset() // older connections do not know the vector extension's types
	}
	return schema.Up(ctx, b.sql, b.engine, tell...)
}

// Plan is schema.Plan.
func (b *Backend) Plan(ctx context.Context) ([]schema.Planned, error) {
	return schema.Plan(ctx, b.sql, b.engine)
}

// Status is schema.Status.
func (b *Backend) Status(ctx context.Context) ([]schema.Step, error) {
	return schema.Status(ctx, b.sql, b.engine)
}

// Check is schema.Check, of the standby if there is one. It refuses a user from whom row security hides every memory: the database would
// look empty.
func (b *Backend) Check(ctx context.Context, tracks ...string) error {
	db, pool := b.sql, b.store.Standby.Or(b.store.Pool)
	if pool != b.store.Pool {
		db = postgres.SQL(pool)
		defer func() { _ = db.Close() }()
	}
	if err := schema.Check(ctx, db, b.engine, tracks...); err != nil || pool == nil {
		return err
	}
	var hidden bool
	err := pool.QueryRow(ctx, `SELECT row_security_active('memory.memories') AND NOT EXISTS (
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
	defer b.store.Pool.Reset() // older connections do not tell the nodes which namespace they are about
	return schema.Distribute(ctx, b.sql)
}
