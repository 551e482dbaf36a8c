package dense

import (
	"context"
	"database/sql"
	"encoding/binary"

	"github.com/x448/float16"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLite searches the vectors of dense_vectors in memory. A namespace that is not in memory has no hits.
type SQLite struct {
	searcher
	db    *sqlite.DB
	tasks queue.Store
}

// NewSQLite returns a store for the embedder's model. It registers the model if none is active.
// Another active model is an error.
func NewSQLite(ctx context.Context, db *sqlite.DB, images *replica.Set, embedder embed.Embedder, tasks queue.Store) (*SQLite, error) {
	if err := checkModel(embedder.Model()); err != nil {
		return nil, err
	}
	models := sqliteModels{db}
	model, err := models.start(ctx, embedder.Model())
	if err != nil {
		return nil, err
	}
	return &SQLite{newSearcher(images, embedder, tasks, models, stored{model: model, decode: appendHalves}), db, tasks}, nil
}

// Prepare implements memory.Derived.
func (s *SQLite) Prepare(ctx context.Context, records []record.Record) (sqldb.Putter, error) {
	embeddings, err := s.prepare(ctx, records)
	return func(ctx context.Context, tx sqldb.Tx, stored map[record.Key]bool) error {
		return sqliteModels{s.db}.putIn(ctx, tx.SQLite, s.model, embeddings(stored), Active)
	}, err
}

// encode returns a vector's stored form.
func encode(vector []float32) []byte {
	b := make([]byte, 0, 2*len(vector))
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(x).Bits())
	}
	return b
}

// Status implements leg.Searcher.
func (s *SQLite) Status(ctx context.Context, namespace string) (leg.Status, error) {
	tasks, err := s.tasks.Status(ctx, indexName, namespace)
	if err != nil {
		return leg.Status{}, err
	}
	var indexed, excluded int64
	err = s.db.Read.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM dense_vectors WHERE namespace = ?1 AND model_id = ?2),
			(SELECT count(*) FROM memories WHERE namespace = ?1 AND sensitive
				AND NOT EXISTS (SELECT 1 FROM dense_model_rows WHERE model_id = ?2 AND sensitive))`, namespace, s.model).Scan(&indexed, &excluded)
	return status(s.embedder.Model(), tasks, indexed, excluded), err
}

// scanRows calls fn for each row until an error and closes the rows.
func scanRows(rows *sql.Rows, fn func() error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := fn(); err != nil {
			return err
		}
	}
	return rows.Err()
}
