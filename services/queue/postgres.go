package queue

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/postgres"
	"github.com/triskele/triskele/services/record"
)

// Postgres is the list of tasks in PostgreSQL.
type Postgres struct{ pool *pgxpool.Pool }

var _ Store = (*Postgres)(nil)

// NewPostgres returns the list of tasks in a database.
func NewPostgres(pool *pgxpool.Pool) *Postgres { return &Postgres{pool} }

// EnqueuePostgres notes, in the transaction that changes the records, that the indexes have to catch up with them.
// Sensitive records are left out: the database would refuse them.
func EnqueuePostgres(ctx context.Context, tx pgx.Tx, indexes []string, records []record.Record) error {
	var namespaces, names []string
	var ids []uuid.UUID
	var revisions []int64
	for _, r := range records {
		if r.Sensitive {
			continue
		}
		for _, index := range indexes {
			namespaces, names, ids, revisions = append(namespaces, r.Namespace), append(names, index), append(ids, r.ID), append(revisions, r.Revision)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO memory.index_queue (namespace, index_name, memory_id, revision)
		SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bigint[]) AS t (namespace, index_name, memory_id, revision)
		ORDER BY namespace, memory_id, index_name
		ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
		SET revision = excluded.revision, enqueued_at = now(), not_before = now(), attempts = 0, dead = false, last_error = ''`,
		namespaces, names, ids, revisions)
	return err
}

// Claim implements Store.
func (q *Postgres) Claim(ctx context.Context, index string, n int, lease time.Duration) ([]Task, error) {
	rows, err := q.pool.Query(ctx, `
		WITH due AS MATERIALIZED (
			SELECT namespace, memory_id FROM memory.index_queue
			WHERE index_name = $1 AND NOT dead AND not_before <= now()
			ORDER BY not_before, namespace, memory_id LIMIT $2 FOR UPDATE SKIP LOCKED
		), claimed AS (
			UPDATE memory.index_queue q SET not_before = now() + $3::interval
			FROM due WHERE q.namespace = due.namespace AND q.index_name = $1 AND q.memory_id = due.memory_id
			RETURNING q.namespace, q.memory_id, q.attempts, q.enqueued_at
		)
		SELECT `+postgres.RecordColumns+`, c.attempts, c.enqueued_at
		FROM claimed c JOIN memory.memories m ON m.namespace = c.namespace AND m.id = c.memory_id
		ORDER BY m.namespace, m.id`, index, n, lease)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Task, error) {
		var t Task
		targets, finish := postgres.RecordTargets(&t.Record)
		if err := row.Scan(append(targets, &t.Attempts, &t.EnqueuedAt)...); err != nil {
			return Task{}, err
		}
		finish()
		return t, nil
	})
}

// Done implements Store.
func (q *Postgres) Done(ctx context.Context, index string, tasks []Task) error {
	namespaces, ids, revisions := make([]string, len(tasks)), make([]uuid.UUID, len(tasks)), make([]int64, len(tasks))
	for i, t := range tasks {
		namespaces[i], ids[i], revisions[i] = t.Record.Namespace, t.Record.ID, t.Record.Revision
	}
	_, err := q.pool.Exec(ctx, `
		DELETE FROM memory.index_queue q
		USING unnest($2::text[], $3::uuid[], $4::bigint[]) AS d (namespace, memory_id, revision)
		WHERE q.namespace = d.namespace AND q.index_name = $1 AND q.memory_id = d.memory_id AND q.revision <= d.revision`,
		index, namespaces, ids, revisions)
	return err
}

// Fail implements Store.
func (q *Postgres) Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error {
	_, err := q.pool.Exec(ctx, `
		UPDATE memory.index_queue SET attempts = attempts + 1, not_before = $5, dead = $6, last_error = $7
		WHERE namespace = $1 AND index_name = $2 AND memory_id = $3 AND revision <= $4`,
		task.Record.Namespace, index, task.Record.ID, task.Record.Revision, retryAt, dead, reason)
	return err
}

// Status implements Store.
func (q *Postgres) Status(ctx context.Context, index, namespace string) (Status, error) {
	var s Status
	err := q.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE NOT dead), count(*) FILTER (WHERE dead),
			coalesce(now() - min(enqueued_at) FILTER (WHERE NOT dead), '0')
		FROM memory.index_queue WHERE namespace = $1 AND index_name = $2`, namespace, index).Scan(&s.Pending, &s.Dead, &s.Lag)
	return s, err
}
