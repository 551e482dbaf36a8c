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
)

// Variable names the environment variable with the connection URL of a server the tests may create databases on.
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

// server is the connection URL of the server. Its absence fails the test: a skip would look like a pass.
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
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server(t))
	if err != nil {
		t.Fatalf("connect to the test server: %v", err)
	}
	name := "t_" + uuid.New().String()
	if _, err := admin.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s %s", pgx.Identifier{name}.Sanitize(), options)); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := admin.Exec(ctx, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", pgx.Identifier{name}.Sanitize())); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
		_ = admin.Close(ctx)
	})
	return named(t, name)
}

// named returns the connection URL of one of the server's databases.
func named(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(server(t))
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	u.Path = "/" + database
	return u.String()
}
