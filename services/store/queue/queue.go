// Package queue keeps the derived indexes (dense, graph) in step with the records. The process for a write is:
//  1. The transaction that changes a record adds one task per index to the queue (Enqueue).
//  2. A Worker beside each index claims a batch of due tasks under a lease, and extends the lease while it works.
//  3. The worker gives the records to its Indexer.
//  4. Success removes the tasks. A failed task is retried with backoff, and becomes dead when it keeps failing.
//
// A write never waits for the indexes, and a crash loses no task. A Follower tells how far an index lags. Operators list and
// retry dead tasks.
package queue

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// ErrPaused says that an Indexer cannot index now, during a switch of its model for example. The worker releases the
// leases and retries a little later; no attempt is counted.
var ErrPaused = errors.New("indexing is paused")

// ErrHopeless marks an indexing error that more retries are unlikely to fix. The task becomes dead after maxAttempts,
// whether or not other tasks succeeded.
var ErrHopeless = errors.New("not worth many attempts")

// Task is a memory whose derived index is out of date.
type Task struct {
	Record     record.Record // as of the claim
	Attempts   int           // earlier attempts, all failed
	EnqueuedAt time.Time     // when the index fell behind
	// Sequence is the newest write of the memory that this task covers. Old binaries without sequences increment only
	// the revision.
	Sequence int64
}

// Status counts tasks of one index.
type Status struct {
	Pending int64
	Dead    int64         // retried no more, unless by Retry
	Lag     time.Duration // age of the oldest pending task
}

// Work is the part of a Queue that a worker uses.
type Work interface {
	Claim(ctx context.Context, index string, n int, lease time.Duration) ([]Task, error)
	Extend(ctx context.Context, index string, tasks []Task, lease time.Duration) error
	Done(ctx context.Context, index string, tasks []Task) error
	Fail(ctx context.Context, index string, task Task, wait time.Duration, dead bool, reason string) error
	Hasten(ctx context.Context, index string, most time.Duration) error
	Total(ctx context.Context, index string) (Status, error)
	AsSensitive(ctx context.Context, records []record.Record) (bool, error)
}

// Backlog is the state of one index of one namespace.
type Backlog struct {
	Index, Namespace string
	Status
}

// Selection selects tasks; an empty field matches all.
type Selection struct {
	Index, Namespace string
	Dead             bool // only dead tasks
}

// Entry is a task as an operator sees it.
type Entry struct {
	Index      string    `json:"index"`
	Namespace  string    `json:"namespace"`
	ID         uuid.UUID `json:"memory"`
	Dead       bool      `json:"dead"`
	Attempts   int       `json:"attempts"`
	LastError  string    `json:"last_error,omitempty"`
	EnqueuedAt time.Time `json:"enqueued_at"`
}

// Follower tells how far one index lags. A searcher that embeds it is a leg.AsyncIndex and a leg.SensitivityChecker.
type Follower struct {
	tasks *Queue
	index string
}

// Follow returns the Follower of an index.
func Follow(tasks *Queue, index string) Follower { return Follower{tasks, index} }

// Knows reports whether the index has processed a write, as Queue.Knows.
func (f Follower) Knows(ctx context.Context, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	return f.tasks.Knows(ctx, f.index, namespace, sequence)
}

// Behind counts the index's tasks in a namespace, up to a limit.
func (f Follower) Behind(ctx context.Context, namespace string, limit int) (int64, error) {
	return f.tasks.Behind(ctx, f.index, namespace, limit)
}

// Presentable reports whether a memory may be shown to models: it exists and is not sensitive.
func (f Follower) Presentable(ctx context.Context, namespace string, id uuid.UUID) (bool, error) {
	return f.tasks.AsSensitive(ctx, []record.Record{{Namespace: namespace, ID: id}})
}
