// Package pgtest gives each test a PostgreSQL database of its own.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/services/postgres"
	"github.com/triskele/triskele/services/schema"
)

// Variable names the environment variable with the connection URL of a server the tests may create databases on.
const Variable = "TRISKELE_TEST_POSTGRES"

// New creates a database with the whole schema and returns its connection URL. It is dropped when the test ends.
func New(t testing.TB) string {
	t.Helper()
	database := Empty(t)
	ctx := context.Background()
	process, err := telemetry.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(ctx, database, process.Service("pgtest"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := postgres.SQL(pool)
	defer func() { _ = db.Close() }()
	if _, err := schema.Up(ctx, db, schema.Postgres); err != nil {
		t.Fatal(err)
	}
	return database
}

// Empty creates a database and returns its connection URL. It is dropped when the test ends. A missing server fails the
// test: a skip would look like a pass.
func Empty(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Fatalf("%s is not set; run the tests with `make test`, or under `tests/postgres.sh run`", Variable)
	}
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connect to the test server: %v", err)
	}
	name := "t_" + uuid.New().String()
	if _, err := admin.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s", pgx.Identifier{name}.Sanitize())); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := admin.Exec(ctx, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", pgx.Identifier{name}.Sanitize())); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
		_ = admin.Close(ctx)
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	u.Path = "/" + name
	return u.String()
}
