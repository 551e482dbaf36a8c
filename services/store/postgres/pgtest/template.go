package pgtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/triskele/triskele/services/store/schema"
)

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
	name, known := templates.names[server(t)]
	if !known {
		name = makeTemplate(t)
		templates.names[server(t)] = name
	}
	return name
}

func makeTemplate(t testing.TB) string {
	t.Helper()
	ctx := context.Background()
	lock := connect(ctx, t, server(t))
	defer func() { _ = lock.Close(ctx) }() // ends the transaction
	// The lock belongs to a transaction: a pooler may give a session's lock to others.
	if _, err := lock.Exec(ctx, fmt.Sprintf(`BEGIN; SELECT pg_advisory_xact_lock(%d)`, templateLock)); err != nil {
		t.Fatal(err)
	}
	nodes := append(workers(t), server(t))
	hash := sha256.New()
	if len(nodes) > 1 {
		_, _ = io.WriteString(hash, schema.Distribution)
	}
	withSQL(t, server(t), func(db *sql.DB) error {
		steps, err := schema.Plan(ctx, db, schema.Postgres)
		for _, step := range steps {
			_, _ = io.WriteString(hash, step.SQL)
		}
		return err
	})
	name := fmt.Sprintf("triskele_template_%x", hash.Sum(nil)[:12])
	// Only a complete database is marked as a template.
	var whole bool
	if err := lock.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)`, name).Scan(&whole); err != nil {
		t.Fatal(err)
	}
	if whole {
		return name
	}
	for _, node := range nodes {
		execute(t, node, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`, `CREATE DATABASE `+name)
		if len(nodes) > 1 {
			execute(t, named(t, node, name), `CREATE EXTENSION citus`, `CREATE EXTENSION vector`)
		}
	}
	withSQL(t, named(t, server(t), name), func(db *sql.DB) error {
		_, err := schema.Up(ctx, db, schema.Postgres)
		return err
	})
	if len(nodes) > 1 {
		distribute(t, name, nodes)
	}
	for _, node := range nodes {
		execute(t, node, `ALTER DATABASE `+name+` IS_TEMPLATE true ALLOW_CONNECTIONS false`,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '`+name+`'`)
	}
	return name
}

// distribute makes the last of the nodes the coordinator of the others, and distributes a database's tables.
func distribute(t testing.TB, database string, nodes []string) {
	t.Helper()
	coordinator := nodes[len(nodes)-1]
	statements := []string{`ALTER DATABASE ` + database + ` SET citus.shard_count = 4`}
	for i, node := range append([]string{coordinator}, nodes[:len(nodes)-1]...) {
		config, err := pgx.ParseConfig(node)
		if err != nil {
			t.Fatal(err)
		}
		call := `citus_add_node`
		if i == 0 {
			call = `citus_set_coordinator_host`
		}
		statements = append(statements, fmt.Sprintf(`SELECT %s('%s', %d)`, call, config.Host, config.Port))
	}
	execute(t, named(t, coordinator, database), statements...)
	withSQL(t, named(t, coordinator, database), func(db *sql.DB) error { return schema.Distribute(context.Background(), db) })
}

func withSQL(t testing.TB, database string, fn func(*sql.DB) error) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	if err == nil {
		err = errors.Join(fn(db), db.Close())
	}
	if err != nil {
		t.Fatalf("make a template of a test's database: %v", err)
	}
}
