package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Login creates a user with the role of a service, as an operator does, and returns the connection URL of the database
// for it. The user is dropped when the test ends.
func Login(t testing.TB, database, service string) string {
	t.Helper()
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatalf("connect to the test's database: %v", err)
	}
	name, password := "t_"+service+"_"+uuid.New().String(), uuid.New().String()
	user := pgx.Identifier{name}.Sanitize()
	if _, err := admin.Exec(ctx, fmt.Sprintf("CREATE USER %s PASSWORD '%s' IN ROLE %s", user, password, pgx.Identifier{"triskele_" + service}.Sanitize())); err != nil {
		t.Fatalf("create a user for %s: %v", service, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := admin.Exec(ctx, "DROP USER "+user); err != nil {
			t.Errorf("drop the test's user: %v", err)
		}
		_ = admin.Close(ctx)
	})
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	query := u.Query()
	query.Del("user")
	query.Del("password")
	u.RawQuery = query.Encode()
	return u.String()
}
