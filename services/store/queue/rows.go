package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Queue is the queue of a database of either engine. The memory store's transaction enqueues tasks.
type Queue struct {
	// Awaited, if not nil, is called when a caller waits for an index. Set it before the first call.
	Awaited func()

	store       sqldb.Store
	read, write sqldb.DB

	mu     sync.Mutex
	leases map[leased]holder // of a SQLite file's tasks
}

// New returns the queue of a database.
func New(store sqldb.Store) *Queue {
	q := &Queue{store: store, read: store.DB(), write: store.DB(), leases: map[leased]holder{}}
	if store.File != nil {
		q.write = sqldb.DB{SQLite: store.File.Write}
	}
	return q
}

// Enqueue adds the records' tasks in the transaction that has stored the records. Table memory.indexes lists the indexes, and
// which of them take sensitive records. Records that are not sensitive get no tasks for the indexes in but.
func Enqueue(ctx context.Context, tx sqldb.Tx, records []record.Record, but []string) error {
	takers, err := sqldb.Query(ctx, tx.In(postgres.Entered), `SELECT name, sensitive FROM memory.indexes ORDER BY name`, nil,
		sqldb.Into(func(t *taker) []any { return []any{&t.index, &t.sensitive} }))
	if err != nil {
		return err
	}
	takers = slices.DeleteFunc(takers, func(t taker) bool { return !t.sensitive && slices.Contains(but, t.index) })
	in := map[string][]record.Record{}
	for _, r := range records {
		in[r.Namespace] = append(in[r.Namespace], r)
	}
	var batch sqldb.Batch
	for _, namespace := range slices.Sorted(maps.Keys(in)) { // a statement that joined the indexes would go to all nodes
		for _, t := range takers {
			var rows sqldb.Rows
			for _, r := range in[namespace] {
				if r.Sensitive == t.sensitive {
					rows = append(rows, []any{r.ID, r.Revision, r.Sequence})
				}
			}
			batch.Exec(`
				INSERT INTO memory.index_queue (namespace, memory_id, index_name, sensitive, revision, sequence, since, enqueued_at, not_before)
				SELECT n.name, m.id, $2, $3, m.revision, m.sequence, m.sequence, now(), now()
				FROM memory.namespaces n CROSS JOIN unnest($4::uuid[], $5::bigint[], $6::bigint[]) AS m (id, revision, sequence)
				WHERE n.name = $1 ORDER BY m.id
				ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
				SET revision = excluded.revision, sequence = excluded.sequence, not_before = excluded.not_before, attempts = 0, dead = false, last_error = ''`,
				namespace, t.index, t.sensitive, rows)
		}
	}
	return tx.In(postgres.Entered).Send(ctx, &batch)
}

// taker is an index that takes records with a sensitivity.
type taker struct {
	index     string
	sensitive bool
}

// Drop removes a record's task if only the write that made its revision enqueued it. It is for a write that the index may
// ignore.
func Drop(ctx context.Context, tx sqldb.Tx, index string, r record.Record) error {
	_, err := tx.In(r.Namespace).Exec(ctx, `DELETE FROM memory.index_queue WHERE namespace = $1 AND memory_id = $2 AND index_name = $3 AND since = $4`,
		r.Namespace, r.ID, index, r.Sequence)
	return err
}

// Claim leases up to n due tasks of an index, oldest first; tasks of one transaction come in id order. No other worker gets them before
// the lease ends. A memory that cannot be decoded is an error: its task becomes dead. The tasks claimed with it are due again when the
// lease ends, or earlier.
func (q *Queue) Claim(ctx context.Context, index string, n int, lease time.Duration) ([]Task, error) {
	claim := q.claimLocking
	if q.store.File != nil {
		claim = q.claimInMemory
	}
	tasks, err := claim(ctx, index, n, lease)
	if bad, ok := errors.AsType[*record.UndecodableError](err); ok {
		task := Task{Record: record.Record{Namespace: bad.Namespace, ID: bad.ID, Revision: math.MaxInt64}, Sequence: math.MaxInt64}
		err = errors.Join(err, q.Fail(ctx, index, task, 0, true, bad.Public()))
	}
	if err != nil {
		return nil, err
	}
	return tasks, nil
}

func scanTask(scan sqldb.Scan) (t Task, err error) {
	t.Record, err = sqldb.ScanRecord(scan, &t.Attempts, &t.EnqueuedAt, &t.Sequence)
	return t, err
}

// Extend makes the leases of tasks end after the given time; 0 makes the tasks due at once. It skips tasks whose memory has changed
// since the claim.
func (q *Queue) Extend(ctx context.Context, index string, tasks []Task, lease time.Duration) error {
	if q.store.File != nil {
		q.extendInMemory(index, tasks, lease)
		return nil
	}
	return q.each(ctx, index, tasks, `
		UPDATE memory.index_queue q SET not_before = now() + $3::interval
		FROM unnest($4::uuid[], $5::bigint[], $6::bigint[]) AS t (memory_id, revision, sequence)
		WHERE q.namespace = $1 AND q.index_name = $2 AND q.memory_id = t.memory_id
			AND q.revision <= t.revision AND q.sequence <= t.sequence AND NOT q.dead`, lease)
}

// Done removes tasks, except those whose memory has changed since the claim.
func (q *Queue) Done(ctx context.Context, index string, tasks []Task) error {
	if q.store.File == nil {
		return q.each(ctx, index, tasks, `
			DELETE FROM memory.index_queue q USING unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS d (memory_id, revision, sequence)
			WHERE q.namespace = $1 AND q.index_name = $2 AND q.memory_id = d.memory_id AND q.revision <= d.revision AND q.sequence <= d.sequence`)
	}
	defer q.release(index, tasks)
	return q.store.File.Update(ctx, func(tx *sql.Tx) error {
		return sqlite.ExecEach(ctx, tx, `DELETE FROM index_queue WHERE namespace = ? AND index_name = ? AND memory_id = ? AND revision <= ? AND sequence <= ?`,
			tasks, func(t Task) []any {
				return []any{t.Record.Namespace, index, t.Record.ID[:], t.Record.Revision, t.Sequence}
			})
	})
}

// Fail postpones a task, or makes it dead. The reason is shown: it must not quote a memory.
func (q *Queue) Fail(ctx context.Context, index string, task Task, wait time.Duration, dead bool, reason string) error {
	defer q.release(index, []Task{task})
	_, err := q.write.In(task.Record.Namespace).Exec(ctx, `
		UPDATE memory.index_queue SET attempts = attempts + 1, not_before = `+q.later(6)+`, dead = $7, last_error = $8
		WHERE namespace = $1 AND index_name = $2 AND memory_id = $3 AND revision <= $4 AND sequence <= $5`,
		task.Record.Namespace, index, task.Record.ID, task.Record.Revision, task.Sequence, wait.Microseconds(), dead, reason)
	return err
}

// Hasten makes tasks due that are postponed for longer than any may be: the clock has been put back since.
func (q *Queue) Hasten(ctx context.Context, index string, most time.Duration) error {
	_, err := q.write.In(postgres.AllNamespaces).Exec(ctx, `
		UPDATE memory.index_queue SET not_before = now() WHERE index_name = $1 AND NOT dead AND not_before > `+q.later(2), index, most.Microseconds())
	return err
}

// later is the time, by the database's clock as in Claim, that is as many microseconds from now as a placeholder says.
func (q *Queue) later(placeholder int) string {
	return fmt.Sprintf(q.write.Dialect(`now() + $%d::bigint * interval '1 microsecond'`, `now() + $%d`), placeholder)
}

const counts = `count(*) FILTER (WHERE NOT dead), count(*) FILTER (WHERE dead), min(enqueued_at) FILTER (WHERE NOT dead), now()`

func scanStatus(scan sqldb.Scan, s *Status, before ...any) error {
	var oldest, now time.Time
	err := scan(append(before, &s.Pending, &s.Dead, &oldest, &now)...)
	if !oldest.IsZero() {
		s.Lag = max(now.Sub(oldest), 0)
	}
	return err
}

// status counts the tasks that meet a condition.
func status(ctx context.Context, db sqldb.Scoped, condition string, args ...any) (s Status, err error) {
	_, err = sqldb.Query(ctx, db, `SELECT `+counts+` FROM memory.index_queue WHERE `+condition, args, func(scan sqldb.Scan) (struct{}, error) {
		return struct{}{}, scanStatus(scan, &s)
	})
	return s, err
}

// StatusIn counts an index's tasks in a namespace, as a database has them, which may be a standby.
func StatusIn(ctx context.Context, db sqldb.DB, index, namespace string) (Status, error) {
	return status(ctx, db.In(namespace), `namespace = $1 AND index_name = $2`, namespace, index)
}

// Status is StatusIn the queue's own database.
func (q *Queue) Status(ctx context.Context, index, namespace string) (Status, error) {
	return StatusIn(ctx, q.read, index, namespace)
}

// Total counts an index's tasks in all namespaces. It reads them all: use it for metrics, not per call.
func (q *Queue) Total(ctx context.Context, index string) (Status, error) {
	return status(ctx, q.read.In(postgres.AllNamespaces), `index_name = $1`, index)
}

// Behind counts an index's tasks in a namespace, dead ones included, up to a limit.
func (q *Queue) Behind(ctx context.Context, index, namespace string, limit int) (n int64, err error) {
	_, err = q.read.In(namespace).Call(ctx, `SELECT memory.behind($1, $2, $3)`, `SELECT count(*) FROM (SELECT 1 FROM index_queue WHERE namespace = $1 AND index_name = $2 LIMIT $3)`,
		[]any{namespace, index, limit}, &n)
	return n, err
}

// Knows reports whether an index has processed a write, and all writes acknowledged before it began. It checks the oldest task that
// blocks the write: if that one is dead, gaveUp is true and waiting is useless. A sequence of no write yet is a *record.FieldError
// for at_least.
func (q *Queue) Knows(ctx context.Context, index, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	last := q.read.Dialect(`coalesce(pg_sequence_last_value('memory.write_sequence'), 0)`, `(SELECT last FROM write_sequence)`)
	var blocked, written bool
	var batch sqldb.Batch
	batch.Query([]any{&gaveUp}, func() { blocked = true },
		`SELECT dead FROM memory.index_queue WHERE namespace = $1 AND index_name = $2 AND since <= $3 ORDER BY since LIMIT 1`, namespace, index, sequence)
	batch.Query([]any{&written}, func() {}, `SELECT $1 <= `+last, sequence)
	if err = q.read.In(namespace).Send(ctx, &batch); err == nil && !written { // it is another database's, or from before a restore
		err = &record.FieldError{Field: "at_least", MustBe: fmt.Sprintf("must be a revision token that this database gave for namespace %q", namespace)}
	}
	if err == nil && blocked && !gaveUp && q.Awaited != nil {
		q.Awaited()
	}
	return err == nil && !blocked, gaveUp, err
}

// Backlog returns the n worst pairs of index and namespace: those with dead tasks first, then by lag.
func (q *Queue) Backlog(ctx context.Context, n int) ([]Backlog, error) {
	return sqldb.Query(ctx, q.read.In(postgres.AllNamespaces), `
		SELECT index_name, namespace, `+counts+` FROM memory.index_queue GROUP BY index_name, namespace
		ORDER BY count(*) FILTER (WHERE dead) > 0 DESC, min(enqueued_at) FILTER (WHERE NOT dead) NULLS LAST, index_name, namespace LIMIT $1`,
		[]any{n}, func(scan sqldb.Scan) (b Backlog, err error) {
			err = scanStatus(scan, &b.Status, &b.Index, &b.Namespace)
			return b, err
		})
}

// BacklogIn returns the state of all indexes of a namespace, without its name.
func BacklogIn(ctx context.Context, db sqldb.DB, namespace string) ([]Backlog, error) {
	return sqldb.Query(ctx, db.In(namespace), `
		SELECT i.name, count(q.namespace) FILTER (WHERE NOT q.dead), count(q.namespace) FILTER (WHERE q.dead), min(q.enqueued_at) FILTER (WHERE NOT q.dead), now()
		FROM (SELECT DISTINCT name FROM memory.indexes) i
		LEFT JOIN memory.index_queue q ON q.namespace = $1 AND q.index_name = i.name
		GROUP BY i.name ORDER BY i.name COLLATE "C"`, []any{namespace}, func(scan sqldb.Scan) (b Backlog, err error) {
		err = scanStatus(scan, &b.Status, &b.Index)
		return b, err
	})
}

// AsSensitive reports whether all memories still exist with the sensitivity that the records have. It reads only namespace, id and
// sensitivity of the records.
func (q *Queue) AsSensitive(ctx context.Context, records []record.Record) (same bool, err error) {
	in := map[string]sqldb.Rows{}
	for _, r := range records {
		in[r.Namespace] = append(in[r.Namespace], []any{r.ID, r.Sensitive})
	}
	var batch sqldb.Batch
	var n, all int
	for namespace, of := range in {
		batch.Query([]any{&n}, func() { all += n }, `
			SELECT count(*) FROM unnest($2::uuid[], $3::boolean[]) AS t (id, sensitive) CROSS JOIN memory.memories m
			WHERE m.namespace = $1 AND m.id = t.id AND m.sensitive = t.sensitive`, namespace, of)
	}
	err = q.read.In(postgres.AllNamespaces).Send(ctx, &batch)
	return all == len(records) && err == nil, err
}

// selected is the condition of a Selection with the arguments $1 to $3.
const selected = `($1 = '' OR index_name = $1) AND ($2 = '' OR namespace = $2) AND (dead OR NOT $3)`

// List returns up to n tasks, dead ones first, then the oldest.
func (q *Queue) List(ctx context.Context, which Selection, n int) ([]Entry, error) {
	return sqldb.Query(ctx, q.read.In(postgres.AllNamespaces), `
		SELECT index_name, namespace, memory_id, dead, attempts, last_error, enqueued_at FROM memory.index_queue
		WHERE `+selected+` ORDER BY dead DESC, enqueued_at, namespace, memory_id, index_name LIMIT $4`,
		[]any{which.Index, which.Namespace, which.Dead, n}, sqldb.Into(func(e *Entry) []any {
			return []any{&e.Index, &e.Namespace, &e.ID, &e.Dead, &e.Attempts, &e.LastError, &e.EnqueuedAt}
		}))
}

// Retry makes dead tasks due again with no attempts, and returns how many there were.
func (q *Queue) Retry(ctx context.Context, which Selection) (int64, error) {
	return q.write.In(postgres.AllNamespaces).Exec(ctx, `
		UPDATE memory.index_queue SET dead = false, attempts = 0, not_before = now(), last_error = '' WHERE dead AND `+selected,
		which.Index, which.Namespace, which.Dead)
}
