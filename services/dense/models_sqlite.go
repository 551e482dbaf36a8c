package dense

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// sqliteModels is the catalog in dense_models. SQLite has one writer at a time, so a transaction excludes other
// writers.
type sqliteModels struct{ db *sqlite.DB }

var _ catalog = sqliteModels{}

// NewSQLiteModels returns the models of a database.
func NewSQLiteModels(db *sqlite.DB) *Models { return &Models{sqliteModels{db}} }

type sqliteQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// withStatus returns the model with a unique status, or false.
func (sqliteModels) withStatus(ctx context.Context, q sqliteQuerier, status Status) (ModelInfo, bool, error) {
	info, err := scanModel(q.QueryRowContext(ctx, `SELECT `+modelColumns+` FROM dense_models WHERE status = ?`, status))
	if errors.Is(err, sql.ErrNoRows) {
		return info, false, nil
	}
	return info, err == nil, err
}

// register upserts a model with a status and returns its id.
func (sqliteModels) register(ctx context.Context, tx *sql.Tx, m embed.Model, status Status) (id int64, err error) {
	if !m.Local {
		var sensitive bool
		if err := tx.QueryRowContext(ctx, `
			SELECT EXISTS (SELECT 1 FROM dense_models JOIN dense_model_rows r ON r.model_id = id AND r.sensitive
				WHERE (provider, name, dimensions, document_prefix, query_prefix) = (?, ?, ?, ?, ?))`,
			m.Provider, m.Name, m.Dimensions, m.DocumentPrefix, m.QueryPrefix).Scan(&sensitive); err != nil {
			return 0, err
		}
		if sensitive {
			return 0, errLocalTexts
		}
	}
	err = tx.QueryRowContext(ctx, `
		INSERT INTO dense_models (provider, name, dimensions, document_prefix, query_prefix, local, status) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (provider, name, dimensions, document_prefix, query_prefix) DO UPDATE SET status = excluded.status, local = excluded.local
		RETURNING id`, m.Provider, m.Name, m.Dimensions, m.DocumentPrefix, m.QueryPrefix, m.Local, status).Scan(&id)
	return id, err
}

// start returns the active model's id if it is the configured one, and activates that if none is active. It writes only
// changes, because a full disk must not keep recalls from being answered.
func (s sqliteModels) start(ctx context.Context, configured embed.Model) (id int64, err error) {
	active, ok, err := s.withStatus(ctx, s.db.Read, Active)
	if err != nil || ok && sameSpace(active.Model, configured) && active.Model.Local == configured.Local {
		return active.ID, err
	}
	err = s.db.Update(ctx, func(tx *sql.Tx) error {
		active, ok, err := s.withStatus(ctx, tx, Active)
		if err != nil {
			return err
		}
		if ok && !sameSpace(active.Model, configured) {
			return modelError(active.Model, configured)
		}
		id, err = s.register(ctx, tx, configured, Active)
		return err
	})
	return id, err
}

func (s sqliteModels) list(ctx context.Context) ([]ModelInfo, error) {
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT `+modelColumns+`, created_at, (SELECT count(*) FROM dense_vectors WHERE model_id = dense_models.id),
			EXISTS (SELECT 1 FROM dense_model_rows WHERE model_id = id AND sensitive)
		FROM dense_models ORDER BY id`)
	if err != nil {
		return nil, err
	}
	var models []ModelInfo
	err = scanRows(rows, func() error {
		var created sql.NullInt64
		var vectors int64
		var sensitive bool
		info, err := scanModel(rows, &created, &vectors, &sensitive)
		info.CreatedAt, info.Vectors, info.Sensitive = sqlite.Time(created), vectors, sensitive
		models = append(models, info)
		return err
	})
	return models, err
}

func (s sqliteModels) active(ctx context.Context) (embed.Model, bool, error) {
	info, ok, err := s.withStatus(ctx, s.db.Read, Active)
	return info.Model, ok, err
}

func (s sqliteModels) state(ctx context.Context, model int64) (modelState, error) {
	return s.stateIn(ctx, s.db.Read, model)
}

func (sqliteModels) stateIn(ctx context.Context, q sqliteQuerier, model int64) (s modelState, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT status, EXISTS (SELECT 1 FROM dense_model_rows WHERE model_id = id AND sensitive) FROM dense_models WHERE id = ?`, model).
		Scan(&s.status, &s.sensitive)
	if errors.Is(err, sql.ErrNoRows) {
		return modelState{}, nil
	}
	return s, err
}

func (s sqliteModels) put(ctx context.Context, model int64, embeddings []embedding, status Status) error {
	return s.db.Update(ctx, func(tx *sql.Tx) error { return s.putIn(ctx, tx, model, embeddings, status) })
}

// putIn is put in a transaction.
func (s sqliteModels) putIn(ctx context.Context, tx *sql.Tx, model int64, embeddings []embedding, status Status) error {
	state, err := s.stateIn(ctx, tx, model)
	if err != nil {
		return err
	}
	if state.status != status {
		return &statusError{state.status}
	}
	some, none := []sqliteEmbedding{}, []sqliteEmbedding{}
	var vectors []byte // of some
	for _, e := range embeddings {
		row := sqliteEmbedding{e.namespace, e.id, e.revision, e.sensitive}
		switch {
		case e.sensitive && !state.sensitive:
		case e.vector == nil:
			none = append(none, row)
		default:
			some, vectors = append(some, row), append(vectors, encode(e.vector)...)
		}
	}
	if len(none) > 0 {
		var args sqlite.Args
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`
				DELETE FROM dense_vectors WHERE rowid IN (
					SELECT v.rowid FROM json_each(%s) e CROSS JOIN dense_vectors v ON v.namespace = e.value ->> 'namespace'
						AND v.memory_id = unhex(e.value ->> 'id', '-') AND v.model_id = %s AND v.revision <= e.value ->> 'revision')`,
			args.AddJSON(none), args.Add(model)), args...); err != nil {
			return err
		}
	}
	if len(some) == 0 {
		return nil
	}
	var args sqlite.Args
	rows, all, length := args.AddJSON(some), args.Add(vectors), args.Add(len(vectors)/len(some))
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`
			INSERT INTO dense_vectors (namespace, memory_id, model_id, sensitive, revision, embedding)
			SELECT m.namespace, m.id, %[1]s, m.sensitive, e.value ->> 'revision', substr(%[3]s, 1 + e.key * %[4]s, %[4]s)
			FROM json_each(%[2]s) e CROSS JOIN memories m ON m.namespace = e.value ->> 'namespace' AND m.id = unhex(e.value ->> 'id', '-')
			WHERE m.sensitive = e.value ->> 'sensitive'
			ON CONFLICT (namespace, memory_id, model_id) DO UPDATE SET revision = excluded.revision, embedding = excluded.embedding
			WHERE dense_vectors.revision <= excluded.revision`, args.Add(model), rows, all, length), args...)
	return err
}

// sqliteEmbedding is an embedding without its vector, as JSON.
type sqliteEmbedding struct {
	Namespace string    `json:"namespace"`
	ID        uuid.UUID `json:"id"`
	Revision  int64     `json:"revision"`
	Sensitive bool      `json:"sensitive"`
}

// alone runs fn. Concurrent runs repeat work without harm.
func (sqliteModels) alone(_ context.Context, fn func() error) error { return fn() }

func (s sqliteModels) build(ctx context.Context, model embed.Model) (id int64, status Status, err error) {
	err = s.db.Update(ctx, func(tx *sql.Tx) error {
		active, isActive, err := s.withStatus(ctx, tx, Active)
		if err != nil {
			return err
		}
		other, isBuilding, err := s.withStatus(ctx, tx, Building)
		if err != nil {
			return err
		}
		switch {
		case isActive && sameSpace(active.Model, model):
			status = Active
		case isBuilding && !sameSpace(other.Model, model):
			return buildingError(other.Model)
		default:
			status = Building
		}
		if id, err = s.register(ctx, tx, model, status); err != nil || !model.Local {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO dense_model_rows (model_id, sensitive, local) SELECT ?, 1, 1 FROM indexes WHERE name = 'dense' AND sensitive
			ON CONFLICT DO NOTHING`, id)
		return err
	})
	return id, status, err
}

func (s sqliteModels) asSensitive(ctx context.Context, records []record.Record) (bool, error) {
	return queue.NewSQLite(s.db).AsSensitive(ctx, records)
}

func (s sqliteModels) namespaces(ctx context.Context) ([]string, error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT name FROM namespaces ORDER BY name`)
	if err != nil {
		return nil, err
	}
	var names []string
	err = scanRows(rows, func() error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// lackingSQLite selects what model ?1 lacks.
const lackingSQLite = `FROM memories m
	WHERE EXISTS (SELECT 1 FROM dense_model_rows r WHERE r.model_id = ?1 AND r.sensitive = m.sensitive)
		AND NOT EXISTS (SELECT 1 FROM dense_vectors v
			WHERE v.namespace = m.namespace AND v.memory_id = m.id AND v.model_id = ?1 AND v.revision >= m.revision)`

func (s sqliteModels) countLacking(ctx context.Context, model int64, namespace string) (n int64, err error) {
	err = s.db.Read.QueryRowContext(ctx, `SELECT count(*) `+lackingSQLite+` AND m.namespace = ?2`, model, namespace).Scan(&n)
	return n, err
}

func (s sqliteModels) lacking(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) ([]record.Record, error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT `+record.Columns+` `+lackingSQLite+` AND m.namespace = ?2 AND m.id > ?3 ORDER BY m.id LIMIT ?4`,
		model, namespace, after[:], n)
	if err != nil {
		return nil, err
	}
	var records []record.Record
	err = scanRows(rows, func() error {
		r, err := sqlite.ScanRecord(rows.Scan)
		records = append(records, r)
		return err
	})
	return records, err
}

// prepare does nothing: searches scan the vectors.
func (sqliteModels) prepare(context.Context, int64, embed.Model) error { return nil }

func (s sqliteModels) activate(ctx context.Context, model int64) (queued int64, err error) {
	err = s.db.Update(ctx, func(tx *sql.Tx) error {
		state, err := s.stateIn(ctx, tx, model)
		if err != nil {
			return err
		}
		if state.status != Building {
			return &statusError{state.status}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE dense_models SET status = 'retired' WHERE status = 'active'`); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE dense_models SET status = 'active' WHERE id = ?`, model); err != nil {
			return err
		}
		if !state.sensitive {
			if _, err := s.forbid(ctx, tx); err != nil {
				return err
			}
		}
		queued, err = s.enqueueLacking(ctx, tx, model, "")
		return err
	})
	return queued, err
}

// enqueueLacking enqueues lacking memories under new sequence numbers, so that a worker finishing an earlier task for
// another model keeps them.
func (sqliteModels) enqueueLacking(ctx context.Context, tx *sql.Tx, model int64, and string) (int64, error) {
	if _, err := tx.ExecContext(ctx, `UPDATE write_sequence SET last = last + 1`); err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO index_queue (namespace, memory_id, index_name, sensitive, revision, sequence, since, enqueued_at, not_before)
		SELECT m.namespace, m.id, 'dense', m.sensitive, m.revision, (SELECT last FROM write_sequence), m.sequence, ?2, ?2 `+lackingSQLite+` `+and+`
		ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
		SET revision = excluded.revision, sequence = excluded.sequence, since = min(since, excluded.since),
			not_before = excluded.not_before, attempts = 0, dead = 0, last_error = ''`, model, time.Now().UnixMicro())
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s sqliteModels) retire(ctx context.Context) (info ModelInfo, ok bool, err error) {
	err = s.db.Update(ctx, func(tx *sql.Tx) error {
		if info, ok, err = s.withStatus(ctx, tx, Building); err != nil || !ok {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE dense_models SET status = 'retired' WHERE id = ?`, info.ID); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM dense_vectors WHERE model_id = ?`, info.ID).Scan(&info.Vectors)
	})
	return info, ok, err
}

// unprepare does nothing.
func (sqliteModels) unprepare(context.Context, int64) error { return nil }

func (s sqliteModels) deleteVectors(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) (last uuid.UUID, deleted int64, err error) {
	result, err := s.db.Write.ExecContext(ctx, `
		DELETE FROM dense_vectors WHERE rowid IN (SELECT rowid FROM dense_vectors WHERE namespace = ? AND model_id = ? LIMIT ?)`, namespace, model, n)
	if err != nil {
		return after, 0, err
	}
	deleted, err = result.RowsAffected()
	return after, deleted, err // deleted rows need no skipping
}

func (s sqliteModels) forget(ctx context.Context, model int64) error {
	_, err := s.db.Write.ExecContext(ctx, `DELETE FROM dense_models WHERE id = ? AND status = 'retired'`, model)
	return err
}

func (s sqliteModels) allowSensitive(ctx context.Context) (queued int64, err error) {
	err = s.db.Update(ctx, func(tx *sql.Tx) error {
		active, ok, err := s.withStatus(ctx, tx, Active)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoActive
		case !active.Model.Local:
			return errNotLocal
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO dense_model_rows (model_id, sensitive, local)
			SELECT id, 1, local FROM dense_models WHERE local AND status <> 'retired' ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO indexes (name, sensitive) VALUES ('dense', 1) ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		queued, err = s.enqueueLacking(ctx, tx, active.ID, "AND m.sensitive")
		return err
	})
	return queued, err
}

func (s sqliteModels) forbidSensitive(ctx context.Context) (deleted int64, err error) {
	err = s.db.Update(ctx, func(tx *sql.Tx) error {
		deleted, err = s.forbid(ctx, tx)
		return err
	})
	return deleted, err
}

func (sqliteModels) forbid(ctx context.Context, tx *sql.Tx) (int64, error) {
	result, err := tx.ExecContext(ctx, `DELETE FROM dense_vectors WHERE sensitive`)
	if err != nil {
		return 0, err
	}
	for _, statement := range []string{
		`DELETE FROM dense_model_rows WHERE sensitive`,
		`DELETE FROM indexes WHERE name = 'dense' AND sensitive`, // tasks are deleted by foreign key
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return 0, err
		}
	}
	return result.RowsAffected()
}
