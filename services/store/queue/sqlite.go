package queue

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// sqliteQueue is the queue in a SQLite file. Leases are kept in memory: one process serves a file, and they end with it. If two
// processes did, both would do the same work.
type sqliteQueue struct {
	rows
	db *sqlite.DB

	mu     sync.Mutex
	leases map[leased]holder
}

// leased identifies a task that is leased.
type leased struct {
	index, namespace string
	id               uuid.UUID
}

// holder is a lease. It ends with its time, or when its task stands for a later write.
type holder struct {
	until    time.Time
	sequence int64
}

func (t Task) of(index string) leased { return leased{index, t.Record.Namespace, t.Record.ID} }

// Claim implements Store. It writes nothing, so it does not wait for the only connection that writes.
func (q *sqliteQueue) Claim(ctx context.Context, index string, n int, length time.Duration) ([]Task, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(q.leases, func(_ leased, l holder) bool { return !l.until.After(now) })
	tasks, err := sqldb.Query(ctx, q.read.In(postgres.AllNamespaces), `
		SELECT `+record.Columns+`, q.attempts, q.enqueued_at, q.sequence
		FROM index_queue q JOIN memories m ON m.namespace = q.namespace AND m.id = q.memory_id
		WHERE q.index_name = $1 AND NOT q.dead AND q.not_before <= $2 ORDER BY q.not_before, q.namespace, q.memory_id LIMIT $3`,
		[]any{index, now, n + len(q.leases)}, func(scan sqldb.Scan) (t Task, err error) {
			t.Record, err = sqldb.ScanRecord(scan, &t.Attempts, &t.EnqueuedAt, &t.Sequence)
			return t, err
		})
	if bad, ok := errors.AsType[*record.UndecodableError](err); ok {
		return nil, errors.Join(err, q.setAside(ctx, index, bad))
	}
	if err != nil {
		return nil, err
	}
	tasks = slices.DeleteFunc(tasks, func(t Task) bool {
		return q.leases[t.of(index)].sequence >= t.Sequence && !q.leases[t.of(index)].until.IsZero()
	})
	tasks = tasks[:min(n, len(tasks))]
	for _, t := range tasks {
		q.leases[t.of(index)] = holder{now.Add(length), t.Sequence}
	}
	return tasks, nil
}

// Extend implements Store.
func (q *sqliteQueue) Extend(_ context.Context, index string, tasks []Task, length time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		if q.leases[t.of(index)].sequence <= t.Sequence {
			q.leases[t.of(index)] = holder{time.Now().Add(length), t.Sequence}
		}
	}
	return nil
}

// Done implements Store.
func (q *sqliteQueue) Done(ctx context.Context, index string, tasks []Task) error {
	defer q.release(index, tasks)
	return q.db.Update(ctx, func(tx *sql.Tx) error {
		return sqlite.ExecEach(ctx, tx, `DELETE FROM index_queue WHERE namespace = ? AND index_name = ? AND memory_id = ? AND revision <= ? AND sequence <= ?`,
			tasks, func(t Task) []any {
				return []any{t.Record.Namespace, index, t.Record.ID[:], t.Record.Revision, t.Sequence}
			})
	})
}

// Fail implements Store.
func (q *sqliteQueue) Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error {
	defer q.release(index, []Task{task})
	return q.rows.Fail(ctx, index, task, retryAt, dead, reason)
}

func (q *sqliteQueue) release(index string, tasks []Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		if q.leases[t.of(index)].sequence <= t.Sequence {
			delete(q.leases, t.of(index))
		}
	}
}
