package main

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

const namespace = "bench"

// loaded says what loading took and gave.
type loaded struct {
	ids      []uuid.UUID
	contents []string
	took     time.Duration
}

// load copies n memories into the tables and builds the indexes afterwards, as a restore would.
func load(ctx context.Context, pool *pgxpool.Pool, seed uint64, n int) (loaded, error) {
	start := time.Now()
	l := loaded{ids: make([]uuid.UUID, n), contents: make([]string, n)}
	c := newCorpus(seed)
	for i := range n {
		l.ids[i], l.contents[i] = uuid.Must(uuid.NewV7()), c.memory()
	}
	now := record.Now()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var definition string
		if err := tx.QueryRow(ctx, `SELECT pg_get_indexdef('lexical.documents_tsv'::regclass)`).Scan(&definition); err != nil {
			return err
		}
		for _, statement := range []string{
			`INSERT INTO memory.namespaces (name) VALUES ('` + namespace + `')`, `DROP INDEX lexical.documents_tsv`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"memory", "memories"}, []string{
			"namespace", "id", "content", "title", "expanded_keywords", "tags", "category", "metadata", "importance", "sensitive", "source",
			"created_at", "updated_at", "revision",
		}, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{namespace, l.ids[i], l.contents[i], "", []string{}, tags(i), "", map[string]any{}, 0.5, false, "", now, now, 1}, nil
		})); err != nil {
			return err
		}
		words := lexical.Index{Vectors: true}
		for from := 0; from < n; from += 1000 {
			batch := make([]record.Record, min(1000, n-from))
			for i := range batch {
				batch[i] = record.Record{Namespace: namespace, ID: l.ids[from+i], Content: l.contents[from+i]}
			}
			if err := words.Prepare(ctx, batch)(ctx, sqldb.Tx{Postgres: tx}, batch); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, strings.Replace(definition, " ON ONLY ", " ON ", 1))
		return err
	})
	if err != nil {
		return l, err
	}
	_, err = pool.Exec(ctx, "VACUUM ANALYZE")
	l.took = time.Since(start)
	return l, err
}

// shares are the filters that are measured: one memory in so many has the tag.
var shares = map[string]int{"tenth": 10, "hundredth": 100, "thousandth": 1000}

// tags returns the tags of the i-th memory.
func tags(i int) []string {
	found := []string{}
	for tag, share := range shares {
		if i%share == 0 {
			found = append(found, tag)
		}
	}
	return found
}

// writeCost stores memories through the memory service's store, batch at a time, and returns the mean time of one; with
// the lexical index, and without.
func writeCost(ctx context.Context, pool *pgxpool.Pool, seed uint64, n, batch int) (with, without time.Duration, err error) {
	c := newCorpus(seed)
	for from := 0; from < n; from += 2 * batch {
		for _, store := range []struct {
			spent *time.Duration
			store *memory.Store
		}{{&with, memory.NewStore(sqldb.Store{Pool: pool}, &lexical.Index{Vectors: true})}, {&without, memory.NewStore(sqldb.Store{Pool: pool}, &none{})}} {
			records := make([]record.Record, batch)
			for i := range records {
				now := record.Now()
				records[i] = record.Record{
					ID: uuid.Must(uuid.NewV7()), Namespace: namespace, Content: c.memory(), Importance: 0.5, CreatedAt: now, UpdatedAt: now, Revision: 1,
				}
			}
			start := time.Now()
			if _, err := store.store.Insert(ctx, records); err != nil {
				return 0, 0, err
			}
			*store.spent += time.Since(start)
		}
	}
	each := time.Duration(n / 2)
	return with / each, without / each, nil
}

// none is no index.
type none struct{ lexical.Index }

func (*none) Prepare(context.Context, []record.Record) func(context.Context, sqldb.Tx, []record.Record) error {
	return func(context.Context, sqldb.Tx, []record.Record) error { return nil }
}
