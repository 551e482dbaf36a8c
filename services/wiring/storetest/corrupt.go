package storetest

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Damage makes a stored memory unreadable: the SQL assignments for each engine, and the column that the error then
// names, if any.
type Damage struct{ Column, Postgres, SQLite string }

// Damages are the kinds of damage that the databases allow.
var Damages = []Damage{
	{"tags", `tags = ARRAY['fine', NULL]`, `tags = '["fine", {"a": 1}]'`},
	{"links", `links = '[{"target": "nobody"}]'`, `links = '[{"target": "nobody"}]'`},
	{"metadata", `metadata = '{"n": 1e400}'`, `metadata = '{"n": 1e400}'`},
	{"expires_at", `expires_at = 'infinity'`, ``},
	{"metadata", ``, `metadata = 'no JSON'`},
	{"content", ``, `content = CAST(x'fffe' AS TEXT)`},
}

// Of returns the assignments for an engine, "" if it prevents the damage.
func (d Damage) Of(engine schema.Engine) string {
	if engine == schema.Postgres {
		return d.Postgres
	}
	return d.SQLite
}

// Corrupt changes a memory past the store, and past the constraints if the engine allows that.
func (f *Fixture) Corrupt(t testing.TB, id uuid.UUID, assignments string) {
	t.Helper()
	ctx := context.Background()
	if f.Engine == schema.Postgres {
		if err := f.Store().Write(ctx, "", func(tx sqldb.Tx) error {
			var namespace string
			err := tx.Postgres.QueryRow(ctx, `UPDATE memory.memories SET `+assignments+` WHERE id = $1 RETURNING namespace`, id).Scan(&namespace)
			tx.Note(namespace, string(replica.Records), id)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, statement := range []string{`PRAGMA ignore_check_constraints = 1`, `UPDATE memories SET ` + assignments + ` WHERE id = ?`, `PRAGMA ignore_check_constraints = 0`} {
		args := []any{id[:]}
		if statement[0] == 'P' {
			args = nil
		}
		if _, err := f.DB.Write.ExecContext(ctx, statement, args...); err != nil {
			t.Fatal(err)
		}
	}
}
