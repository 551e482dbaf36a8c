package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestOneTransaction holds that statements on a pool run in a transaction block where the server knows nodes of Citus, and in none
// elsewhere. A table with the name of Citus' own stands for an extension that the test's server lacks.
func TestOneTransaction(t *testing.T) {
	database := pgtest.New(t)
	open := func() *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), database+"&pool_max_conns=1", storetest.Telemetry(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	// The server takes no savepoint outside of a transaction block.
	inBlock := func(pool *pgxpool.Pool) bool {
		_, err := postgres.In(pool, "a").Exec(t.Context(), "SAVEPOINT block")
		return err == nil
	}
	pool := open()
	if !pgtest.Distributed(t) {
		if inBlock(pool) {
			t.Error("a statement has run in a transaction block on one PostgreSQL, want none")
		}
		if _, err := pool.Exec(t.Context(), "CREATE TABLE public.pg_dist_node ()"); err != nil {
			t.Fatal(err)
		}
		pool.Close()
		pool = open()
	}
	if !inBlock(pool) {
		t.Error("a statement has run in no transaction block where there are nodes, want one")
	}

	// It is set in the block, so nodes hear of it.
	if scans, err := value[string](t, postgres.In(pool, "a").Searching(map[string]string{"enable_seqscan": "off"}), "SHOW enable_seqscan"); err != nil || scans != "off" {
		t.Errorf("enable_seqscan is %q, %v, want off", scans, err)
	}

	var tell string
	if err := pool.QueryRow(t.Context(), "SHOW citus.propagate_set_commands").Scan(&tell); err != nil || tell != "local" {
		t.Errorf("citus.propagate_set_commands is %q, %v, want local: nodes hear of SET LOCAL", tell, err)
	}

	process := func() int {
		pid, err := value[int](t, postgres.In(pool, "a"), "SELECT pg_backend_pid()")
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	want := process()
	if _, err := value[int](t, postgres.In(pool, "a"), "SELECT 1 / $1::int", 0); err == nil {
		t.Error("a division by zero has succeeded")
	}
	if _, err := postgres.In(pool, "a").Exec(t.Context(), "SELECT 1 / $1::int", 0); err == nil {
		t.Error("a division by zero has succeeded")
	}
	if got := process(); got != want {
		t.Errorf("process %d of the server answers after an error, want %d: connections are kept", got, want)
	}

	batch := &pgx.Batch{}
	for _, name := range []string{"a", "b"} {
		batch.Queue("INSERT INTO memory.namespaces (name, created_at) VALUES ($1, now())", name)
	}
	if err := postgres.In(pool, postgres.AllNamespaces).Send(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	var stored int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM memory.namespaces WHERE name IN ('a', 'b')").Scan(&stored); err != nil || stored != 2 {
		t.Errorf("%d rows are committed, %v, want 2", stored, err)
	}
}

// TestCallRepeats: a cluster that does not run a function on its node refuses what it reads, as this function refuses to be called by
// a client that has said no namespace.
func TestCallRepeats(t *testing.T) {
	pool, err := postgres.Open(t.Context(), pgtest.New(t), storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	got, err := postgres.Call(t.Context(), pool, "a", "SELECT memory.scope()", nil, pgx.RowTo[string])
	if err != nil || len(got) != 1 || got[0] != "a" {
		t.Errorf("got %q, %v; want a", got, err)
	}
	if got, err := postgres.Call(t.Context(), pool, "a", "SELECT 1 / $1::int", []any{0}, pgx.RowTo[int]); err == nil {
		t.Errorf("got %d, want an error", got)
	}
}

// value returns the only value of a query.
func value[T any](t *testing.T, in postgres.Scoped, query string, args ...any) (one T, err error) {
	all, err := postgres.Query(t.Context(), in, query, args, pgx.RowTo[T])
	if len(all) == 1 {
		one = all[0]
	}
	return one, err
}
