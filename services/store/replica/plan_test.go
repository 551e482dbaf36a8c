package replica

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

// TestPollsReadAnIndex: after an import the log is long, and it is polled forty times a second.
func TestPollsReadAnIndex(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var snapshot string
	if _, err := pool.Exec(t.Context(), `INSERT INTO memory.log (namespace, memory_id, part) SELECT 'default', gen_random_uuid(), 'm' FROM generate_series(1, 50000)`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `ANALYZE memory.log`); err != nil { // as the server does by itself after an import
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), `SELECT pg_current_snapshot()::text`).Scan(&snapshot); err != nil {
		t.Fatal(err)
	}
	for name, query := range map[string]struct {
		statement string
		args      []any
	}{
		"poll":  {pollPostgres, []any{[]string{"default"}, []string{snapshot}, []int64{1}, []string{""}}},
		"since": {sincePostgres, []any{"default", snapshot}},
	} {
		rows, err := postgres.In(pool, postgres.AllNamespaces).Searching(lookingUp).Query(t.Context(), "EXPLAIN "+query.statement, query.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan on log l") || !strings.Contains(plan, "log_by_writer") {
			t.Errorf("%s: got a plan that reads the whole log, want its index:\n%s", name, plan)
		}
	}
}
