package dense

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// postgresModels is the catalog in dense.models. Services only start, read a state and put vectors. The other methods
// need the tables' owner, who bypasses row policies.
type postgresModels struct{ pool *pgxpool.Pool }

var _ catalog = postgresModels{}

// NewPostgresModels returns the models of a database.
func NewPostgresModels(pool *pgxpool.Pool) *Models { return &Models{postgresModels{pool}} }

// maxModelAttempts bounds the attempts after conflicts between transactions.
const maxModelAttempts = 5

// modelColumns are the columns of scanModel.
const modelColumns = `id, provider, name, dimensions, document_prefix, query_prefix, local, status`

func scanModel(row interface{ Scan(...any) error }, more ...any) (info ModelInfo, err error) {
	m := &info.Model
	err = row.Scan(append([]any{&info.ID, &m.Provider, &m.Name, &m.Dimensions, &m.DocumentPrefix, &m.QueryPrefix, &m.Local, &info.Status}, more...)...)
	return info, err
}

// change runs fn in a transaction that locks models and their vectors.
func (p postgresModels) change(ctx context.Context, fn func(pgx.Tx, postgres.Changes) error) error {
	var err error
	for range maxModelAttempts {
		// Nodes change vectors one at a time, on the connection that changes the tables of which each has a copy.
		err = postgres.Write(ctx, p.pool, "; SET LOCAL citus.multi_shard_modify_mode = 'sequential'", func(tx pgx.Tx, changes postgres.Changes) error {
			if _, err := tx.Exec(ctx, `LOCK TABLE dense.models IN EXCLUSIVE MODE`); err != nil {
				return err
			}
			return fn(tx, changes)
		})
		if !postgres.IsRetryable(err) {
			return err
		}
	}
	return err
}

type postgresQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// withStatus returns the model with a unique status, or false.
func (postgresModels) withStatus(ctx context.Context, q postgresQuerier, status Status) (ModelInfo, bool, error) {
	info, err := scanModel(q.QueryRow(ctx, `SELECT `+modelColumns+` FROM dense.models WHERE status = $1`, status))
	if errors.Is(err, pgx.ErrNoRows) {
		return info, false, nil
	}
	return info, err == nil, err
}

// register upserts a model with a status and returns its id.
func (postgresModels) register(ctx context.Context, tx pgx.Tx, m embed.Model, status Status) (id int64, err error) {
	if !m.Local {
		var sensitive bool
		if err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM dense.models JOIN dense.model_rows r ON r.model_id = id AND r.sensitive
				WHERE (provider, name, dimensions, document_prefix, query_prefix) = ($1, $2, $3, $4, $5))`,
			m.Provider, m.Name, m.Dimensions, m.DocumentPrefix, m.QueryPrefix).Scan(&sensitive); err != nil {
			return 0, err
		}
		if sensitive {
			return 0, errLocalTexts
		}
	}
	err = tx.QueryRow(ctx, `
		INSERT INTO dense.models (provider, name, dimensions, document_prefix, query_prefix, local, status) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (provider, name, dimensions, document_prefix, query_prefix) DO UPDATE SET status = excluded.status, local = excluded.local
		RETURNING id`, m.Provider, m.Name, m.Dimensions, m.DocumentPrefix, m.QueryPrefix, m.Local, status).Scan(&id)
	if err != nil {
		return 0, err
	}
	var allowed bool // ON CONFLICT would need the right to update on a distributed engine
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM dense.model_rows WHERE model_id = $1 AND NOT sensitive)`, id).Scan(&allowed); err != nil || allowed {
		return id, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO dense.model_rows (model_id, local) VALUES ($1, $2)`, id, m.Local)
	return id, err
}

// start returns the active model's id if it is the configured one, and activates that if none is active. reads may be
// a standby.
func (p postgresModels) start(ctx context.Context, reads *pgxpool.Pool, configured embed.Model) (id int64, err error) {
	active, ok, err := p.withStatus(ctx, reads, Active)
	if err != nil {
		return 0, err
	}
	if ok && sameSpace(active.Model, configured) && active.Model.Local == configured.Local {
		return active.ID, nil
	}
	err = p.change(ctx, func(tx pgx.Tx, _ postgres.Changes) error {
		active, ok, err := p.withStatus(ctx, tx, Active) // again under the lock, for concurrent starts
		if err != nil {
			return err
		}
		if ok && !sameSpace(active.Model, configured) {
			return modelError(active.Model, configured)
		}
		id, err = p.register(ctx, tx, configured, Active)
		return err
	})
	return id, err
}

// indexed is the SQL expression of a model's index.
func indexed(m embed.Model) string {
	if m.QueryDimensions > 0 {
		return fmt.Sprintf(`subvector(embedding::halfvec(%d), 1, %[2]d)::halfvec(%[2]d)`, m.Dimensions, m.QueryDimensions)
	}
	return fmt.Sprintf(`embedding::halfvec(%d)`, m.Dimensions)
}

// hnsw is the index definition. Searches must repeat its expression and condition.
//
// Vectors have length 1, so the inner product orders them as the cosine does, and it may leave out components in which
// queries are zero: among neighbours that differ only there, a search would get lost.
func hnsw(id int64, m embed.Model) string {
	return fmt.Sprintf(`USING hnsw ((%s) halfvec_ip_ops) WITH (m = 24, ef_construction = 128) WHERE model_id = %d`, indexed(m), id)
}

func (p postgresModels) list(ctx context.Context) ([]ModelInfo, error) {
	rows, err := p.pool.Query(ctx, `
		SELECT `+modelColumns+`, created_at, coalesce(n, 0), EXISTS (SELECT FROM dense.model_rows r WHERE r.model_id = id AND r.sensitive)
		FROM dense.models LEFT JOIN (SELECT model_id, count(*) AS n FROM dense.vectors GROUP BY model_id) v ON model_id = id ORDER BY id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (ModelInfo, error) {
		var more ModelInfo
		info, err := scanModel(row, &more.CreatedAt, &more.Vectors, &more.Sensitive)
		info.CreatedAt, info.Vectors, info.Sensitive = more.CreatedAt.UTC(), more.Vectors, more.Sensitive
		return info, err
	})
}

func (p postgresModels) active(ctx context.Context) (embed.Model, bool, error) {
	info, ok, err := p.withStatus(ctx, p.pool, Active)
	return info.Model, ok, err
}

func (p postgresModels) state(ctx context.Context, model int64) (modelState, error) {
	return p.stateIn(ctx, p.pool, model, "")
}

func (postgresModels) stateIn(ctx context.Context, q postgresQuerier, model int64, lock string) (s modelState, err error) {
	err = q.QueryRow(ctx, `
		SELECT status, EXISTS (SELECT FROM dense.model_rows r WHERE r.model_id = m.id AND r.sensitive)
		FROM dense.models m WHERE id = $1 `+lock, model).Scan(&s.status, &s.sensitive)
	if errors.Is(err, pgx.ErrNoRows) {
		return modelState{}, nil
	}
	return s, err
}

func (p postgresModels) put(ctx context.Context, model int64, embeddings []embedding, status Status) error {
	return postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
		return p.putIn(ctx, tx, changes, model, embeddings, status)
	})
}

// putIn is put in a transaction.
func (p postgresModels) putIn(ctx context.Context, tx pgx.Tx, changes postgres.Changes, model int64, embeddings []embedding, status Status) error {
	state, err := p.stateIn(ctx, tx, model, "FOR SHARE OF m")
	if err != nil {
		return err
	}
	if state.status != status {
		return &statusError{state.status}
	}
	some, none := map[string]*columns{}, map[string]*columns{} // by namespace
	for _, e := range embeddings {
		into := some
		if e.vector == nil {
			into = none
		}
		if e.sensitive && !state.sensitive {
			continue
		}
		if into[e.namespace] == nil {
			into[e.namespace] = &columns{}
		}
		into[e.namespace].add(e)
	}
	batch := &pgx.Batch{}
	postgres.SetNamespace(batch, postgres.AllNamespaces)
	queue := func(namespace, statement string, args ...any) {
		batch.Queue(statement, append([]any{model, namespace}, args...)...).Query(func(rows pgx.Rows) error { return addVectors(changes, rows) })
	}
	for _, namespace := range slices.Sorted(maps.Keys(none)) {
		queue(namespace, `
				DELETE FROM dense.vectors v USING unnest($3::uuid[], $4::bigint[]) e (id, revision)
				WHERE v.namespace = $2 AND v.memory_id = e.id AND v.model_id = $1 AND v.revision <= e.revision RETURNING v.namespace, v.memory_id`,
			none[namespace].ids, none[namespace].revisions)
	}
	for _, namespace := range slices.Sorted(maps.Keys(some)) {
		// The lock waits for a concurrent delete or change of sensitivity, and then selects nothing. A newer revision with
		// changed text is still queued and will replace this vector.
		c := some[namespace]
		queue(namespace, `
				INSERT INTO dense.vectors AS v (namespace, memory_id, model_id, sensitive, revision, embedding)
				SELECT m.namespace, m.id, $1::integer, m.sensitive, e.revision, e.embedding
				FROM unnest($3::uuid[], $4::bigint[], $5::boolean[], $6::halfvec[]) e (id, revision, sensitive, embedding)
				JOIN memory.memories m ON m.id = e.id AND m.sensitive = e.sensitive
				WHERE m.namespace = $2 ORDER BY m.id FOR KEY SHARE OF m
				ON CONFLICT (namespace, memory_id, model_id) DO UPDATE SET revision = excluded.revision, embedding = excluded.embedding
				WHERE v.revision <= excluded.revision RETURNING v.namespace, v.memory_id`,
			c.ids, c.revisions, c.sensitive, c.vectors)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// addVectors adds changed vectors, as rows of namespace and memory.
func addVectors(changes postgres.Changes, rows pgx.Rows) error {
	var namespace string
	var id uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&namespace, &id}, func() error {
		changes.Add(namespace, string(replica.Vectors), id)
		return nil
	})
	return err
}

// columns are embeddings of one namespace as arrays.
type columns struct {
	ids       []uuid.UUID
	revisions []int64
	sensitive []bool
	vectors   []pgvector.HalfVector
}

func (c *columns) add(e embedding) {
	c.ids, c.revisions = append(c.ids, e.id), append(c.revisions, e.revision)
	c.sensitive, c.vectors = append(c.sensitive, e.sensitive), append(c.vectors, pgvector.NewHalfVector(e.vector))
}

// buildingLock is the advisory lock of the re-embedding process.
const buildingLock = 0x7472_6973_6b65_6c65

// alone holds the lock in a transaction, because PgBouncer may not keep a session. The simple protocol leaves no portal
// open: its snapshot would block CREATE INDEX CONCURRENTLY.
func (p postgresModels) alone(ctx context.Context, fn func() error) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		var locked bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, pgx.QueryExecModeSimpleProtocol, buildingLock).Scan(&locked); err != nil {
			return err
		}
		if !locked {
			return errNotAlone
		}
		return fn()
	})
}

func (p postgresModels) build(ctx context.Context, model embed.Model) (id int64, status Status, err error) {
	err = p.change(ctx, func(tx pgx.Tx, _ postgres.Changes) error {
		active, isActive, err := p.withStatus(ctx, tx, Active)
		if err != nil {
			return err
		}
		other, isBuilding, err := p.withStatus(ctx, tx, Building)
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
		if id, err = p.register(ctx, tx, model, status); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE dense.models SET indexed = true WHERE id = $1 AND EXISTS (SELECT FROM dense.models WHERE status = 'active' AND indexed)`,
			id); err != nil || !model.Local {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO dense.model_rows (model_id, sensitive, local) SELECT $1, true, true FROM memory.indexes WHERE name = 'dense' AND sensitive
			ON CONFLICT DO NOTHING`, id)
		return err
	})
	return id, status, err
}

func (p postgresModels) asSensitive(ctx context.Context, records []record.Record) (bool, error) {
	return queue.NewPostgres(p.pool).AsSensitive(ctx, records)
}

func (p postgresModels) namespaces(ctx context.Context) ([]string, error) {
	rows, err := p.pool.Query(ctx, `SELECT name FROM memory.namespaces ORDER BY name`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// lackingPostgres selects what model $1 lacks.
const lackingPostgres = `FROM memory.memories m
	WHERE EXISTS (SELECT FROM dense.model_rows r WHERE r.model_id = $1 AND r.sensitive = m.sensitive)
		AND NOT EXISTS (SELECT FROM dense.vectors v
			WHERE v.namespace = m.namespace AND v.memory_id = m.id AND v.model_id = $1 AND v.revision >= m.revision)`

func (p postgresModels) countLacking(ctx context.Context, model int64, namespace string) (n int64, err error) {
	err = p.pool.QueryRow(ctx, `SELECT count(*) `+lackingPostgres+` AND m.namespace = $2`, model, namespace).Scan(&n)
	return n, err
}

func (p postgresModels) lacking(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) ([]record.Record, error) {
	rows, err := p.pool.Query(ctx, `SELECT `+record.Columns+` `+lackingPostgres+` AND m.namespace = $2 AND m.id > $3 ORDER BY m.id LIMIT $4`,
		model, namespace, after, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, postgres.ScanRecord)
}

// prepare builds each partition's index concurrently and attaches them to the table's index. An index is wanted once a
// namespace was too large for memory.
func (p postgresModels) prepare(ctx context.Context, id int64, model embed.Model) error {
	var wanted bool
	if err := p.pool.QueryRow(ctx, `SELECT indexed FROM dense.models WHERE id = $1`, id).Scan(&wanted); err != nil || !wanted {
		return err
	}
	parts, err := p.parts(ctx, id)
	if err != nil {
		return err
	}
	partitioned := len(parts) > 1
	if partitioned {
		if _, err := p.pool.Exec(ctx, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS vectors_near_%d ON ONLY dense.vectors %s`, id, hnsw(id, model))); err != nil {
			return err
		}
	}
	for _, part := range parts {
		if part.attached {
			continue
		}
		if part.broken { // left by an interrupted build
			if _, err := p.pool.Exec(ctx, `DROP INDEX CONCURRENTLY dense.`+part.index); err != nil {
				return err
			}
		}
		if part.broken || !part.exists {
			if _, err := p.pool.Exec(ctx, fmt.Sprintf(`CREATE INDEX CONCURRENTLY %s ON dense.%s %s`, part.index, part.table, hnsw(id, model))); err != nil {
				return err
			}
		}
		if !partitioned {
			continue
		}
		if _, err := p.pool.Exec(ctx, fmt.Sprintf(`ALTER INDEX dense.vectors_near_%d ATTACH PARTITION dense.%s`, id, part.index)); err != nil {
			return err
		}
	}
	return nil
}

// partition is one and its index.
type partition struct {
	table, index             string
	exists, broken, attached bool
}

// parts returns the partitions; the table itself if it has none, being distributed. An index attached under another name counts.
func (p postgresModels) parts(ctx context.Context, model int64) ([]partition, error) {
	rows, err := p.pool.Query(ctx, `
		SELECT t.relname, t.relname || $1, i.indexrelid IS NOT NULL, coalesce(NOT i.indisvalid, false),
			EXISTS (SELECT FROM pg_inherits ti JOIN pg_index x ON x.indexrelid = ti.inhrelid
				WHERE ti.inhparent = to_regclass('dense.vectors' || $1) AND x.indrelid = t.oid)
		FROM pg_inherits h JOIN pg_class t ON t.oid = h.inhrelid
		LEFT JOIN pg_index i ON i.indexrelid = to_regclass('dense.' || t.relname || $1)
		WHERE h.inhparent = 'dense.vectors'::regclass
		UNION ALL
		SELECT t.relname, t.relname || $1, i.indexrelid IS NOT NULL, coalesce(NOT i.indisvalid, false), coalesce(i.indisvalid, false)
		FROM pg_class t LEFT JOIN pg_index i ON i.indexrelid = to_regclass('dense.' || t.relname || $1)
		WHERE t.oid = 'dense.vectors'::regclass AND t.relkind = 'r' ORDER BY 1`, fmt.Sprintf("_near_%d", model))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (part partition, err error) {
		err = row.Scan(&part.table, &part.index, &part.exists, &part.broken, &part.attached)
		return part, err
	})
}

func (p postgresModels) activate(ctx context.Context, model int64) (queued int64, err error) {
	err = p.change(ctx, func(tx pgx.Tx, changes postgres.Changes) error {
		state, err := p.stateIn(ctx, tx, model, "")
		if err != nil {
			return err
		}
		if state.status != Building {
			return &statusError{state.status}
		}
		if _, err := tx.Exec(ctx, `UPDATE dense.models SET status = 'retired' WHERE status = 'active'`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE dense.models SET status = 'active' WHERE id = $1`, model); err != nil {
			return err
		}
		if !state.sensitive {
			if _, err := p.forbid(ctx, tx, changes); err != nil {
				return err
			}
		}
		queued, err = p.enqueueLacking(ctx, tx, model, "")
		return err
	})
	return queued, err
}

// enqueueLacking enqueues lacking memories under a new sequence number, so that a worker finishing an earlier task for another
// model keeps them. It locks memories before tasks, as writers do, and goes by namespace: locks are had within one.
func (postgresModels) enqueueLacking(ctx context.Context, tx pgx.Tx, model int64, and string) (queued int64, err error) {
	var sequence int64
	if err := tx.QueryRow(ctx, `SELECT nextval('memory.write_sequence')`).Scan(&sequence); err != nil {
		return 0, err
	}
	rows, err := tx.Query(ctx, `SELECT name FROM memory.namespaces ORDER BY name`)
	if err != nil {
		return 0, err
	}
	namespaces, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(namespaces) == 0 {
		return 0, err
	}
	batch := &pgx.Batch{}
	for _, namespace := range namespaces {
		batch.Queue(`
			INSERT INTO memory.index_queue AS q (namespace, memory_id, index_name, sensitive, revision, sequence, since)
			SELECT m.namespace, m.id, 'dense', m.sensitive, m.revision, $3::bigint, m.sequence `+lackingPostgres+` AND m.namespace = $2 `+and+`
			ORDER BY m.id FOR KEY SHARE OF m
			ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
			SET revision = greatest(q.revision, excluded.revision), sequence = greatest(q.sequence, excluded.sequence),
				since = least(q.since, excluded.since), not_before = excluded.not_before, attempts = 0, dead = false, last_error = ''`,
			model, namespace, sequence).Exec(func(tag pgconn.CommandTag) error {
			queued += tag.RowsAffected()
			return nil
		})
	}
	return queued, tx.SendBatch(ctx, batch).Close()
}

func (p postgresModels) retire(ctx context.Context) (info ModelInfo, ok bool, err error) {
	err = p.change(ctx, func(tx pgx.Tx, _ postgres.Changes) error {
		if info, ok, err = p.withStatus(ctx, tx, Building); err != nil || !ok {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE dense.models SET status = 'retired' WHERE id = $1`, info.ID); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM dense.vectors WHERE model_id = $1`, info.ID).Scan(&info.Vectors)
	})
	return info, ok, err
}

// unprepare drops the index. Its lock timeout is short, so that searches do not queue behind it.
func (p postgresModels) unprepare(ctx context.Context, model int64) error {
	parts, err := p.parts(ctx, model)
	if err != nil {
		return err
	}
	for range 10 * maxModelAttempts {
		err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '200ms'`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, fmt.Sprintf(`DROP INDEX IF EXISTS dense.vectors_near_%d`, model))
			return err
		})
		if !postgres.IsLockTimeout(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	for _, part := range parts {
		if !part.exists || part.attached {
			continue
		}
		if _, err := p.pool.Exec(ctx, `DROP INDEX CONCURRENTLY IF EXISTS dense.`+part.index); err != nil {
			return err
		}
	}
	return nil
}

func (p postgresModels) deleteVectors(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) (last uuid.UUID, deleted int64, err error) {
	err = postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
		last, deleted = after, 0
		rows, err := tx.Query(ctx, `
			DELETE FROM dense.vectors WHERE namespace = $2 AND model_id = $1 AND memory_id IN (
				SELECT memory_id FROM dense.vectors WHERE namespace = $2 AND model_id = $1 AND memory_id > $3 ORDER BY memory_id LIMIT $4
			) RETURNING memory_id`, model, namespace, after, n)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		for _, id := range ids {
			if deleted++; bytes.Compare(id[:], last[:]) > 0 {
				last = id
			}
		}
		changes.Add(namespace, string(replica.Vectors), ids...)
		return err
	})
	return last, deleted, err
}

func (p postgresModels) forget(ctx context.Context, model int64) error {
	return p.change(ctx, func(tx pgx.Tx, _ postgres.Changes) error {
		_, err := tx.Exec(ctx, `DELETE FROM dense.models WHERE id = $1 AND status = 'retired'`, model)
		return err
	})
}

func (p postgresModels) allowSensitive(ctx context.Context) (queued int64, err error) {
	err = p.change(ctx, func(tx pgx.Tx, _ postgres.Changes) error {
		active, ok, err := p.withStatus(ctx, tx, Active)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoActive
		case !active.Model.Local:
			return errNotLocal
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO dense.model_rows (model_id, sensitive, local)
			SELECT id, true, local FROM dense.models WHERE local AND status <> 'retired' ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO memory.indexes (name, sensitive) VALUES ('dense', true) ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		queued, err = p.enqueueLacking(ctx, tx, active.ID, "AND m.sensitive")
		return err
	})
	return queued, err
}

func (p postgresModels) forbidSensitive(ctx context.Context) (deleted int64, err error) {
	err = p.change(ctx, func(tx pgx.Tx, changes postgres.Changes) error {
		deleted, err = p.forbid(ctx, tx, changes)
		return err
	})
	return deleted, err
}

func (postgresModels) forbid(ctx context.Context, tx pgx.Tx, changes postgres.Changes) (int64, error) {
	rows, err := tx.Query(ctx, `DELETE FROM dense.vectors WHERE sensitive RETURNING namespace, memory_id`)
	if err != nil {
		return 0, err
	}
	if err := addVectors(changes, rows); err != nil {
		return 0, err
	}
	for _, statement := range []string{
		`DELETE FROM dense.model_rows WHERE sensitive`,
		`DELETE FROM memory.indexes WHERE name = 'dense' AND sensitive`, // tasks are deleted by foreign key
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return 0, err
		}
	}
	return rows.CommandTag().RowsAffected(), nil
}
