// Package queue keeps the derived indexes (dense, graph) in step with the records. The process for a write is:
//  1. The transaction that changes a record adds one task per index to the queue (Enqueue).
//  2. A Worker beside each index claims a batch of due tasks under a lease, and extends the lease while it works.
//  3. The worker gives the records to its Indexer.
//  4. Success removes the tasks. A failed task is retried with backoff, and becomes dead when it keeps failing.
//
// A write never waits for the indexes, and a crash loses no task. Progress tells how far an index lags. Care lets an
// operator list and retry dead tasks.
package queue

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
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
	Dead    int64         // retried no more, unless by Care.Retry
	Lag     time.Duration // age of the oldest pending task
}

// Work is the part of the queue that a worker uses.
type Work interface {
	// Claim leases up to n due tasks of an index, oldest first; tasks of one transaction come in id order. No other
	// worker gets them before the lease ends. A memory that cannot be decoded is an error: its task becomes dead. The
	// tasks claimed with it are due again when the lease ends, or earlier.
	Claim(ctx context.Context, index string, n int, lease time.Duration) ([]Task, error)
	// Extend makes the leases of tasks end after the given time; 0 makes the tasks due at once. It skips tasks whose
	// memory has changed since the claim.
	Extend(ctx context.Context, index string, tasks []Task, lease time.Duration) error
	// Done removes tasks, except those whose memory has changed since the claim.
	Done(ctx context.Context, index string, tasks []Task) error
	// Fail postpones a task until retryAt, or makes it dead. The reason is shown: it must not quote a memory.
	Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error
	// Total counts an index's tasks in all namespaces. It reads them all: use it for metrics, not per call.
	Total(ctx context.Context, index string) (Status, error)
	Discretion
}

// Discretion checks what models may see.
type Discretion interface {
	// AsSensitive reports whether all memories still exist with the sensitivity that the records have. It reads only
	// namespace, id and sensitivity of the records.
	AsSensitive(ctx context.Context, records []record.Record) (bool, error)
}

// Progress tells how far an index lags behind the records.
type Progress interface {
	// Status counts an index's tasks in a namespace.
	Status(ctx context.Context, index, namespace string) (Status, error)
	// Knows reports whether an index has processed a write, and all writes acknowledged before it began. It checks
	// the oldest task that blocks the write: if that one is dead, gaveUp is true and waiting is useless. A sequence
	// of no write yet is a *record.FieldError for at_least.
	Knows(ctx context.Context, index, namespace string, sequence int64) (knows, gaveUp bool, err error)
	// Behind counts an index's tasks in a namespace, dead ones included, up to a limit.
	Behind(ctx context.Context, index, namespace string, limit int) (int64, error)
	Discretion
}

// Care is the part of the queue that an operator uses. Its methods read the tasks of all namespaces.
type Care interface {
	// Backlog returns the n worst pairs of index and namespace: those with dead tasks first, then by lag.
	Backlog(ctx context.Context, n int) ([]Backlog, error)
	// List returns up to n tasks, dead ones first, then the oldest.
	List(ctx context.Context, which Selection, n int) ([]Entry, error)
	// Retry makes dead tasks due again with no attempts, and returns how many there were.
	Retry(ctx context.Context, which Selection) (int64, error)
}

// Store is the whole queue. Enqueueing is not part of it: the memory store's transaction does that.
type Store interface {
	Work
	Progress
	Care
}

// New returns the queue of a database.
func New(store sqldb.Store) Store {
	read := store.DB()
	if store.File == nil {
		return postgresQueue{rows{read, read}, store.Pool}
	}
	return &sqliteQueue{rows: rows{read, sqldb.DB{SQLite: store.File.Write}}, db: store.File, leases: map[leased]holder{}}
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
	tasks Progress
	index string
}

// Follow returns the Follower of an index.
func Follow(tasks Progress, index string) Follower { return Follower{tasks, index} }

// Knows reports whether the index has processed a write; see Progress.
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
