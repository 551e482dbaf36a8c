package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgvector/pgvector-go"
	"github.com/x448/float16"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Tags that a share of the memories have, whatever they are about.
const (
	thousandth = "thousandth"
	hundredth  = "hundredth"
	tenth      = "tenth"
)

// memories are embedded texts.
type memories struct {
	ids     []uuid.UUID
	texts   []string
	tags    [][]string
	vectors [][]float32
	created time.Time
}

func generate(ctx context.Context, c corpus, n int, embedder embed.Embedder) (m memories, err error) {
	m.created = time.Now().UTC().Truncate(time.Second)
	for range n {
		m.ids, m.texts = append(m.ids, uuid.Must(uuid.NewV7())), append(m.texts, c.memory())
		tags := []string{}
		if c.random.IntN(1000) == 0 {
			tags = append(tags, thousandth)
		}
		if c.random.IntN(100) == 0 {
			tags = append(tags, hundredth)
		}
		if c.random.IntN(10) == 0 {
			tags = append(tags, tenth)
		}
		m.tags = append(m.tags, tags)
	}
	m.vectors, err = embedder.EmbedDocuments(ctx, m.texts)
	return m, err
}

// part is a number of the memories, to be one namespace.
func (m memories) part(from, to int) memories {
	return memories{m.ids[from:to], m.texts[from:to], m.tags[from:to], m.vectors[from:to], m.created}
}

// copyTo copies memories and their vectors into PostgreSQL's tables.
func (m memories) copyTo(ctx context.Context, pool *pgxpool.Pool, namespace string, model int64) error {
	if _, err := pool.Exec(ctx, `INSERT INTO memory.namespaces (name) VALUES ($1)`, namespace); err != nil {
		return err
	}
	if _, err := pool.CopyFrom(ctx, pgx.Identifier{"memory", "memories"}, []string{
		"namespace", "id", "content", "title", "expanded_keywords", "tags", "category", "metadata", "importance", "sensitive", "source",
		"created_at", "updated_at", "revision",
	}, pgx.CopyFromSlice(len(m.ids), func(i int) ([]any, error) {
		return []any{namespace, m.ids[i], m.texts[i], "", []string{}, m.tags[i], "", map[string]any{}, 0.5, false, "", m.created, m.created, 1}, nil
	})); err != nil {
		return err
	}
	_, err := pool.CopyFrom(ctx, pgx.Identifier{"dense", "vectors"}, []string{"namespace", "memory_id", "model_id", "revision", "embedding"},
		pgx.CopyFromSlice(len(m.ids), func(i int) ([]any, error) {
			return []any{namespace, m.ids[i], model, 1, pgvector.NewHalfVector(m.vectors[i])}, nil
		}))
	return err
}

// bulk runs fill, and then builds the model's index, as for a namespace that is too large for memory. It returns how long the
// building took.
func bulk(ctx context.Context, pool *pgxpool.Pool, embedder embed.Embedder, fill func() error) (time.Duration, error) {
	if err := fill(); err != nil {
		return 0, err
	}
	start := time.Now()
	m := embedder.Model()
	indexed := fmt.Sprintf("embedding::halfvec(%d)", m.Dimensions)
	if m.QueryDimensions > 0 {
		indexed = fmt.Sprintf("subvector(%s, 1, %[2]d)::halfvec(%[2]d)", indexed, m.QueryDimensions)
	}
	err := build(ctx, pool, fmt.Sprintf(`CREATE INDEX vectors_near_%[1]d ON dense.vectors USING hnsw ((%[2]s) halfvec_ip_ops)
		WITH (m = 24, ef_construction = 128) WHERE model_id = %[1]d`, model, indexed))
	took := time.Since(start)
	if err == nil {
		_, err = pool.Exec(ctx, "VACUUM ANALYZE memory.memories, dense.vectors")
	}
	return took, err
}

// build runs a statement that builds an index, with memory and processes enough.
func build(ctx context.Context, pool *pgxpool.Pool, statement string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, s := range []string{`SET LOCAL maintenance_work_mem = '2GB'`, `SET LOCAL max_parallel_maintenance_workers = 2`, statement} {
			if _, err := tx.Exec(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// insertInto writes memories and their vectors into SQLite's tables.
func (m memories) insertInto(ctx context.Context, db *sqlite.DB, namespace string, model int64) error {
	return db.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO namespaces (name) VALUES (?)`, namespace); err != nil {
			return err
		}
		record, err := tx.PrepareContext(ctx, `
			INSERT INTO memories (namespace, id, content, title, expanded_keywords, tags, category, metadata, importance, sensitive, source, created_at, updated_at, revision)
			VALUES (?, ?, ?, '', '[]', ?, '', '{}', 0.5, 0, '', ?, ?, 1)`)
		if err != nil {
			return err
		}
		defer func() { _ = record.Close() }()
		vector, err := tx.PrepareContext(ctx, `INSERT INTO dense_vectors (namespace, memory_id, model_id, revision, embedding) VALUES (?, ?, ?, 1, ?)`)
		if err != nil {
			return err
		}
		defer func() { _ = vector.Close() }()
		for i, id := range m.ids {
			tags, err := json.Marshal(m.tags[i])
			if err != nil {
				return err
			}
			if _, err := record.ExecContext(ctx, namespace, id[:], m.texts[i], string(tags), m.created.UnixMicro(), m.created.UnixMicro()); err != nil {
				return err
			}
			half := make([]byte, 0, 2*len(m.vectors[i]))
			for _, x := range m.vectors[i] {
				half = binary.LittleEndian.AppendUint16(half, float16.Fromfloat32(x).Bits())
			}
			if _, err := vector.ExecContext(ctx, namespace, id[:], model, half); err != nil {
				return fmt.Errorf("vector %d: %w", i, err)
			}
		}
		return nil
	})
}
