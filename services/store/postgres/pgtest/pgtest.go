// Package pgtest gives each test a PostgreSQL database of its own.
//  1. The first test of a schema version migrates a template database; it stays on the server for later runs.
//  2. New copies the template for each test, which takes a fraction of a migration's time.
//  3. The database is dropped when the test ends.
//
// If the server is the coordinator of a Citus cluster, a database is one on each node, and its tables are distributed.
//
// Tests fail if the server is not configured; they do not skip.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Variable is the environment variable with the URL of a server on which tests may create databases.
const Variable = "TRISKELE_TEST_POSTGRES"

// New creates a database with the whole schema and returns its connection URL. It is dropped when the test ends.
func New(t testing.TB) string {
	t.Helper()
	return create(t, "TEMPLATE "+migrated(t))
}

// Empty creates a database and returns its connection URL. It is dropped when the test ends.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

// server returns the connection URL of the server. A missing one fails the test: a skip looks like a pass.
func server(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Fatalf("%s is not set; run the tests with `make test`, or under `tests/postgres.sh run`", Variable)
	}
	return server
}

func create(t testing.TB, options string) string {
	t.Helper()
	name := "t_" + uuid.New().String()
	for _, on := range append(workers(t), server(t)) {
		// Copying files takes a sixth of the processor time of copying pages through the log.
		execute(t, on, fmt.Sprintf("CREATE DATABASE %s STRATEGY file_copy %s", pgx.Identifier{name}.Sanitize(), options))
		t.Cleanup(func() { execute(t, on, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", pgx.Identifier{name}.Sanitize())) })
	}
	return named(t, server(t), name)
}

// Distributed reports whether the server is the coordinator of a Citus cluster.
func Distributed(t testing.TB) bool { return len(workers(t)) > 0 }

// workers returns the connection URLs of the coordinator's worker nodes; nil for one PostgreSQL.
func workers(t testing.TB) (urls []string) {
	t.Helper()
	conn := connect(t.Context(), t, server(t))
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var citus bool
	if err := conn.QueryRow(t.Context(), `SELECT to_regclass('pg_dist_node') IS NOT NULL`).Scan(&citus); err != nil {
		t.Fatal(err)
	}
	if !citus {
		return nil
	}
	rows, err := conn.Query(t.Context(), `SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY nodeid`)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		u, err := url.Parse(server(t))
		if err != nil {
			t.Fatal(err)
		}
		u.Host = host
		urls = append(urls, u.String())
	}
	return urls
}

func connect(ctx context.Context, t testing.TB, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatalf("connect to the test server: %v", err)
	}
	return conn
}

// execute runs statements on a new connection: a test may crash the server between two calls.
func execute(t testing.TB, database string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := connect(ctx, t, database)
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		for inUse(err) && ctx.Err() == nil { // Citus looks after a database now and then
			time.Sleep(50 * time.Millisecond)
			_, err = conn.Exec(ctx, statement)
		}
		if err != nil {
			t.Fatalf("test database: %v", err)
		}
	}
}

func inUse(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "55006"
}

func named(t testing.TB, server, database string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	u.Path = "/" + database
	return u.String()
}
