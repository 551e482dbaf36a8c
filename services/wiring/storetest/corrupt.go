package storetest

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/schema"
)

// Damage is a way for a stored memory to become unreadable: what is assigned to columns of its row on each engine, and
// the column that an error then names, if it can.
type Damage struct{ Column, Postgres, SQLite string }

// Damages are the kinds of damage that the databases themselves let happen.
var Damages = []Damage{
	{"tags", `tags = ARRAY['fine', NULL]`, `tags = '["fine", {"a": 1}]'`},
	{"links", `links = '[{"target": "nobody"}]'`, `links = '[{"target": "nobody"}]'`},
	{"metadata", `metadata = '{"n": 1e400}'`, `metadata = '{"n": 1e400}'`},
	{"expires_at", `expires_at = 'infinity'`, ``},
	{"metadata", ``, `metadata = 'no JSON'`},
	{"content", ``, `content = CAST(x'fffe' AS TEXT)`},
}

// Of returns the assignments for an engine, "" if the damage cannot happen there.
func (d Damage) Of(engine schema.Engine) string {
	if engine == schema.Postgres {
		return d.Postgres
	}
	return d.SQLite
}

// Corrupt changes a memory behind the stores' back, and behind the constraints' where the engine allows that.
func (f *Fixture) Corrupt(t testing.TB, id uuid.UUID, assignments string) {
	t.Helper()
	ctx := context.Background()
	if f.Engine == schema.Postgres {
		if _, err := f.Pool.Exec(ctx, `UPDATE memory.memories SET `+assignments+` WHERE id = $1`, id); err != nil {
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
