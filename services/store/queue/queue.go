// Package queue keeps the derived indexes (dense, graph) in step with the records: which memories an index still has to
// catch up with is written in the record's own transaction, and a worker beside each index works the list off. Storing
// a memory never waits for it, and a crash at any point loses nothing.
package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// ErrPaused is what an Indexer returns, alone or wrapped, that must not index just now: its model is being switched, say.
// The worker gives the memories back and asks again a little later; no attempt is counted.
var ErrPaused = errors.New("indexing is paused")

// ErrHopeless is what an Indexer's error wraps that it expects no more from many attempts than from some: the memory is
// given up on after maxAttempts, whether or not others went through.
var ErrHopeless = errors.New("not worth many attempts")

// Task is a memory whose derived index is out of date.
type Task struct {
	Record     record.Record // as of the claim
	Attempts   int           // earlier ones, all failed
	EnqueuedAt time.Time     // when the index fell behind
	// Sequence is the newest request to index the memory that this task answers. A binary from before there were
	// sequences counts up the revision alone.
	Sequence int64
}

// Status counts tasks of one index.
type Status struct {
	Pending int64
	Dead    int64         // given up on
	Lag     time.Duration // since the oldest pending task was enqueued
}

// Work is what a worker needs of the list of tasks.
type Work interface {
	// Claim leases up to n due tasks of an index, oldest first, those of one transaction by id. Nobody else is given them
	// before the lease ends. A memory that cannot be decoded is an error: its task is given up on, and those claimed with it
	// are due again when the lease ends, if not at once.
	Claim(ctx context.Context, index string, n int, lease time.Duration) ([]Task, error)
	// Extend lets the leases of tasks end when the given time has passed from now; with 0 the tasks are due at once. Those
	// whose memory has changed since the claim stay as they are.
	Extend(ctx context.Context, index string, tasks []Task, lease time.Duration) error
	// Done removes tasks, except those whose memory has changed again since the claim.
	Done(ctx context.Context, index string, tasks []Task) error
	// Fail puts a task back until retryAt, or sets it aside for good. The reason is kept and shown: no text of a memory.
	Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error
	// Total counts an index's tasks in all namespaces. It reads them all: for measuring, not for every call.
	Total(ctx context.Context, index string) (Status, error)
	Discretion
}

// Discretion says what may be shown to models.
type Discretion interface {
	// AsSensitive says whether memories all are still there, and as sensitive as the records say. Of these it reads
	// namespace, id and whether they are sensitive.
	AsSensitive(ctx context.Context, records []record.Record) (bool, error)
}

// Progress says how far the indexes have followed the records.
type Progress interface {
	// Status counts an index's tasks in a namespace.
	Status(ctx context.Context, index, namespace string) (Status, error)
	// Knows says whether an index knows of a write, and so of every write acknowledged before it began. It looks at the
	// oldest task that stands in the way: if that one is dead, gaveUp is true and waiting is in vain. A number that no
	// write has yet is a *record.FieldError for the field at_least.
	Knows(ctx context.Context, index, namespace string, sequence int64) (knows, gaveUp bool, err error)
	// Behind counts an index's tasks in a namespace, dead ones included, up to a limit.
	Behind(ctx context.Context, index, namespace string, limit int) (int64, error)
	Discretion
}

// Care is what an operator needs who looks after the indexes. Its methods read the tasks of all namespaces.
type Care interface {
	// Backlog returns the n indexes of namespaces that are in the worst state: those with dead tasks, then by lag.
	Backlog(ctx context.Context, n int) ([]Backlog, error)
	// List returns up to n tasks, dead ones first, then the oldest.
	List(ctx context.Context, which Selection, n int) ([]Entry, error)
	// Retry makes dead tasks due again with a clean slate, and returns how many there were.
	Retry(ctx context.Context, which Selection) (int64, error)
}

// Store is the list of tasks. Enqueueing belongs to the memory store's transaction and is not part of it.
type Store interface {
	Work
	Progress
	Care
}

// notWritten refuses the number of a write that this database has not made: it is another's, or from before a restore.
func notWritten(namespace string) error {
	return &record.FieldError{Field: "at_least", MustBe: fmt.Sprintf("must be a revision token that this database gave for namespace %q", namespace)}
}

// Backlog is the state of one index of one namespace.
type Backlog struct {
	Index, Namespace string
	Status
}

// Selection says which tasks are meant; what is empty excludes none.
type Selection struct {
	Index, Namespace string
	Dead             bool // only those given up on
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

// Follower says how far one index follows the records. Embedded in the index's searcher, it makes that a leg.AsyncIndex and
// a leg.SensitivityChecker.
type Follower struct {
	tasks Progress
	index string
}

// Follow returns the Follower of an index.
func Follow(tasks Progress, index string) Follower { return Follower{tasks, index} }

// Knows says whether the index knows of a write to a namespace; see Progress.
func (f Follower) Knows(ctx context.Context, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	return f.tasks.Knows(ctx, f.index, namespace, sequence)
}

// Behind counts what the index has to catch up with in a namespace, up to a limit.
func (f Follower) Behind(ctx context.Context, namespace string, limit int) (int64, error) {
	return f.tasks.Behind(ctx, f.index, namespace, limit)
}

// Presentable says whether a memory may be shown to models: it is there, and not sensitive.
func (f Follower) Presentable(ctx context.Context, namespace string, id uuid.UUID) (bool, error) {
	return f.tasks.AsSensitive(ctx, []record.Record{{Namespace: namespace, ID: id}})
}
