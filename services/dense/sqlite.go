package dense

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"github.com/x448/float16"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLite searches the vectors of dense_vectors in memory. A namespace that is not in memory has no hits.
type SQLite struct{ searcher }

// NewSQLite returns a store for the embedder's model. It registers the model if none is active.
// Another active model is an error.
func NewSQLite(ctx context.Context, db *sqlite.DB, images *replica.Set, embedder embed.Embedder, tasks queue.Store) (*SQLite, error) {
	reads := sqldb.DB{SQLite: db.Read}
	models := NewSQLiteModels(db)
	model, err := models.start(ctx, reads.In(postgres.AllNamespaces), embedder.Model())
	if err != nil {
		return nil, err
	}
	s := &SQLite{newSearcher(images, embedder, tasks, models, stored{model: model, decode: appendHalves})}
	s.reads, s.tasks = func() sqldb.DB { return reads }, func() queue.Store { return tasks }
	return s, nil
}

// encode returns a vector's stored form.
func encode(vector []float32) []byte {
	b := make([]byte, 0, 2*len(vector))
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(x).Bits())
	}
	return b
}

// putSQLite is putPostgres for SQLite.
func putSQLite(ctx context.Context, tx sqldb.Tx, model int64, some, none []embedding) error {
	rows := func(embeddings []embedding) (rows []sqliteEmbedding, vectors []byte) {
		for _, e := range embeddings {
			rows, vectors = append(rows, sqliteEmbedding{e.namespace, e.id, e.revision, e.sensitive}), append(vectors, encode(e.vector)...)
		}
		return rows, vectors
	}
	if len(none) > 0 {
		var args sqlite.Args
		deleted, _ := rows(none)
		if _, err := tx.SQLite.ExecContext(ctx, fmt.Sprintf(`
				DELETE FROM dense_vectors WHERE rowid IN (
					SELECT v.rowid FROM json_each(%s) e CROSS JOIN dense_vectors v ON v.namespace = e.value ->> 'namespace'
						AND v.memory_id = unhex(e.value ->> 'id', '-') AND v.model_id = %s AND v.revision <= e.value ->> 'revision')`,
			args.AddJSON(deleted), args.Add(model)), args...); err != nil {
			return err
		}
	}
	if len(some) == 0 {
		return nil
	}
	var args sqlite.Args
	put, vectors := rows(some)
	_, err := tx.SQLite.ExecContext(ctx, fmt.Sprintf(`
			INSERT INTO dense_vectors (namespace, memory_id, model_id, sensitive, revision, embedding)
			SELECT m.namespace, m.id, %[1]s, m.sensitive, e.value ->> 'revision', substr(%[3]s, 1 + e.key * %[4]s, %[4]s)
			FROM json_each(%[2]s) e CROSS JOIN memories m ON m.namespace = e.value ->> 'namespace' AND m.id = unhex(e.value ->> 'id', '-')
			WHERE m.sensitive = e.value ->> 'sensitive'
			ON CONFLICT (namespace, memory_id, model_id) DO UPDATE SET revision = excluded.revision, embedding = excluded.embedding
			WHERE dense_vectors.revision <= excluded.revision`, args.Add(model), args.AddJSON(put), args.Add(vectors), args.Add(len(vectors)/len(some))), args...)
	return err
}

// sqliteEmbedding is an embedding without its vector, as JSON.
type sqliteEmbedding struct {
	Namespace string    `json:"namespace"`
	ID        uuid.UUID `json:"id"`
	Revision  int64     `json:"revision"`
	Sensitive bool      `json:"sensitive"`
}
