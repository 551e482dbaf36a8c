package dense_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func ids(hits []leg.Hit) []uuid.UUID {
	ids := make([]uuid.UUID, len(hits))
	for i, hit := range hits {
		ids[i] = hit.ID
	}
	return ids
}

func TestIndexFindsWhatIsNearest(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed())
	seed(t, f, "ns", 3000)
	rng := rand.New(rand.NewPCG(3, 3))
	queries := make([]string, 50)
	exact := make([][]uuid.UUID, len(queries))
	for i := range queries {
		queries[i] = sentence(rng, 6)
		exact[i] = ids(search(t, s, queries[i], asVector(t, queries[i], nil)).Hits)
	}
	through := indexing(t, f, embed.NewHashed(), 0)
	found := 0
	for i, text := range queries {
		hits := search(t, through, text, asVector(t, text, nil)).Hits
		if !slices.IsSortedFunc(hits, func(a, b leg.Hit) int { return int(1e6 * (b.Score - a.Score)) }) {
			t.Errorf("query %d: not ordered by score", i)
		}
		for _, id := range ids(hits) {
			if slices.Contains(exact[i], id) {
				found++
			}
		}
	}
	if recall := float64(found) / float64(10*len(queries)); recall < 0.95 {
		t.Errorf("recall@10 is %.3f, want 0.95", recall)
	} else {
		t.Logf("recall@10 %.3f", recall)
	}
	// A connection reports what it used when it has ended, which nothing here can wait for.
	f.Pool.Reset()
	for begun := time.Now(); count(t, f, `SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'vectors_%_near_1'`, "") == 0; {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the index was not used")
		}
	}
}

func TestIndexUnderFilter(t *testing.T) {
	t.Parallel()
	for name, tuples := range map[string]int{"the index finds all": 0, "the index gives up": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.Postgres(t)
			s := mustOpen(t, f, embed.NewHashed())
			var rare []uuid.UUID
			for _, r := range seed(t, f, "ns", 1000) {
				if len(r.Tags) > 0 {
					rare = append(rare, r.ID)
				}
			}
			narrow := asVector(t, "soil sensor battery", func(q *leg.Query) { q.Depth, q.Filter = 50, record.Filter{TagsAny: []string{"rare"}} })
			half := asVector(t, "soil sensor battery", func(q *leg.Query) {
				q.Filter = record.Filter{CreatedFrom: time.Date(2025, 1, 1, 0, 0, 500, 0, time.UTC)}
			})
			exact, exactHalf := search(t, s, "soil sensor battery", narrow).Hits, search(t, s, "soil sensor battery", half).Hits
			through := indexing(t, f, embed.NewHashed(), tuples)
			hits := search(t, through, "soil sensor battery", narrow).Hits
			if !slices.Equal(ids(hits), ids(exact)) || len(hits) != len(rare) {
				t.Errorf("found %d through the index and %d without, want %d alike", len(hits), len(exact), len(rare))
			}
			if hits := search(t, through, "soil sensor battery", half).Hits; !slices.Equal(ids(hits), ids(exactHalf)) || len(hits) != 10 {
				t.Errorf("found\n%v through the index and\n%v without", hits, exactHalf)
			}
		})
	}
}

// A namespace that shares its partition with a larger one must be found whole.
func TestIndexOfCrowdedPartition(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed())
	var neighbour string
	if err := f.Pool.QueryRow(t.Context(), `
		SELECT name FROM generate_series(1, 1000) i, format('ns%s', i) name
		WHERE satisfies_hash_partition('dense.vectors'::regclass, 8, (SELECT r FROM generate_series(0, 7) r WHERE satisfies_hash_partition('dense.vectors'::regclass, 8, r, 'ns'::text)), name::text)
		LIMIT 1`).Scan(&neighbour); err != nil {
		t.Fatal(err)
	}
	seed(t, f, neighbour, 1000)
	seed(t, f, "ns", 40)
	deep := func(q *leg.Query) { q.Depth = 50 }
	exact := search(t, s, "soil sensor battery", deep).Hits
	through := indexing(t, f, embed.NewHashed(), 200)
	if hits := search(t, through, "soil sensor battery", deep).Hits; len(hits) != 40 || !slices.Equal(ids(hits), ids(exact)) {
		t.Errorf("found %d through the index and %d without, want 40 alike", len(hits), len(exact))
	}
}

// A memory that is forgotten, or turned sensitive, while its vector is being written.
func TestIndexingRacesWithTheRecord(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"forgotten": `DELETE FROM memory.memories WHERE namespace = $1 AND id = $2`,
		"sensitive": `UPDATE memory.memories SET sensitive = true, revision = revision + 1 WHERE namespace = $1 AND id = $2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.Postgres(t)
			s := mustOpen(t, f, embed.NewHashed())
			r := storetest.Record("ns", "the safe is in the hall", nil)
			f.Insert(t, r)
			tx, err := f.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), statement, r.Namespace, r.ID); err != nil {
				t.Fatal(err)
			}
			indexed := make(chan error, 1)
			go func() { indexed <- s.Index(t.Context(), []record.Record{r}) }()
			for count(t, f, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`, "") == 0 {
				select {
				case err := <-indexed:
					t.Fatalf("indexing did not wait for the other transaction: %v", err)
				default:
				}
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-indexed; err != nil {
				t.Errorf("indexing failed: %v", err)
			}
			if n := vectors(t, f); n != 0 {
				t.Errorf("%d vectors are stored, want none", n)
			}
		})
	}
}

// TestIndexIsBuiltWhereItIsUsed: no model has an index until a namespace is too large for memory. From then on, other models get
// one, too, whatever a killed reembed has left.
func TestIndexIsBuiltWhereItIsUsed(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	s := mustOpen(t, f, embed.NewHashed())
	records := seed(t, f, "ns", 500)
	search(t, s, "soil", nil)
	if n := count(t, f, `SELECT count(*) FROM pg_indexes WHERE schemaname = 'dense' AND indexdef LIKE '%hnsw%'`, ""); n != 0 {
		t.Errorf("%d indexes although all is in memory", n)
	}
	before := indexing(t, f, embed.NewHashed(), 0)

	died := errors.New("killed")
	e := &watched{Embedder: small(t), before: func([]string) error { return died }}
	if _, err := models(f).Reembed(t.Context(), e, 0, ignore); !errors.Is(err, died) || indexed(t, f, 2) {
		t.Fatalf("the first attempt: %v, index valid %v", err, indexed(t, f, 2))
	}
	for _, statement := range []string{
		`CREATE INDEX vectors_3_near_2 ON dense.vectors_3 USING hnsw ((embedding::halfvec(128)) halfvec_ip_ops) WITH (m = 16, ef_construction = 64) WHERE model_id = 2`,
		`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'dense.vectors_3_near_2'::regclass`,
	} {
		if _, err := f.Pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	reembed(t, f, small(t))
	if !indexed(t, f, 2) {
		t.Error("the index is not valid")
	}
	after := withoutMemory(t, f, small(t))
	after.ExactUpTo = 0
	if hits := search(t, after, records[0].Content, nil).Hits; len(hits) != 10 || hits[0].ID != records[0].ID {
		t.Errorf("found %v", hits)
	}
	if len(search(t, before, records[0].Content, nil).Hits) != 10 {
		t.Error("the retired model finds nothing")
	}
	if _, err := models(f).Prune(t.Context(), ignore); err != nil {
		t.Fatal(err)
	}
	if n := count(t, f, `SELECT count(*) FROM pg_indexes WHERE schemaname = 'dense' AND indexdef LIKE '%model_id = 1%'`, ""); n != 0 {
		t.Errorf("%d indexes of the removed model are left", n)
	}
}

// cold is a part that is never loaded.
type cold struct{}

func (cold) Read(ctx context.Context, _ replica.Tx, _ string, _ []uuid.UUID) (func(), error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (cold) Drop(uint32)  {}
func (cold) Bytes() int64 { return 0 }

// TestColdAndSlow: a search in the database that has too little time for all vectors answers with some.
func TestColdAndSlow(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	images := f.ImagesWith(t, replica.DefaultConfig())
	images.Register("cold", replica.Records, func(*replica.Rows) replica.Part { return cold{} })
	store, err := openWith(t, f, images, embed.NewHashed())
	if err != nil {
		t.Fatal(err)
	}
	seed(t, f, "ns", 30_000)
	store.(*dense.Leg).ExactUpTo = 100
	patience := 20 * time.Millisecond
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		result, err := store.Search(ctx, leg.Query{Namespace: "ns", Text: "soil budget train", Depth: 10})
		cancel()
		switch {
		case err != nil: // too little for some, even
			patience += patience / 5
			continue
		case len(result.Hits) != 10:
			t.Fatalf("got %d hits within %v, want 10", len(result.Hits), patience)
		case result.State == triskelev1.LegState_LEG_STATE_TRUNCATED:
			return
		}
		patience -= patience / 4 // it was enough for all
	}
	t.Error("no search was cut short within a minute")
}
