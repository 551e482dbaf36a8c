package pgtest

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Login creates a user with the role of a service, as an operator does, and returns a connection URL with its name.
// The user is dropped when the test ends.
func Login(t testing.TB, database, service string) string {
	t.Helper()
	return login(t, database, "triskele_"+service)
}

// Reader is Login for a user who may read every table, and on whom row security is binding.
func Reader(t testing.TB, database string) string {
	t.Helper()
	return login(t, database, "pg_read_all_data")
}

func login(t testing.TB, database, role string) string {
	t.Helper()
	name, password := "t_"+role+"_"+uuid.New().String(), uuid.New().String()
	user := pgx.Identifier{name}.Sanitize()
	execute(t, database, fmt.Sprintf("CREATE USER %s PASSWORD '%s' IN ROLE %s", user, password, pgx.Identifier{role}.Sanitize()))
	t.Cleanup(func() { execute(t, database, "DROP USER "+user) })
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
