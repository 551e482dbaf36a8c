package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Postgres is the queue in PostgreSQL.
type Postgres struct {
	rows
	pool *pgxpool.Pool
}

var _ Store = (*Postgres)(nil)

// NewPostgres returns the queue of a database.
func NewPostgres(pool *pgxpool.Pool) *Postgres {
	db := sqldb.DB{Postgres: pool}
	return &Postgres{rows{db, db}, pool}
}

func enqueuePostgres(ctx context.Context, tx postgres.WriteTx, records []record.Record, takers []taker) error {
	names, sensitive := make([]string, len(takers)), make([]bool, len(takers))
	for i, t := range takers {
		names[i], sensitive[i] = t.index, t.sensitive
	}
	type columns struct {
		ids                  []uuid.UUID
		sensitive            []bool
		revisions, sequences []int64
	}
	in := map[string]*columns{} // by namespace
	for _, r := range records {
		if !slices.Contains(sensitive, r.Sensitive) {
			continue
		}
		c := in[r.Namespace]
		if c == nil {
			c = &columns{}
			in[r.Namespace] = c
		}
		c.ids, c.sensitive, c.revisions, c.sequences = append(c.ids, r.ID), append(c.sensitive, r.Sensitive), append(c.revisions, r.Revision), append(c.sequences, r.Sequence)
	}
	batch := &pgx.Batch{}
	for _, namespace := range slices.Sorted(maps.Keys(in)) { // a statement that joined the indexes would go to all nodes
		c := in[namespace]
		batch.Queue(`
			INSERT INTO memory.index_queue AS q (namespace, memory_id, index_name, sensitive, revision, sequence, since)
			SELECT n.name, m.id, i.name, m.sensitive, m.revision, m.sequence, m.sequence
			FROM memory.namespaces n CROSS JOIN unnest($4::uuid[], $5::boolean[], $6::bigint[], $7::bigint[]) AS m (id, sensitive, revision, sequence)
				JOIN unnest($2::text[], $3::boolean[]) AS i (name, sensitive) ON i.sensitive = m.sensitive
			WHERE n.name = $1 ORDER BY m.id, i.name
			ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
			SET revision = excluded.revision, sequence = excluded.sequence, not_before = excluded.not_before, attempts = 0, dead = false, last_error = ''`,
			namespace, names, sensitive, c.ids, c.sensitive, c.revisions, c.sequences)
	}
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, batch).Close()
}

// Claim implements Store. It looks for due tasks without locks, and then locks them within each namespace: a distributed engine
// locks rows of one node at a time. What another worker has locked meanwhile is left to it.
//
// The operator || keeps the planner from index_queue_since, which looks as good as the primary key to it, and has all tasks.
func (q *Postgres) Claim(ctx context.Context, index string, n int, lease time.Duration) (tasks []Task, err error) {
	rows, err := postgres.In(q.pool, postgres.AllNamespaces).Query(ctx, `
		SELECT namespace, memory_id FROM memory.index_queue WHERE index_name = $1 AND NOT dead AND not_before <= now()
		ORDER BY not_before, namespace, memory_id LIMIT $2`, index, n)
	if err != nil {
		return nil, err
	}
	due := map[string][]uuid.UUID{}
	var namespace string
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&namespace, &id}, func() error {
		due[namespace] = append(due[namespace], id)
		return nil
	}); err != nil || len(due) == 0 {
		return nil, err
	}
	batch := &pgx.Batch{}
	for _, namespace := range slices.Sorted(maps.Keys(due)) {
		batch.Queue(`
			WITH due AS MATERIALIZED (
				SELECT memory_id FROM memory.index_queue
				WHERE namespace = $1 AND index_name || '' = $2 AND memory_id = ANY ($3) AND NOT dead AND not_before <= now() ORDER BY memory_id FOR UPDATE SKIP LOCKED
			), claimed AS (
				UPDATE memory.index_queue q SET not_before = now() + $4::interval
				FROM due WHERE q.namespace = $1 AND q.index_name || '' = $2 AND q.memory_id = due.memory_id
				RETURNING q.memory_id, q.attempts, q.enqueued_at, q.sequence
			)
			SELECT `+record.Columns+`, c.attempts, c.enqueued_at, c.sequence
			FROM claimed c JOIN memory.memories m ON m.namespace = $1 AND m.id = c.memory_id
			ORDER BY m.id`, namespace, index, due[namespace], lease).Query(func(rows pgx.Rows) error {
			claimed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Task, err error) {
				t.Record, err = sqldb.ScanRecord(sqldb.FromPostgres(row), &t.Attempts, &t.EnqueuedAt, &t.Sequence)
				return t, err
			})
			tasks = append(tasks, claimed...)
			return err
		})
	}
	err = postgres.In(q.pool, postgres.AllNamespaces).Send(ctx, batch)
	var bad *record.UndecodableError
	if errors.As(err, &bad) {
		err = errors.Join(err, q.setAside(ctx, index, bad))
	}
	if err != nil {
		return nil, err
	}
	return tasks, nil
}

// Extend implements Store.
func (q *Postgres) Extend(ctx context.Context, index string, tasks []Task, lease time.Duration) error {
	return q.each(ctx, index, tasks, `
		UPDATE memory.index_queue q SET not_before = now() + $6::interval
		FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS t (memory_id, revision, sequence)
		WHERE q.namespace = $1 AND q.index_name = $2 AND q.memory_id = t.memory_id
			AND q.revision <= t.revision AND q.sequence <= t.sequence AND NOT q.dead`, lease)
}

// Done implements Store.
func (q *Postgres) Done(ctx context.Context, index string, tasks []Task) error {
	return q.each(ctx, index, tasks, `
		DELETE FROM memory.index_queue q USING unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS d (memory_id, revision, sequence)
		WHERE q.namespace = $1 AND q.index_name = $2 AND q.memory_id = d.memory_id AND q.revision <= d.revision AND q.sequence <= d.sequence`)
}

// each runs a statement for each namespace of tasks, all in one transaction. Its arguments are the namespace, the index, and the
// tasks' ids, revisions and sequences, before further ones.
func (q *Postgres) each(ctx context.Context, index string, tasks []Task, statement string, more ...any) error {
	type columns struct {
		ids                  []uuid.UUID
		revisions, sequences []int64
	}
	in := map[string]*columns{}
	for _, t := range tasks {
		c := in[t.Record.Namespace]
		if c == nil {
			c = &columns{}
			in[t.Record.Namespace] = c
		}
		c.ids, c.revisions, c.sequences = append(c.ids, t.Record.ID), append(c.revisions, t.Record.Revision), append(c.sequences, t.Sequence)
	}
	batch := &pgx.Batch{}
	for _, namespace := range slices.Sorted(maps.Keys(in)) {
		c := in[namespace]
		batch.Queue(statement, append([]any{namespace, index, c.ids, c.revisions, c.sequences}, more...)...)
	}
	return postgres.In(q.pool, postgres.AllNamespaces).Send(ctx, batch)
}

// AsSensitive implements Discretion.
func (q *Postgres) AsSensitive(ctx context.Context, records []record.Record) (same bool, err error) {
	ids, sensitive := map[string][]uuid.UUID{}, map[string][]bool{} // by namespace
	for _, r := range records {
		ids[r.Namespace], sensitive[r.Namespace] = append(ids[r.Namespace], r.ID), append(sensitive[r.Namespace], r.Sensitive)
	}
	same = true
	batch := &pgx.Batch{}
	for namespace := range ids {
		batch.Queue(`
			SELECT count(*) FROM memory.memories m JOIN unnest($2::uuid[], $3::boolean[]) AS t (id, sensitive) USING (id, sensitive)
			WHERE m.namespace = $1`, namespace, ids[namespace], sensitive[namespace]).QueryRow(func(row pgx.Row) error {
			var n int
			err := row.Scan(&n)
			same = same && n == len(ids[namespace])
			return err
		})
	}
	err = postgres.In(q.pool, postgres.AllNamespaces).Send(ctx, batch)
	return same && err == nil, err
}

// Knows implements Store.
func (q *Postgres) Knows(ctx context.Context, index, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	var dead *bool
	var written bool
	batch := &pgx.Batch{}
	batch.Queue(`SELECT dead FROM memory.index_queue WHERE namespace = $1 AND index_name = $2 AND since <= $3 ORDER BY since LIMIT 1`, namespace, index, sequence).
		Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&dead}, func() error { return nil })
			return err
		})
	batch.Queue(`SELECT $1 <= coalesce(pg_sequence_last_value('memory.write_sequence'), 0)`, sequence).QueryRow(func(row pgx.Row) error { return row.Scan(&written) })
	err = postgres.In(q.pool, namespace).Send(ctx, batch)
	if err == nil && !written {
		err = notWritten(namespace)
	}
	return err == nil && dead == nil, dead != nil && *dead, err
}
