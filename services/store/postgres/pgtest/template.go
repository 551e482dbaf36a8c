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
	nodes := append(workers(t), server(t))
	name, hash := "", sha256.New()
	if len(nodes) > 1 {
		_, _ = io.WriteString(hash, schema.Distribution)
	}
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
	if err := locking.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)`, name).Scan(&whole); err != nil || whole {
		return name, err
	}
	for _, node := range nodes {
		if err := run(ctx, node, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`, `CREATE DATABASE `+name); err != nil {
			return "", err
		}
		if len(nodes) > 1 {
			if err := run(ctx, named(t, node, name), `CREATE EXTENSION citus`, `CREATE EXTENSION vector`); err != nil {
				return "", err
			}
		}
	}
	if err := withSQL(ctx, named(t, server(t), name), func(db *sql.DB) error {
		_, err := schema.Up(ctx, db, schema.Postgres)
		return err
	}); err != nil {
		return "", err
	}
	if len(nodes) > 1 {
		if err := distribute(ctx, t, name, nodes); err != nil {
			return "", err
		}
	}
	for _, node := range nodes {
		if err := run(ctx, node, `ALTER DATABASE `+name+` IS_TEMPLATE true ALLOW_CONNECTIONS false`,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '`+name+`'`); err != nil {
			return "", err
		}
	}
	return name, nil
}

// distribute makes the last of the nodes the coordinator of the others, and distributes a database's tables.
func distribute(ctx context.Context, t testing.TB, database string, nodes []string) error {
	coordinator := nodes[len(nodes)-1]
	statements := []string{`ALTER DATABASE ` + database + ` SET citus.shard_count = 4`}
	for i, node := range append([]string{coordinator}, nodes[:len(nodes)-1]...) {
		config, err := pgx.ParseConfig(node)
		if err != nil {
			return err
		}
		call := `citus_add_node`
		if i == 0 {
			call = `citus_set_coordinator_host`
		}
		statements = append(statements, fmt.Sprintf(`SELECT %s('%s', %d)`, call, config.Host, config.Port))
	}
	if err := run(ctx, named(t, coordinator, database), statements...); err != nil {
		return err
	}
	return withSQL(ctx, named(t, coordinator, database), func(db *sql.DB) error { return schema.Distribute(ctx, db) })
}

// run runs statements on a connection of their own.
func run(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
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
