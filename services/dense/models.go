package dense

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Status is the use of a model's vectors.
type Status string

// The statuses of a model. At most one is active and at most one building.
const (
	Building Status = "building" // Models.Reembed is embedding with it
	Active   Status = "active"   // used for new and changed memories, and for searches
	Retired  Status = "retired"  // outdated; processes configured for it still search with it
)

// ModelInfo describes a model of a database.
type ModelInfo struct {
	ID int64 `json:"-"`
	embed.Model
	Status    Status    `json:"status"`
	Vectors   int64     `json:"vectors"`
	Sensitive bool      `json:"sensitive"` // includes sensitive memories
	CreatedAt time.Time `json:"created_at"`
}

// modelState decides whether a model's vectors may be written.
type modelState struct {
	status    Status // empty if there is no such model
	sensitive bool
}

// Models manages a database's embedding models. Services only start, read a state and put vectors. The other methods need the
// tables' owner on PostgreSQL, who bypasses row policies. A change of models waits for writers of vectors and blocks new ones, so no
// vector is written under an outdated status.
type Models struct{ store sqldb.Store }

// NewModels returns the models of a database.
func NewModels(store sqldb.Store) *Models { return &Models{store} }

// db returns the database for reads.
func (m *Models) db() sqldb.Scoped { return m.store.DB().In(postgres.AllNamespaces) }

// change runs fn in a transaction that locks models and their vectors. SQLite has one writer at a time.
func (m *Models) change(ctx context.Context, fn func(sqldb.Tx) error) error {
	// Nodes change vectors one at a time, on the connection that changes the tables of which each has a copy.
	return m.store.Write(ctx, "; SET LOCAL citus.multi_shard_modify_mode = 'sequential'", func(tx sqldb.Tx) error {
		if tx.SQLite == nil {
			if _, err := tx.Postgres.Exec(ctx, `LOCK TABLE dense.models IN EXCLUSIVE MODE`); err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// exec runs a statement about models in a transaction.
func exec(ctx context.Context, tx sqldb.Tx, statement string, args ...any) error {
	_, err := tx.In(postgres.Entered).Exec(ctx, statement, args...)
	return err
}

// statusError reports an unexpected status of a model.
type statusError struct{ status Status }

func (e *statusError) Error() string {
	if e.status == "" {
		return "the embedding model has been removed"
	}
	return fmt.Sprintf("the embedding model is %s", e.status)
}

var (
	errNoActive   = errors.New("no embedding model is active yet")
	errNotAlone   = errors.New("another process is re-embedding this database")
	errCancelled  = errors.New("re-embedding has been cancelled")
	errLocalTexts = errors.New("sensitive memories are embedded with this model because it was local, but it is now configured to send texts to another host: " +
		"configure it as before, or forbid sensitive memories with `triskele models embed-sensitive off`")
)

// sameSpace reports whether two models' vectors are comparable.
func sameSpace(a, b embed.Model) bool {
	a.Local, b.Local = false, false
	a.QueryDimensions, b.QueryDimensions = 0, 0
	return a == b
}

// modelError reports that the configured model is not the active one.
func modelError(active, configured embed.Model) error {
	stay := "To stay with the present model, give the --embedder that names it"
	if static.Retired(active) {
		stay = "The present model was built into an earlier release, which alone can stay with it"
	}
	return fmt.Errorf("this database's memories are embedded with %s, but the configured embedding model is %s. "+
		"To change to that, run `triskele reembed` with the same --embedder and the same database: processes configured as before go on answering meanwhile. %s",
		active, configured, stay)
}

// modelColumns are the columns of ModelInfo.targets.
const modelColumns = `id, provider, name, dimensions, document_prefix, query_prefix, local, status`

func (info *ModelInfo) targets() []any {
	m := &info.Model
	return []any{&info.ID, &m.Provider, &m.Name, &m.Dimensions, &m.DocumentPrefix, &m.QueryPrefix, &m.Local, &info.Status}
}

// withStatus returns the model with a unique status, or false.
func withStatus(ctx context.Context, db sqldb.Scoped, status Status) (info ModelInfo, ok bool, err error) {
	ok, err = db.Get(ctx, `SELECT `+modelColumns+` FROM dense.models WHERE status = $1`, []any{status}, info.targets()...)
	return info, ok, err
}

// register upserts a model with a status and returns its id.
func register(ctx context.Context, tx sqldb.Tx, m embed.Model, status Status) (id int64, err error) {
	db, space := tx.In(postgres.Entered), []any{m.Provider, m.Name, m.Dimensions, m.DocumentPrefix, m.QueryPrefix}
	if !m.Local {
		var sensitive bool
		if _, err := db.Get(ctx, `
			SELECT EXISTS (SELECT 1 FROM dense.models JOIN dense.model_rows r ON r.model_id = id AND r.sensitive
				WHERE (provider, name, dimensions, document_prefix, query_prefix) = ($1, $2, $3, $4, $5))`, space, &sensitive); err != nil {
			return 0, err
		}
		if sensitive {
			return 0, errLocalTexts
		}
	}
	if _, err := db.Get(ctx, `
		INSERT INTO dense.models (provider, name, dimensions, document_prefix, query_prefix, local, status) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (provider, name, dimensions, document_prefix, query_prefix) DO UPDATE SET status = excluded.status, local = excluded.local
		RETURNING id`, append(space, m.Local, status), &id); err != nil {
		return 0, err
	}
	var allowed bool // ON CONFLICT would need the right to update on a distributed engine
	if _, err := db.Get(ctx, `SELECT EXISTS (SELECT 1 FROM dense.model_rows WHERE model_id = $1 AND NOT sensitive)`, []any{id}, &allowed); err != nil || allowed {
		return id, err
	}
	return id, exec(ctx, tx, `INSERT INTO dense.model_rows (model_id, local) VALUES ($1, $2)`, id, m.Local)
}

// start returns the active model's id if it is the configured one, and activates that if none is active. In a file, the built-in model takes
// the place of an earlier release's, and the worker embeds all memories again. reads may be a standby. It writes only changes, because a full
// disk must not keep recalls from being answered.
func (m *Models) start(ctx context.Context, reads sqldb.Scoped, configured embed.Model) (id int64, err error) {
	if err := checkModel(configured); err != nil {
		return 0, err
	}
	active, ok, err := withStatus(ctx, reads, Active)
	if err != nil || ok && sameSpace(active.Model, configured) && active.Model.Local == configured.Local {
		return active.ID, err
	}
	err = m.change(ctx, func(tx sqldb.Tx) error {
		active, ok, err := withStatus(ctx, tx.In(postgres.Entered), Active) // again under the lock, for concurrent starts
		if err != nil {
			return err
		}
		switch {
		case !ok || sameSpace(active.Model, configured):
			id, err = register(ctx, tx, configured, Active)
			return err
		case tx.SQLite == nil || !static.Succeeds(configured, active.Model):
			return modelError(active.Model, configured)
		}
		if id, _, err = buildIn(ctx, tx, configured); err == nil {
			_, err = activateIn(ctx, tx, id)
		}
		return err
	})
	return id, err
}

// List returns all models, oldest first.
func (m *Models) List(ctx context.Context) ([]ModelInfo, error) {
	return sqldb.Query(ctx, m.db(), `
		SELECT `+modelColumns+`, created_at, coalesce(n, 0), EXISTS (SELECT 1 FROM dense.model_rows r WHERE r.model_id = id AND r.sensitive)
		FROM dense.models LEFT JOIN (SELECT model_id, count(*) AS n FROM dense.vectors GROUP BY model_id) v ON model_id = id ORDER BY id`, nil,
		sqldb.Into(func(info *ModelInfo) []any {
			return append(info.targets(), &info.CreatedAt, &info.Vectors, &info.Sensitive)
		}))
}

// stateIn returns the state of a model, and locks its row if the statement ends so.
func stateIn(ctx context.Context, db sqldb.Scoped, model int64, lock string) (s modelState, err error) {
	_, err = db.Get(ctx, `
		SELECT status, EXISTS (SELECT 1 FROM dense.model_rows r WHERE r.model_id = m.id AND r.sensitive)
		FROM dense.models m WHERE id = $1`+lock, []any{model}, &s.status, &s.sensitive)
	return s, err
}

// put writes embeddings of different memories if the model has the given status, else it returns a *statusError. It skips those of
// older revisions, of memories that are deleted or of changed sensitivity, and of sensitive ones without permission.
func (m *Models) put(ctx context.Context, model int64, embeddings []embedding, status Status) error {
	return m.store.Write(ctx, "", func(tx sqldb.Tx) error { return putIn(ctx, tx, model, embeddings, status) })
}

// putIn is put in a transaction. Embeddings come in the order of their keys, which is that of locks.
func putIn(ctx context.Context, tx sqldb.Tx, model int64, embeddings []embedding, status Status) error {
	state, err := stateIn(ctx, tx.In(postgres.Entered), model, " FOR SHARE OF m")
	if err != nil {
		return err
	}
	if state.status != status {
		return &statusError{state.status}
	}
	var b sqldb.Batch
	var put sqldb.Rows
	for i, e := range embeddings {
		var id uuid.UUID
		changed := func() { tx.Note(e.Namespace, replica.Vectors, id) }
		switch {
		case e.Sensitive && !state.sensitive:
		case e.vector == nil:
			b.Query([]any{&id}, changed, `DELETE FROM dense.vectors WHERE namespace = $1 AND memory_id = $2 AND model_id = $3 AND revision <= $4 RETURNING memory_id`,
				e.Namespace, e.ID, model, e.Revision)
		case tx.SQLite != nil:
			put = append(put, []any{e.ID, e.Revision, e.Sensitive, encode(e.vector)})
		default:
			put = append(put, []any{e.ID, e.Revision, e.Sensitive, pgvector.NewHalfVector(e.vector)})
		}
		if i+1 < len(embeddings) && embeddings[i+1].Namespace == e.Namespace {
			continue
		}
		// The lock waits for a concurrent delete or change of sensitivity, and then selects nothing. A newer revision with
		// changed text is still queued and will replace this vector.
		b.Query([]any{&id}, changed, `
			INSERT INTO dense.vectors AS v (namespace, memory_id, model_id, sensitive, revision, embedding)
			SELECT m.namespace, m.id, CAST($1 AS integer), m.sensitive, e.revision, e.embedding
			FROM unnest($3::uuid[], $4::bigint[], $5::boolean[], $6::halfvec[]) AS e (id, revision, sensitive, embedding) CROSS JOIN memory.memories m
			WHERE m.namespace = $2 AND m.id = e.id AND m.sensitive = e.sensitive ORDER BY m.id FOR KEY SHARE OF m
			ON CONFLICT (namespace, memory_id, model_id) DO UPDATE SET revision = excluded.revision, embedding = excluded.embedding
			WHERE v.revision <= excluded.revision RETURNING memory_id`, model, e.Namespace, put)
		put = nil
	}
	return tx.In(postgres.AllNamespaces).Send(ctx, &b)
}

// build registers a model as building, or finds it building or active. It fails if another is building.
func (m *Models) build(ctx context.Context, model embed.Model) (id int64, status Status, err error) {
	err = m.change(ctx, func(tx sqldb.Tx) error {
		id, status, err = buildIn(ctx, tx, model)
		return err
	})
	return id, status, err
}

func buildIn(ctx context.Context, tx sqldb.Tx, model embed.Model) (id int64, status Status, err error) {
	active, isActive, err := withStatus(ctx, tx.In(postgres.Entered), Active)
	if err != nil {
		return 0, "", err
	}
	other, isBuilding, err := withStatus(ctx, tx.In(postgres.Entered), Building)
	if err != nil {
		return 0, "", err
	}
	switch {
	case isActive && sameSpace(active.Model, model):
		status = Active
	case isBuilding && !sameSpace(other.Model, model):
		return 0, "", fmt.Errorf("%s is being built already: finish that with `triskele reembed` and its --embedder, or give it up with `triskele models cancel`", other.Model)
	default:
		status = Building
	}
	if id, err = register(ctx, tx, model, status); err != nil {
		return 0, "", err
	}
	if tx.SQLite == nil {
		if err := exec(ctx, tx, `UPDATE dense.models SET indexed = true
			WHERE id = $1 AND EXISTS (SELECT 1 FROM dense.models WHERE status = 'active' AND indexed)`, id); err != nil {
			return 0, "", err
		}
	}
	if !model.Local {
		return id, status, nil
	}
	return id, status, exec(ctx, tx, `INSERT INTO dense.model_rows (model_id, sensitive, local)
		SELECT $1, true, true FROM memory.indexes WHERE name = 'dense' AND sensitive ON CONFLICT DO NOTHING`, id)
}

// fromLacking selects the memories of namespace $2 without a current vector of model $1. Those without text to embed are among them.
const fromLacking = `FROM memory.memories m
	WHERE m.namespace = $2 AND EXISTS (SELECT 1 FROM dense.model_rows r WHERE r.model_id = $1 AND r.sensitive = m.sensitive)
		AND NOT EXISTS (SELECT 1 FROM dense.vectors v
			WHERE v.namespace = m.namespace AND v.memory_id = m.id AND v.model_id = $1 AND v.revision >= m.revision)`

// activate replaces the active model by the building one, and enqueues memories without a vector. A remote model loses sensitive ones.
func (m *Models) activate(ctx context.Context, model int64) (queued int64, err error) {
	err = m.change(ctx, func(tx sqldb.Tx) error {
		queued, err = activateIn(ctx, tx, model)
		return err
	})
	return queued, err
}

func activateIn(ctx context.Context, tx sqldb.Tx, model int64) (queued int64, err error) {
	state, err := stateIn(ctx, tx.In(postgres.Entered), model, "")
	if err != nil {
		return 0, err
	}
	if state.status != Building {
		return 0, &statusError{state.status}
	}
	if err := exec(ctx, tx, `UPDATE dense.models SET status = 'retired' WHERE status = 'active'`); err != nil {
		return 0, err
	}
	if err := exec(ctx, tx, `UPDATE dense.models SET status = 'active' WHERE id = $1`, model); err != nil {
		return 0, err
	}
	if !state.sensitive {
		if _, err := forbidSensitive(ctx, tx); err != nil {
			return 0, err
		}
	}
	return enqueueLacking(ctx, tx, model, "")
}

// enqueueLacking enqueues lacking memories under a new sequence number, so that a worker finishing an earlier task for another
// model keeps them. It locks memories before tasks, as writers do, and goes by namespace: locks are had within one.
func enqueueLacking(ctx context.Context, tx sqldb.Tx, model int64, and string) (queued int64, err error) {
	next := tx.DB().Dialect(`SELECT nextval('memory.write_sequence')`, `UPDATE write_sequence SET last = last + 1 RETURNING last`)
	db, sequence := tx.In(postgres.Entered), int64(0)
	if _, err := db.Get(ctx, next, nil, &sequence); err != nil {
		return 0, err
	}
	all, err := tx.DB().Namespaces(ctx)
	for _, namespace := range all {
		n, err := db.Exec(ctx, `
			INSERT INTO memory.index_queue AS q (namespace, memory_id, index_name, sensitive, revision, sequence, since, enqueued_at, not_before)
			SELECT m.namespace, m.id, 'dense', m.sensitive, m.revision, $3, m.sequence, now(), now() `+fromLacking+` `+and+` ORDER BY m.id FOR KEY SHARE OF m
			ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
			SET revision = greatest(q.revision, excluded.revision), sequence = greatest(q.sequence, excluded.sequence),
				since = least(q.since, excluded.since), not_before = excluded.not_before, attempts = 0, dead = false, last_error = ''`, model, namespace, sequence)
		if err != nil {
			return 0, err
		}
		queued += n
	}
	return queued, err
}

// deleteVectors deletes up to n vectors of a retired model in a namespace, after a given memory. It returns the last memory.
func (m *Models) deleteVectors(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) (last uuid.UUID, deleted int, err error) {
	err = m.store.Write(ctx, "", func(tx sqldb.Tx) error {
		ids, err := tx.In(postgres.Entered).IDs(ctx, `
			DELETE FROM dense.vectors WHERE namespace = $2 AND model_id = $1 AND memory_id IN (
				SELECT memory_id FROM dense.vectors WHERE namespace = $2 AND model_id = $1 AND memory_id > $3 ORDER BY memory_id LIMIT $4
			) RETURNING memory_id`, model, namespace, after[:], n)
		if last, deleted = after, len(ids); deleted > 0 {
			last = slices.MaxFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		}
		tx.Note(namespace, replica.Vectors, ids...)
		return err
	})
	return last, deleted, err
}

// AllowSensitive lets local active and building models embed sensitive memories, and enqueues these. It returns their number.
func (m *Models) AllowSensitive(ctx context.Context) (queued int64, err error) {
	err = m.change(ctx, func(tx sqldb.Tx) error {
		active, ok, err := withStatus(ctx, tx.In(postgres.Entered), Active)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoActive
		case !active.Model.Local:
			return fmt.Errorf("sensitive memories cannot be embedded with %s: it sends texts to another host", active.Model)
		}
		if err := exec(ctx, tx, `INSERT INTO dense.model_rows (model_id, sensitive, local)
			SELECT id, true, local FROM dense.models WHERE local AND status <> 'retired' ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		if err := exec(ctx, tx, `INSERT INTO memory.indexes (name, sensitive) VALUES ('dense', true) ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		queued, err = enqueueLacking(ctx, tx, active.ID, "AND m.sensitive")
		return err
	})
	return queued, err
}

// ForbidSensitive deletes all vectors and tasks of sensitive memories, and prevents new ones. It returns the number of vectors.
func (m *Models) ForbidSensitive(ctx context.Context) (deleted int64, err error) {
	err = m.change(ctx, func(tx sqldb.Tx) error {
		deleted, err = forbidSensitive(ctx, tx)
		return err
	})
	return deleted, err
}

func forbidSensitive(ctx context.Context, tx sqldb.Tx) (int64, error) {
	deleted, err := sqldb.Query(ctx, tx.In(postgres.Entered), `DELETE FROM dense.vectors WHERE sensitive RETURNING namespace, memory_id`, nil,
		sqldb.Into(func(k *record.Key) []any { return []any{&k.Namespace, &k.ID} }))
	if err != nil {
		return 0, err
	}
	for _, k := range deleted {
		tx.Note(k.Namespace, replica.Vectors, k.ID)
	}
	if err := exec(ctx, tx, `DELETE FROM dense.model_rows WHERE sensitive`); err != nil {
		return 0, err
	}
	return int64(len(deleted)), exec(ctx, tx, `DELETE FROM memory.indexes WHERE name = 'dense' AND sensitive`) // a foreign key deletes tasks
}

// outdated returns the reason why the configured model is no longer active.
func (m *Models) outdated(ctx context.Context, configured embed.Model) (string, error) {
	active, ok, err := withStatus(ctx, m.db(), Active)
	if err != nil {
		return "", err
	}
	now := "has been retired"
	if ok {
		now = "has been replaced by " + active.Model.String()
	}
	return fmt.Sprintf("embedding model %s %s, and its vectors are not kept up to date: restart this process with the --embedder of the active model",
		configured, now), nil
}
