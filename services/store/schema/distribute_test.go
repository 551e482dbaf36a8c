package schema_test

import (
	"strings"
	"testing"

	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/schema"
)

// TestEveryTableFitsTheNodes holds what a distributed engine wants of tables, without one: the next migration may forget it.
func TestEveryTableFitsTheNodes(t *testing.T) {
	t.Parallel()
	db := database{t, schema.Postgres, pgtest.New(t)}.open()
	if got, err := schema.Unfit(t.Context(), db); err != nil || got != "" {
		t.Errorf("got %q, %v; want nothing that does not fit", got, err)
	}
	for _, statement := range []string{
		`CREATE TABLE graph.colours (name text PRIMARY KEY)`,
		`ALTER TABLE memory.index_queue ADD COLUMN ticket bigint`,
		`CREATE UNIQUE INDEX tickets ON memory.index_queue (ticket)`,
		`CREATE POLICY nested ON memory.log USING (namespace IN (SELECT name FROM memory.namespaces))`,
		`CREATE TABLE public.notes (name text REFERENCES memory.namespaces)`,
		`CREATE VIEW public.titles AS SELECT title FROM memory.memories`,
	} {
		exec(t, db, statement)
	}
	want := strings.Join([]string{
		"foreign key notes_name_fkey of table notes refers to it from outside", "index memory.tickets is unique without the namespace",
		"policy nested of table memory.log has a sub-select", "table graph.colours has no column namespace", "view titles reads table memory.memories",
	}, "; ")
	if got, err := schema.Unfit(t.Context(), db); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestOnePostgreSQLCannotBeDistributed(t *testing.T) {
	t.Parallel()
	if pgtest.Distributed(t) {
		t.Skip("this server is a cluster")
	}
	db := database{t, schema.Postgres, pgtest.New(t)}.open()
	if err := schema.Distribute(t.Context(), db); err == nil || !strings.Contains(err.Error(), "no extension citus") {
		t.Errorf("got error %v, want one that names the extension", err)
	}
}
