package pgtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/schema"
)

// templateLock names, among the server's advisory locks, the one of whoever makes a template.
const templateLock = 0x7465_6d70_6c61_7465

// templates are the names of this process's templates by server, once it knows that the server has them.
var templates = struct {
	sync.Mutex
	names map[string]string
}{names: map[string]string{}}

// migrated returns the name of a database that has the whole schema and nothing in it. Copying it takes a small part of
// the time that migrating an empty one does. It stays on the server, for whoever has the same migrations.
func migrated(t testing.TB) string {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	name, ok := templates.names[server(t)]
	if !ok {
		var err error
		if name, err = makeTemplate(context.Background(), t); err != nil {
			t.Fatalf("make a template of a test's database: %v", err)
		}
		templates.names[server(t)] = name
	}
	return name
}

func makeTemplate(ctx context.Context, t testing.TB) (string, error) {
	// A transaction has the lock, not a session: a pooler between them gives that to others.
	lock, err := pgx.Connect(ctx, server(t))
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close(ctx) }()
	locking, err := lock.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = locking.Rollback(ctx) }()
	if _, err := locking.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, templateLock); err != nil {
		return "", err
	}
	admin, err := pgx.Connect(ctx, server(t))
	if err != nil {
		return "", err
	}
	defer func() { _ = admin.Close(ctx) }()
	name, hash := "", sha256.New()
	if err := withSQL(ctx, server(t), func(db *sql.DB) error {
		steps, err := schema.Plan(ctx, db, schema.Postgres)
		for _, step := range steps {
			_, _ = io.WriteString(hash, step.SQL)
		}
		name = fmt.Sprintf("triskele_template_%x", hash.Sum(nil)[:12])
		return err
	}); err != nil {
		return "", err
	}
	// It is marked as a template only when it is whole.
	var whole bool
	if err := admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)`, name).Scan(&whole); err != nil || whole {
		return name, err
	}
	for _, statement := range []string{`DROP DATABASE IF EXISTS ` + name + ` WITH (FORCE)`, `CREATE DATABASE ` + name} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	if err := withSQL(ctx, named(t, name), func(db *sql.DB) error {
		_, err := schema.Up(ctx, db, schema.Postgres)
		return err
	}); err != nil {
		return "", err
	}
	_, err = admin.Exec(ctx, `ALTER DATABASE `+name+` IS_TEMPLATE true ALLOW_CONNECTIONS false`)
	return name, err
}

func withSQL(ctx context.Context, database string, fn func(*sql.DB) error) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, database, process.Service("pgtest"))
	if err != nil {
		return err
	}
	defer pool.Close()
	db := postgres.SQL(pool)
	defer func() { _ = db.Close() }()
	return fn(db)
}
