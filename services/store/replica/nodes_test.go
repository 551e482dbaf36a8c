package replica

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/sqldb"
)

func openPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	tel, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), pgtest.New(t), tel.Service("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// counted counts snapshots.
type counted struct {
	*postgresSource
	snapshots int
}

func (c *counted) snapshot(ctx context.Context, namespace string, whole bool, fn func(Tx) error) error {
	c.snapshots++
	return c.postgresSource.snapshot(ctx, namespace, whole, fn)
}

func change(t *testing.T, pool *pgxpool.Pool, namespace string) {
	t.Helper()
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO memory.namespaces (name) VALUES ($1) ON CONFLICT DO NOTHING`, namespace)
	batch.Queue(`SELECT memory.note($1, ARRAY[gen_random_uuid()], '{m}')`, namespace)
	if err := postgres.In(pool, namespace).Send(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

// TestUnchangedNeedsNoSnapshotPostgres: an image that is only old is asked about by one call, which costs a part of a snapshot.
func TestUnchangedNeedsNoSnapshotPostgres(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	change(t, pool, "n")
	set := New(t.Context(), sqldb.Store{Pool: pool}, Config{Memory: 64}, noop.Meter{}, slog.New(slog.DiscardHandler))
	set.Register("none", Records, func(*Rows) Part { return nothing{} })
	source := &counted{postgresSource: set.source.(*postgresSource)}
	set.source = source
	search := func() int {
		t.Helper()
		before := source.snapshots
		view, err := set.View(t.Context(), "n", Need{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		view.Close()
		return source.snapshots - before
	}
	search() // loads
	if got := search(); got != 0 {
		t.Errorf("a search of what has not changed took %d snapshots, want none", got)
	}
	change(t, pool, "n")
	if got := search(); got != 1 {
		t.Errorf("a search of what has changed took %d snapshots, want 1", got)
	}
}

type nothing struct{}

func (nothing) Read(context.Context, Tx, string, []uuid.UUID) (func(), error) { return nil, nil }
func (nothing) Drop(uint32)                                                   {}
func (nothing) Bytes() int64                                                  { return 0 }

// TestPollOfNodesPostgres: changes are found wherever the nodes are said to be, and where they have moved to since.
func TestPollOfNodesPostgres(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	source := &postgresSource{pool: pool}
	var names []string
	for i := range 9 {
		names = append(names, fmt.Sprintf("n%d", i))
		change(t, pool, names[i])
	}
	at := make([]position, len(names))
	poll := func() (changed []string) {
		t.Helper()
		are, err := source.poll(t.Context(), names, at)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			if are[i] {
				changed = append(changed, name)
			}
			found, err := source.positions(t.Context(), []string{name})
			if err != nil {
				t.Fatal(err)
			}
			at[i] = found[name]
		}
		return changed
	}
	if got := poll(); len(got) != len(names) {
		t.Errorf("got changes of %q at first, want of all", got)
	}
	for _, moved := range []bool{false, true} {
		if moved {
			for i, name := range names {
				source.placed.nodes[name] = i % 3
			}
		}
		change(t, pool, "n4")
		if got := poll(); len(got) != 1 || got[0] != "n4" {
			t.Errorf("moved %t: got changes of %q, want of n4", moved, got)
		}
	}
}

// TestIdlePollsPostgres: positions are not read again until something is committed, and never from what is said of another placement.
func TestIdlePollsPostgres(t *testing.T) {
	t.Parallel()
	source := &postgresSource{pool: openPool(t)}
	change(t, source.pool, "n")
	names, at := []string{"n"}, make([]position, 1)
	poll := func() bool {
		t.Helper()
		changed, err := source.poll(t.Context(), names, at)
		if err != nil {
			t.Fatal(err)
		}
		return changed[0]
	}
	const mark = -7
	idle := false
	for range 1000 { // other tests commit on this server, too
		poll()
		node := source.placed.nodes["n"]
		source.polls[node].found["n"] = position{last: mark}
		if poll(); source.polls[node].found["n"].last == mark {
			idle = true
			break
		}
	}
	if !idle {
		t.Error("of 1000 pairs of polls none took what the one before had found")
	}
	at[0] = position{last: mark}
	change(t, source.pool, "n")
	if !poll() {
		t.Error("a change after an idle poll: got none")
	}
	source.placed.placements = mark
	if poll(); len(source.polls) > 0 {
		t.Errorf("after shards moved: got %d kept polls, want none", len(source.polls))
	}
	if poll(); source.placed.placements == mark || len(source.polls) != 1 {
		t.Errorf("the poll after: got placement %d and %d kept polls, want another and 1", source.placed.placements, len(source.polls))
	}
	source.pool.Close()
	if _, err := source.poll(t.Context(), names, at); err == nil || len(source.polls) > 0 {
		t.Errorf("a poll that failed: got error %v and %d kept polls, want an error and none", err, len(source.polls))
	}
}

// TestCallsRunOnTheNodePostgres holds that a cluster runs each call of the functions on a node, and in no transaction block.
func TestCallsRunOnTheNodePostgres(t *testing.T) {
	t.Parallel()
	if !pgtest.Distributed(t) {
		t.Skip("this server is no cluster")
	}
	pool := openPool(t)
	change(t, pool, "n")
	for _, call := range []string{`memory.revision('n')`, `memory.behind('n', 'dense', 1)`, `memory.committed('n')`, `memory.positions('n', '{n}')`} {
		rows, err := pool.Query(t.Context(), "EXPLAIN (VERBOSE) SELECT * FROM "+call)
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if plan := strings.Join(lines, "\n"); err != nil || !strings.Contains(plan, "Citus Adaptive") || !strings.Contains(plan, "Task Count: 1") {
			t.Errorf("%s: got a plan that runs it on the coordinator, want on a node: %v\n%s", call, err, plan)
		}
	}
}
