package dense_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestMemoryFollowsTransactions: transactions that write vectors begin, end and are given up in any order, and after each step the
// vectors in memory find what comparing with all that are stored finds.
func TestMemoryFollowsTransactions(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	kept, stored := mustOpen(t, f, embed.NewHashed()).(*dense.Postgres), mustOpen(t, f, embed.NewHashed()).(*dense.Postgres)
	stored.MaxBytes = 1
	records := seed(t, f, "ns", 250) // with what is written below fewer than a search takes in: a standby's snapshot may be from before them
	if err := kept.Keep("ns"); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	type transaction struct {
		pgx.Tx
		mine []uuid.UUID // memories that only it writes
	}
	var open []transaction
	free := rng.Perm(len(records))
	end := func(i int) {
		var err error
		if rng.IntN(4) == 0 {
			err = open[i].Rollback(t.Context())
		} else {
			err = open[i].Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		open = slices.Delete(open, i, i+1)
	}
	answered := 0
	for range 200 {
		switch n := rng.IntN(10); {
		case n < 3 && len(open) < 3 && len(free) >= 5: // a pool has four connections
			tx, err := f.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			begun := transaction{Tx: tx}
			for _, i := range free[:5] {
				begun.mine = append(begun.mine, records[i].ID)
			}
			open, free = append(open, begun), free[5:]
		case n < 8 && len(open) > 0:
			tx := open[rng.IntN(len(open))]
			memory, other := tx.mine[rng.IntN(5)], records[rng.IntN(len(records))].ID
			for _, statement := range [][]string{
				{`DELETE FROM dense.vectors WHERE memory_id = $1 OR memory_id = $1 AND $2::uuid IS NULL`},
				{`UPDATE dense.vectors SET embedding = coalesce((SELECT embedding FROM dense.vectors WHERE memory_id = $2), embedding) WHERE memory_id = $1`},
				{`DELETE FROM dense.vectors WHERE memory_id = $1 AND $2 <> $1`, `INSERT INTO dense.vectors (namespace, memory_id, model_id, revision, embedding)
					SELECT namespace, $1, model_id, revision, embedding FROM dense.vectors WHERE memory_id = $2`},
			}[rng.IntN(3)] {
				if _, err := tx.Exec(t.Context(), statement, memory, other); err != nil {
					t.Fatal(err)
				}
			}
		case len(open) > 0:
			end(rng.IntN(len(open)))
		}
		if rng.IntN(5) == 0 {
			kept.SeenByStandby("ns")
		}
		q := leg.Query{Namespace: "ns", Text: sentence(rng, 5), Depth: 40}
		if rng.IntN(3) == 0 {
			q.Filter = record.Filter{CreatedFrom: records[rng.IntN(100)].CreatedAt}
		}
		found, could, err := kept.SearchInMemory(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if !could {
			continue
		}
		answered++
		want, err := stored.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		// Which comes last of those that differ by a unit is up to who adds up.
		if !slices.EqualFunc(found, want.Hits, func(a, b leg.Hit) bool { return math.Abs(a.Score-b.Score) < 2.5/1e6 }) {
			t.Fatalf("in memory %v, stored %v", found, want.Hits)
		}
	}
	if answered < 150 || kept.InMemory("ns") <= len(records) {
		t.Errorf("%d of 200 answered in memory, where %d vectors are", answered, kept.InMemory("ns"))
	}
}

// TestMemoryKeepsToTheMinimum: a hit whose score is just the least that is asked for is found, although PostgreSQL and what is in
// memory may add up to scores that differ by a unit.
func TestMemoryKeepsToTheMinimum(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.Postgres)
	seed(t, f, "ns", 500)
	if err := s.Keep("ns"); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range 30 {
		text := sentence(rng, 5)
		for i, hit := range search(t, s, text, nil).Hits {
			hits := search(t, s, text, func(q *leg.Query) { q.MinScore = &hit.Score }).Hits
			if len(hits) <= i || hits[len(hits)-1].Score < hit.Score {
				t.Fatalf("%d hits that score %v or more, want %d or more", len(hits), hit.Score, i+1)
			}
		}
	}
}

// TestMemoryLooksUpFew: where most namespaces are small, a large one is not read to look up a few of its vectors.
func TestMemoryLooksUpFew(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	config := f.Pool.Config()
	config.MaxConns = 1 // whose statistics are those of the searches
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := dense.NewPostgres(t.Context(), pool, nil, embed.NewHashed(), f.Queue, dense.Config{})
	if err != nil {
		t.Fatal(err)
	}
	records := seed(t, f, "ns", 1000)
	for _, statement := range []string{
		`INSERT INTO memory.namespaces (name) SELECT 'small' || i FROM generate_series(1, 500) i`,
		`INSERT INTO memory.memories (namespace, id, content, title, expanded_keywords, tags, category, metadata, importance, sensitive, source, created_at, updated_at, revision)
			SELECT 'small' || i, id, content, title, expanded_keywords, tags, category, metadata, importance, sensitive, source, created_at, updated_at, revision
			FROM generate_series(1, 500) i, (SELECT * FROM memory.memories WHERE namespace = 'ns' LIMIT 1) m`,
		`INSERT INTO dense.vectors (namespace, memory_id, model_id, revision, embedding)
			SELECT m.namespace, m.id, 1, 1, v.embedding FROM memory.memories m JOIN dense.vectors v ON v.memory_id = m.id WHERE m.namespace LIKE 'small%' AND v.namespace = 'ns'`,
		`ANALYZE memory.memories, dense.vectors`,
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Keep("ns"); err != nil {
		t.Fatal(err)
	}
	f.Pool.Reset() // a connection may tell only at its end what it has read
	for begun, others := time.Now(), 1; others > 0; {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d connections are still open", others)
		}
	}
	read := func() (rows int64) {
		if _, err := pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			t.Fatal(err)
		}
		// What other transactions of the server have the question for new vectors read is left out.
		if err := pool.QueryRow(t.Context(), `SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname IN ('dense', 'memory')
			AND relname ~ '^(vectors|memories)_' AND indexrelname !~ '_change_idx$'`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for name, filter := range map[string]record.Filter{"all": {}, "since": {CreatedFrom: records[0].CreatedAt}} {
		const searches, depth = 10, 10
		rng, before := rand.New(rand.NewPCG(10, 10)), read()
		for range searches {
			hits, could, err := s.SearchInMemory(t.Context(), leg.Query{Namespace: "ns", Text: sentence(rng, 5), Depth: depth, Filter: filter})
			if err != nil || !could || len(hits) != depth {
				t.Fatalf("%s: %d hits, in memory %v, %v", name, len(hits), could, err)
			}
		}
		rows := read() - before
		for begun := time.Now(); rows < 2*searches*depth; rows = read() - before {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s: only %d rows are said to be read", name, rows)
			}
		}
		if rows > 10*searches*depth {
			t.Errorf("%s: %d rows are read for %d hits", name, rows, searches*depth)
		}
	}
}

// TestMemoryIsEarned: a namespace that is searched again and again is read into memory, unless there is no room for it.
func TestMemoryIsEarned(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	stores := map[bool]*dense.Postgres{true: mustOpen(t, f, embed.NewHashed()).(*dense.Postgres), false: mustOpen(t, f, embed.NewHashed()).(*dense.Postgres)}
	seed(t, f, "ns", 600)
	for room, s := range stores {
		if !room {
			s.MaxBytes = 1000
		}
		rng, q := rand.New(rand.NewPCG(8, 8)), leg.Query{Namespace: "ns", Depth: 10}
		for begun, n := time.Now(), 0; (s.InMemory("ns") < 600) == room && (room || n < 50); n++ {
			q.Text = sentence(rng, 5)
			if result, err := s.Search(t.Context(), q); err != nil || len(result.Hits) != 10 {
				t.Fatalf("%d hits, %v", len(result.Hits), err)
			}
			if time.Since(begun) > time.Minute {
				t.Fatal("the vectors are not in memory")
			}
		}
		if _, could, err := s.SearchInMemory(t.Context(), q); could != room || err != nil {
			t.Errorf("room %v: answered in memory %v, %v", room, could, err)
		}
	}
}

// TestMemoryIsReadAnew: after a while, without what has been deleted.
func TestMemoryIsReadAnew(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.Postgres)
	records := seed(t, f, "ns", 100)
	if err := s.Keep("ns"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{records[0].ID}); err != nil {
		t.Fatal(err)
	}
	q := leg.Query{Namespace: "ns", Text: "soil sensor", Depth: 100}
	for begun, aged := time.Now(), false; s.InMemory("ns") != 99; {
		hits, could, err := s.SearchInMemory(t.Context(), q)
		if len(hits) != 99 || !could || err != nil {
			t.Fatalf("%d hits, in memory %v, %v", len(hits), could, err)
		}
		if !aged {
			s.Age("ns", time.Hour)
			aged = true
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the vectors are not read anew")
		}
	}
}

// TestMemoryGivesWayToMany: what has changed a lot is searched in the database until it has been read anew.
func TestMemoryGivesWayToMany(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.Postgres)
	records := seed(t, f, "ns", 700)
	if err := s.Keep("ns"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Pool.Exec(t.Context(), `UPDATE dense.vectors SET embedding = (SELECT embedding FROM dense.vectors WHERE memory_id = $1)`, records[0].ID); err != nil {
		t.Fatal(err)
	}
	s.Age("ns", time.Minute)
	q := leg.Query{Namespace: "ns", Text: records[0].Content, Depth: 700}
	all := func(hits []leg.Hit) bool {
		return len(hits) == 700 && hits[0].Score == hits[699].Score
	}
	if _, could, err := s.SearchInMemory(t.Context(), q); could || err != nil {
		t.Errorf("answered in memory: %v, %v", could, err)
	}
	for begun := time.Now(); ; {
		if result, err := s.Search(t.Context(), q); err != nil || !all(result.Hits) {
			t.Fatalf("%d hits, %v", len(result.Hits), err)
		}
		hits, could, err := s.SearchInMemory(t.Context(), q)
		if err != nil || could && !all(hits) {
			t.Fatalf("in memory: %d hits, %v", len(hits), err)
		}
		if could {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the vectors are not read anew")
		}
	}
}

// TestMemoryKeepsNamespacesApart: two namespaces are in memory, with memories of the same ids that the same transaction wrote. Each
// finds its own and takes in its own. Row-level security does not bind who owns the tables, so the predicates are alone here.
func TestMemoryKeepsNamespacesApart(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.Postgres)
	own := map[string]map[uuid.UUID]float64{} // importances
	add := func(namespace string, id uuid.UUID) {
		importance := float64(len(namespace)) / 10
		f.Insert(t, storetest.Record(namespace, "the soil sensor of "+namespace, func(r *record.Record) { r.ID, r.Importance = id, importance }))
		if own[namespace] == nil {
			own[namespace] = map[uuid.UUID]float64{}
		}
		own[namespace][id] = importance
	}
	for range 20 {
		id := uuid.Must(uuid.NewV7())
		add("ours", id)
		add("theirs", id)
	}
	f.Drain(t, "dense", s)
	if _, err := f.Pool.Exec(t.Context(), `UPDATE dense.vectors SET embedding = embedding`); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as they are read, and with what is taken in
		for namespace, importances := range own {
			if s.InMemory(namespace) == 0 {
				if err := s.Keep(namespace); err != nil {
					t.Fatal(err)
				}
			}
			hits, could, err := s.SearchInMemory(t.Context(), leg.Query{Namespace: namespace, Text: "soil sensor", Depth: 100})
			if err != nil || !could || len(hits) != len(importances) || s.InMemory(namespace) != len(importances) {
				t.Errorf("%s: %d hits among %d vectors in memory of %d memories; answered there %v, %v", namespace, len(hits), s.InMemory(namespace), len(importances), could, err)
			}
			for _, hit := range hits {
				if importance, ok := importances[hit.ID]; !ok || hit.Importance != importance {
					t.Errorf("%s: another's hit: %+v", namespace, hit)
				}
			}
		}
		add("ours", uuid.Must(uuid.NewV7()))
		add("theirs", uuid.Must(uuid.NewV7()))
		f.Drain(t, "dense", s)
	}
}

// TestMemoryAfterALossyFailover: the server that took over gives numbers of transactions again that were lost, and what they write
// is found.
func TestMemoryAfterALossyFailover(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s, c := mustOpen(t, f, embed.NewHashed()).(*dense.Postgres), corpus{}
	c.add(t, f, s, "before", "the cello lesson", nil)
	if err := s.Keep("ns"); err != nil {
		t.Fatal(err)
	}
	s.LoseWrites("ns", 1000)
	after := c.add(t, f, s, "after", "a cello concert", nil)
	result, err := s.Search(t.Context(), leg.Query{Namespace: "ns", Text: "a cello concert", Depth: 10})
	if err != nil || len(result.Hits) != 2 || result.Hits[0].ID != after.ID {
		t.Errorf("got %+v, %v, want both memories", result.Hits, err)
	}
	if got := s.InMemory("ns"); got != 0 {
		t.Errorf("got %d vectors in memory, want none of those that cannot be told from new ones", got)
	}
	if err := s.Keep("ns"); err != nil || s.InMemory("ns") != 2 {
		t.Errorf("got %d vectors in memory once they are read anew, %v, want 2", s.InMemory("ns"), err)
	}
}

// TestMemoryForgetsWhatIsEmpty: a namespace whose vectors are gone leaves nothing behind once they are read anew.
func TestMemoryForgetsWhatIsEmpty(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.Postgres)
	seed(t, f, "ns", 3)
	if err := s.Keep("ns"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Pool.Exec(t.Context(), `DELETE FROM dense.vectors`); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep("ns"); err != nil || s.Cached() != 0 {
		t.Errorf("got %d namespaces in memory, %v, want none", s.Cached(), err)
	}
}
