package replica

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
)

// TestFollowersReadAnIndex: after an import the log is long, and followers ask it for the few last changes.
func TestFollowersReadAnIndex(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	const changes = 50_000
	if _, err := pool.Exec(t.Context(), `INSERT INTO memory.log (namespace, memory_id, part, revision) SELECT 'default', gen_random_uuid(), 'm', n FROM generate_series(1, $1::int) n`, changes); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `ANALYZE memory.log`); err != nil { // as the server does by itself after an import
		t.Fatal(err)
	}
	in := postgres.In(pool, postgres.AllNamespaces).Searching(lookingUp)
	lines, err := postgres.Query(t.Context(), in, "EXPLAIN "+sincePostgres, []any{"default", changes - 10}, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	// A distributed table's indexes are named after its columns.
	if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan on log") || !strings.Contains(plan, "log_by_revision") && !strings.Contains(plan, "log_namespace_revision_idx") {
		t.Errorf("got a plan that reads the whole log, want its index:\n%s", plan)
	}
}
