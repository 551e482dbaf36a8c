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

// EnqueuePostgres notes, in the transaction that changes the records, that the indexes have to catch up with them: those
// that memory.indexes has, and of sensitive records only those that it lets them into.
func EnqueuePostgres(ctx context.Context, tx pgx.Tx, records []record.Record) error {
	n := len(records)
	namespaces, ids, sensitive := make([]string, n), make([]uuid.UUID, n), make([]bool, n)
	revisions, sequences := make([]int64, n), make([]int64, n)
	for i, r := range records {
		namespaces[i], ids[i], sensitive[i], revisions[i], sequences[i] = r.Namespace, r.ID, r.Sensitive, r.Revision, r.Sequence
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO memory.index_queue AS q (namespace, memory_id, index_name, sensitive, revision, sequence, since)
		SELECT t.namespace, t.memory_id, i.name, t.sensitive, t.revision, t.sequence, t.sequence
		FROM unnest($1::text[], $2::uuid[], $3::boolean[], $4::bigint[], $5::bigint[]) AS t (namespace, memory_id, sensitive, revision, sequence)
		JOIN memory.indexes i ON i.sensitive = t.sensitive
		ORDER BY t.namespace, t.memory_id, i.name
		ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
		SET revision = excluded.revision, sequence = excluded.sequence, not_before = now(), attempts = 0, dead = false, last_error = ''`,
		namespaces, ids, sensitive, revisions, sequences)
	return err
}

// DropPostgres takes a record out of an index's list if only the write that made its revision put it there. It is for a
// write that is none of the index's business.
func DropPostgres(ctx context.Context, tx pgx.Tx, index string, r record.Record) error {
	_, err := tx.Exec(ctx, `DELETE FROM memory.index_queue WHERE namespace = $1 AND memory_id = $2 AND index_name = $3 AND since = $4`,
		r.Namespace, r.ID, index, r.Sequence)
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
			RETURNING q.namespace, q.memory_id, q.attempts, q.enqueued_at, q.sequence
		)
		SELECT `+postgres.RecordColumns+`, c.attempts, c.enqueued_at, c.sequence
		FROM claimed c JOIN memory.memories m ON m.namespace = c.namespace AND m.id = c.memory_id
		ORDER BY m.namespace, m.id`, index, n, lease)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Task, error) {
		var t Task
		targets, finish := postgres.RecordTargets(&t.Record)
		if err := row.Scan(append(targets, &t.Attempts, &t.EnqueuedAt, &t.Sequence)...); err != nil {
			return Task{}, err
		}
		finish()
		return t, nil
	})
}

// Done implements Store.
func (q *Postgres) Done(ctx context.Context, index string, tasks []Task) error {
	namespaces, ids := make([]string, len(tasks)), make([]uuid.UUID, len(tasks))
	revisions, sequences := make([]int64, len(tasks)), make([]int64, len(tasks))
	for i, t := range tasks {
		namespaces[i], ids[i], revisions[i], sequences[i] = t.Record.Namespace, t.Record.ID, t.Record.Revision, t.Sequence
	}
	_, err := q.pool.Exec(ctx, `
		DELETE FROM memory.index_queue q
		USING unnest($2::text[], $3::uuid[], $4::bigint[], $5::bigint[]) AS d (namespace, memory_id, revision, sequence)
		WHERE q.namespace = d.namespace AND q.index_name = $1 AND q.memory_id = d.memory_id
			AND q.revision <= d.revision AND q.sequence <= d.sequence`,
		index, namespaces, ids, revisions, sequences)
	return err
}

// Fail implements Store.
func (q *Postgres) Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error {
	_, err := q.pool.Exec(ctx, `
		UPDATE memory.index_queue SET attempts = attempts + 1, not_before = $6, dead = $7, last_error = $8
		WHERE namespace = $1 AND index_name = $2 AND memory_id = $3 AND revision <= $4 AND sequence <= $5`,
		task.Record.Namespace, index, task.Record.ID, task.Record.Revision, task.Sequence, retryAt, dead, reason)
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
