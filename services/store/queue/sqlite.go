package queue

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// leased identifies a task that is leased. Leases of a SQLite file's tasks are kept in memory: one process serves a file, and they end
// with it. If two processes did, both would do the same work.
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

// claimInMemory is Claim on SQLite. It writes nothing, so it does not wait for the only connection that writes.
func (q *Queue) claimInMemory(ctx context.Context, index string, n int, length time.Duration) ([]Task, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(q.leases, func(_ leased, l holder) bool { return !l.until.After(now) })
	tasks, err := sqldb.Query(ctx, q.read.In(postgres.AllNamespaces), `
		SELECT `+record.Columns+`, q.attempts, q.enqueued_at, q.sequence
		FROM index_queue q JOIN memories m ON m.namespace = q.namespace AND m.id = q.memory_id
		WHERE q.index_name = $1 AND NOT q.dead AND q.not_before <= $2 ORDER BY q.not_before, q.namespace, q.memory_id LIMIT $3`,
		[]any{index, now, n + len(q.leases)}, scanTask)
	tasks = slices.DeleteFunc(tasks, func(t Task) bool {
		l, is := q.leases[t.of(index)]
		return is && l.sequence >= t.Sequence
	})
	tasks = tasks[:min(n, len(tasks))]
	for _, t := range tasks {
		q.leases[t.of(index)] = holder{now.Add(length), t.Sequence}
	}
	return tasks, err
}

func (q *Queue) extendInMemory(index string, tasks []Task, length time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		if q.leases[t.of(index)].sequence <= t.Sequence {
			q.leases[t.of(index)] = holder{time.Now().Add(length), t.Sequence}
		}
	}
}

// release ends leases in memory, except those of later writes.
func (q *Queue) release(index string, tasks []Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		if q.leases[t.of(index)].sequence <= t.Sequence {
			delete(q.leases, t.of(index))
		}
	}
}
