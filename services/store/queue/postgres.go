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
)

// Postgres is the queue in PostgreSQL.
type Postgres struct{ pool *pgxpool.Pool }

var _ Store = (*Postgres)(nil)

// NewPostgres returns the queue of a database.
func NewPostgres(pool *pgxpool.Pool) *Postgres { return &Postgres{pool} }

// EnqueuePostgres adds the records' tasks in the transaction that has stored the records. Table memory.indexes lists the
// indexes, and which of them take sensitive records. Records that are not sensitive get no tasks for the indexes in but.
func EnqueuePostgres(ctx context.Context, tx pgx.Tx, records []record.Record, but []string) error {
	rows, err := tx.Query(ctx, `SELECT name, sensitive FROM memory.indexes`)
	if err != nil {
		return err
	}
	var names []string
	var sensitive []bool
	var name string
	var takes bool
	if _, err := pgx.ForEachRow(rows, []any{&name, &takes}, func() error {
		if !takes && slices.Contains(but, name) {
			return nil
		}
		names, sensitive = append(names, name), append(sensitive, takes)
		return nil
	}); err != nil {
		return err
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

// DropPostgres removes a record's task if only the write that made its revision enqueued it. It is for a write that
// the index may ignore.
func DropPostgres(ctx context.Context, tx pgx.Tx, index string, r record.Record) error {
	_, err := tx.Exec(ctx, `DELETE FROM memory.index_queue WHERE namespace = $1 AND memory_id = $2 AND index_name = $3 AND since = $4`,
		r.Namespace, r.ID, index, r.Sequence)
	return err
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
			SELECT `+postgres.RecordColumns+`, c.attempts, c.enqueued_at, c.sequence
			FROM claimed c JOIN memory.memories m ON m.namespace = $1 AND m.id = c.memory_id
			ORDER BY m.id`, namespace, index, due[namespace], lease).Query(func(rows pgx.Rows) error {
			claimed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Task, err error) {
				t.Record, err = postgres.ScanRecordAnd(row, &t.Attempts, &t.EnqueuedAt, &t.Sequence)
				return t, err
			})
			tasks = append(tasks, claimed...)
			return err
		})
	}
	err = postgres.In(q.pool, postgres.AllNamespaces).Send(ctx, batch)
	var bad *record.UndecodableError
	if errors.As(err, &bad) {
		_, setAside := postgres.In(q.pool, bad.Namespace).Exec(ctx, `
			UPDATE memory.index_queue SET dead = true, attempts = attempts + 1, last_error = $4
			WHERE namespace = $1 AND index_name = $2 AND memory_id = $3`, bad.Namespace, index, bad.ID, bad.Public())
		err = errors.Join(err, setAside)
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

// Fail implements Store.
func (q *Postgres) Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error {
	_, err := postgres.In(q.pool, task.Record.Namespace).Exec(ctx, `
		UPDATE memory.index_queue SET attempts = attempts + 1, not_before = $6, dead = $7, last_error = $8
		WHERE namespace = $1 AND index_name = $2 AND memory_id = $3 AND revision <= $4 AND sequence <= $5`,
		task.Record.Namespace, index, task.Record.ID, task.Record.Revision, task.Sequence, retryAt, dead, reason)
	return err
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

// counts are the columns of a Status.
const counts = `count(*) FILTER (WHERE NOT dead), count(*) FILTER (WHERE dead),
	coalesce(now() - min(enqueued_at) FILTER (WHERE NOT dead), '0') AS lag`

// Status implements Store.
func (q *Postgres) Status(ctx context.Context, index, namespace string) (Status, error) {
	var s Status
	err := postgres.In(q.pool, namespace).QueryRow(ctx, `SELECT `+counts+` FROM memory.index_queue WHERE namespace = $1 AND index_name = $2`, namespace, index).
		Scan(&s.Pending, &s.Dead, &s.Lag)
	return s, err
}

// Total implements Store.
func (q *Postgres) Total(ctx context.Context, index string) (Status, error) {
	var s Status
	err := postgres.In(q.pool, postgres.AllNamespaces).QueryRow(ctx, `SELECT `+counts+` FROM memory.index_queue WHERE index_name = $1`, index).Scan(&s.Pending, &s.Dead, &s.Lag)
	return s, err
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

// Behind implements Store.
func (q *Postgres) Behind(ctx context.Context, index, namespace string, limit int) (n int64, err error) {
	counts, err := postgres.Call(ctx, q.pool, namespace, `SELECT memory.behind($1, $2, $3)`, []any{namespace, index, limit}, pgx.RowTo[int64])
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}

// Backlog implements Store.
func (q *Postgres) Backlog(ctx context.Context, n int) ([]Backlog, error) {
	rows, err := postgres.In(q.pool, postgres.AllNamespaces).Query(ctx, `
		SELECT index_name, namespace, `+counts+` FROM memory.index_queue GROUP BY index_name, namespace
		ORDER BY count(*) FILTER (WHERE dead) > 0 DESC, lag DESC, index_name, namespace LIMIT $1`, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Backlog, err error) {
		err = row.Scan(&b.Index, &b.Namespace, &b.Pending, &b.Dead, &b.Lag)
		return b, err
	})
}

// selected is the condition of a Selection with the arguments $1 to $3.
const selected = `($1 = '' OR index_name = $1) AND ($2 = '' OR namespace = $2) AND (dead OR NOT $3)`

// List implements Store.
func (q *Postgres) List(ctx context.Context, which Selection, n int) ([]Entry, error) {
	rows, err := postgres.In(q.pool, postgres.AllNamespaces).Query(ctx, `
		SELECT index_name, namespace, memory_id, dead, attempts, last_error, enqueued_at FROM memory.index_queue
		WHERE `+selected+` ORDER BY dead DESC, enqueued_at, namespace, memory_id, index_name LIMIT $4`,
		which.Index, which.Namespace, which.Dead, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		err = row.Scan(&e.Index, &e.Namespace, &e.ID, &e.Dead, &e.Attempts, &e.LastError, &e.EnqueuedAt)
		e.EnqueuedAt = e.EnqueuedAt.UTC()
		return e, err
	})
}

// Retry implements Store.
func (q *Postgres) Retry(ctx context.Context, which Selection) (int64, error) {
	tag, err := postgres.In(q.pool, postgres.AllNamespaces).Exec(ctx, `
		UPDATE memory.index_queue SET dead = false, attempts = 0, not_before = now(), last_error = '' WHERE dead AND `+selected,
		which.Index, which.Namespace, which.Dead)
	return tag.RowsAffected(), err
}
