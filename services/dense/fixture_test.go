package dense_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"
	"github.com/x448/float16"

	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

type store interface {
	leg.Searcher
	leg.AsyncIndex
	queue.Indexer
}

func open(t testing.TB, f *storetest.Fixture, embedder embed.Embedder) (store, error) {
	t.Helper()
	return openWith(t, f, f.Images(t), embedder)
}

func openWith(t testing.TB, f *storetest.Fixture, images *replica.Set, embedder embed.Embedder) (store, error) {
	t.Helper()
	return dense.New(t.Context(), f.Store(), images, embedder, f.Queue)
}

func mustOpen(t testing.TB, f *storetest.Fixture, embedder embed.Embedder) store {
	t.Helper()
	s, err := open(t, f, embedder)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// search returns the result for a text in namespace "ns" with depth 10, changed by edit if that is not nil.
func search(t testing.TB, s store, text string, edit func(*leg.Query)) leg.Result {
	t.Helper()
	q := leg.Query{Namespace: "ns", Text: text, Depth: 10}
	if edit != nil {
		edit(&q)
	}
	result, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search: %v", err)
	}
	if len(result.Hits) > q.Depth {
		t.Errorf("%d hits with depth %d", len(result.Hits), q.Depth)
	}
	return result
}

// asVector makes a search one with a given vector, which is compared as it is.
func asVector(t testing.TB, text string, edit func(*leg.Query)) func(*leg.Query) {
	t.Helper()
	vector, err := embed.NewHashed().EmbedQuery(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return func(q *leg.Query) {
		q.Vector = vector
		if edit != nil {
			edit(q)
		}
	}
}

// corpus is memories by name, so that results read well.
type corpus map[string]record.Record

// add stores and indexes a memory a second younger than the one before.
func (c corpus) add(t testing.TB, f *storetest.Fixture, s store, name, content string, edit func(*record.Record)) record.Record {
	t.Helper()
	r := storetest.Record("ns", content, func(r *record.Record) {
		r.CreatedAt = time.Date(2025, 1, 1, 0, 0, len(c), 0, time.UTC)
		if edit != nil {
			edit(r)
		}
	})
	c[name] = r
	f.Insert(t, r)
	f.Drain(t, "dense", s)
	return r
}

// names returns what was found, best first.
func (c corpus) names(result leg.Result) []string {
	names := []string{}
	for _, hit := range result.Hits {
		name := "?" + hit.ID.String()
		for n, r := range c {
			if r.ID == hit.ID {
				name = n
			}
		}
		names = append(names, name)
	}
	return names
}

// expect checks what is found, in order.
func (c corpus) expect(t testing.TB, result leg.Result, want ...string) {
	t.Helper()
	if got := c.names(result); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// count returns a number that the database computes; the tables' names differ by engine.
func count(t testing.TB, f *storetest.Fixture, postgres, sqlite string) (n int) {
	t.Helper()
	var err error
	if f.Engine == schema.Postgres {
		err = f.Pool.QueryRow(t.Context(), postgres).Scan(&n)
	} else {
		err = f.DB.Read.QueryRowContext(t.Context(), sqlite).Scan(&n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func vectors(t testing.TB, f *storetest.Fixture) int {
	t.Helper()
	return count(t, f, `SELECT count(*) FROM dense.vectors`, `SELECT count(*) FROM dense_vectors`)
}

var vocabulary = strings.Fields(`harbour sensor tide soil dashboard invoice release backup restore deploy rollback latency timeout token
	certificate renewal staging production database index queue worker retry batch report customer grower contract meeting travel
	Aldermouth Maren Teo cello school boat varnish canal kitchen dentist allergy recipe garden winter frost pump valve battery
	firmware gateway antenna packet checksum parser fixture benchmark regression migration replica failover alert threshold oncall
	handover budget payroll holiday insurance passport train ferry bicycle helmet library novel chess piano rehearsal concert`)

// sentence returns random words; different seeds give different sentences, the same one always the same.
func sentence(rng *rand.Rand, words int) string {
	chosen := make([]string, words)
	for i := range chosen {
		chosen[i] = vocabulary[rng.IntN(len(vocabulary))]
	}
	return strings.Join(chosen, " ")
}

// seed writes n memories with random texts and their vectors straight into the tables. The last of each hundred is
// tagged "rare".
func seed(t testing.TB, f *storetest.Fixture, namespace string, n int) []record.Record {
	t.Helper()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	records := make([]record.Record, n)
	texts := make([]string, n)
	for i := range records {
		texts[i] = sentence(rng, 8+rng.IntN(12))
		records[i] = storetest.Record(namespace, texts[i], func(r *record.Record) {
			r.ID = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d", namespace, i))
			r.CreatedAt = time.Date(2025, 1, 1, 0, 0, i, 0, time.UTC)
			if i%100 == 99 {
				r.Tags = []string{"rare"}
			}
		})
	}
	embeddings, err := embed.NewHashed().EmbedDocuments(ctx, texts)
	if err != nil {
		t.Fatal(err)
	}
	if f.Engine == schema.Postgres {
		err = seedPostgres(ctx, f, records, embeddings)
	} else {
		err = seedSQLite(ctx, f, records, embeddings)
	}
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func seedPostgres(ctx context.Context, f *storetest.Fixture, records []record.Record, embeddings [][]float32) error {
	if _, err := f.Pool.Exec(ctx, `INSERT INTO memory.namespaces (name) VALUES ($1)`, records[0].Namespace); err != nil {
		return err
	}
	_, err := f.Pool.CopyFrom(ctx, pgx.Identifier{"memory", "memories"},
		[]string{"namespace", "id", "content", "title", "expanded_keywords", "tags", "category", "metadata", "importance", "sensitive", "source", "created_at", "updated_at", "revision"},
		pgx.CopyFromSlice(len(records), func(i int) ([]any, error) {
			r := records[i]
			return []any{r.Namespace, r.ID, r.Content, "", []string{}, append([]string{}, r.Tags...), "", map[string]any{}, r.Importance, false, "", r.CreatedAt, r.UpdatedAt, 1}, nil
		}))
	if err != nil {
		return err
	}
	_, err = f.Pool.CopyFrom(ctx, pgx.Identifier{"dense", "vectors"}, []string{"namespace", "memory_id", "model_id", "revision", "embedding"},
		pgx.CopyFromSlice(len(records), func(i int) ([]any, error) {
			return []any{records[i].Namespace, records[i].ID, 1, 1, pgvector.NewHalfVector(embeddings[i])}, nil
		}))
	if err != nil {
		return err
	}
	_, err = f.Pool.Exec(ctx, `ANALYZE memory.memories, dense.vectors`)
	return err
}

func seedSQLite(ctx context.Context, f *storetest.Fixture, records []record.Record, embeddings [][]float32) error {
	return f.DB.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO namespaces (name) VALUES (?)`, records[0].Namespace); err != nil {
			return err
		}
		for i, r := range records {
			tags := "[]"
			if len(r.Tags) > 0 {
				tags = `["rare"]`
			}
			if _, err := tx.ExecContext(ctx, `
				INSERT INTO memories (namespace, id, content, title, expanded_keywords, tags, category, metadata, importance, sensitive, source, created_at, updated_at, revision)
				VALUES (?, ?, ?, '', '[]', ?, '', '{}', ?, 0, '', ?, ?, 1)`,
				r.Namespace, r.ID[:], r.Content, tags, r.Importance, r.CreatedAt.UnixMicro(), r.UpdatedAt.UnixMicro()); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO dense_vectors (namespace, memory_id, model_id, revision, embedding) VALUES (?, ?, 1, 1, ?)`,
				r.Namespace, r.ID[:], halves(embeddings[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// halves encodes a vector as dense_vectors keeps it.
func halves(vector []float32) []byte {
	b := make([]byte, 2*len(vector))
	for i, x := range vector {
		bits := float16.Fromfloat32(x).Bits()
		b[2*i], b[2*i+1] = byte(bits), byte(bits>>8)
	}
	return b
}

// indexing returns a store without memory, whose index is built. It uses that whatever the size, and gives up early if tuples is
// not 0.
func indexing(t testing.TB, f *storetest.Fixture, embedder embed.Embedder, tuples int) *dense.Leg {
	t.Helper()
	s := withoutMemory(t, f, embedder)
	s.ExactUpTo = 0 // few vectors want no index
	for begun := time.Now(); !indexed(t, f, 1); {
		search(t, s, "soil", nil)
		if time.Since(begun) > time.Minute {
			t.Fatal("the index is not built")
		}
	}
	settings := map[string]int{"enable_sort": 0}
	if tuples > 0 {
		settings["hnsw.max_scan_tuples"] = tuples
	}
	var database string
	if err := f.Pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&database); err != nil {
		t.Fatal(err)
	}
	for name, value := range settings {
		if _, err := f.Pool.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET %s = %d`, pgx.Identifier{database}.Sanitize(), name, value)); err != nil {
			t.Fatal(err)
		}
	}
	// Settings of a database hold for new sessions, such as those of polls meanwhile. A PgBouncer keeps the old ones for a second.
	var set time.Time
	if err := f.Pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&set); err != nil {
		t.Fatal(err)
	}
	f.Pool.Reset()
	conn, err := pgx.Connect(t.Context(), os.Getenv(pgtest.Variable))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for begun, sessions := time.Now(), 1; sessions > 0; {
		if err := conn.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend' AND backend_start <= $2`, database, set).Scan(&sessions); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("sessions of before do not end")
		}
	}
	again := withoutMemory(t, f, embedder) // knows of the index at once
	again.ExactUpTo = 0
	return again
}

// withoutMemory returns a store for which each namespace is too large.
func withoutMemory(t testing.TB, f *storetest.Fixture, embedder embed.Embedder) *dense.Leg {
	t.Helper()
	s, err := openWith(t, f, f.ImagesWith(t, replica.Config{}), embedder)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*dense.Leg)
}

// indexed reports whether a model has a finished HNSW index.
func indexed(t testing.TB, f *storetest.Fixture, model int) bool {
	t.Helper()
	return count(t, f, fmt.Sprintf(`SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid = to_regclass('dense.vectors_near_%d')`, model), "") == 1
}
