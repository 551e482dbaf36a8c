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

// templateLock is the key of the advisory lock for making a template.
const templateLock = 0x7465_6d70_6c61_7465

// templates are the names of the templates known to exist, by server.
var templates = struct {
	sync.Mutex
	names map[string]string
}{names: map[string]string{}}

// migrated returns the name of an empty database with the whole schema. A copy takes a small part of the time of a
// migration. It stays on the server for all tests with the same migrations.
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
	// The lock belongs to a transaction: a pooler may give a session's lock to others.
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
	// Only a complete database is marked as a template.
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
