// Package queue keeps the derived indexes (dense, graph) in step with the records: which memories an index still has to
// catch up with is written in the record's own transaction, and a worker beside each index works the list off. Storing
// a memory never waits for it, and a crash at any point loses nothing.
package queue

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/triskele/triskele/services/record"
)

const (
	// maxAttempts is how often a memory is tried before it is given up on; with the backoff, about half an hour.
	maxAttempts = 10
	maxBackoff  = 5 * time.Minute
	// lease is how long a worker may take over a batch before another may claim it.
	lease = time.Minute
	// idlePoll is how long a worker sleeps when nothing is due and nobody wakes it.
	idlePoll = 250 * time.Millisecond
	// pausedPoll is how long a worker sleeps when its index takes nothing for now.
	pausedPoll = 15 * time.Second
)

// ErrPaused is what an Indexer returns when it can take nothing for now, through no fault of the records.
var ErrPaused = errors.New("indexing is paused")

// Task is a memory whose derived index is out of date.
type Task struct {
	Record     record.Record // as of the claim
	Attempts   int           // earlier ones, all failed
	EnqueuedAt time.Time     // when the index fell behind
	// Sequence is the newest request to index the memory that this task answers. A binary from before there were
	// sequences counts up the revision alone.
	Sequence int64
}

// Status counts the tasks of one index in one namespace.
type Status struct {
	Pending int64
	Dead    int64
	Lag     time.Duration // since the oldest pending task was enqueued
}

// Store is the list of tasks. Enqueueing belongs to the memory store's transaction and is not part of it.
type Store interface {
	// Claim leases up to n due tasks of an index, oldest first, those of one transaction by id. Nobody else is given them before the lease ends.
	Claim(ctx context.Context, index string, n int, lease time.Duration) ([]Task, error)
	// Done removes tasks, except those whose memory has changed again since the claim.
	Done(ctx context.Context, index string, tasks []Task) error
	// Release gives tasks back as if they had not been claimed, except those whose memory has changed again since.
	Release(ctx context.Context, index string, tasks []Task) error
	// Fail puts a task back until retryAt, or sets it aside for good.
	Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error
	// Status counts an index's tasks in a namespace.
	Status(ctx context.Context, index, namespace string) (Status, error)
}

// Indexer brings a derived index up to date with records of any namespaces. It must be idempotent, must not write over
// the result of a newer revision, and stores either all of the records or none. An error that is ErrPaused counts as no
// attempt.
type Indexer interface {
	Index(ctx context.Context, records []record.Record) error
}

// Worker works off the tasks of one index.
type Worker struct {
	Index   string
	Store   Store
	Indexer Indexer
	Batch   int // records per call of the indexer
	Log     *slog.Logger
	// Wake, if not nil, ends a pause early: a store in the same process signals it after each write.
	Wake <-chan struct{}
}

// Run works until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := w.step(ctx)
		if errors.Is(err, ErrPaused) {
			w.Log.WarnContext(ctx, "index worker", "index", w.Index, "error", err.Error())
			select {
			case <-ctx.Done():
			case <-time.After(pausedPoll):
			}
			continue
		}
		if err != nil && ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "index worker", "index", w.Index, "error", err.Error())
		}
		if n > 0 && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.Wake:
		case <-time.After(idlePoll):
		}
	}
}

// step claims one batch and indexes it; n is how many tasks were claimed.
func (w *Worker) step(ctx context.Context) (n int, err error) {
	tasks, err := w.Store.Claim(ctx, w.Index, w.Batch, lease)
	if err != nil || len(tasks) == 0 {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	err = w.index(ctx, tasks)
	switch {
	case err == nil:
		return len(tasks), w.Store.Done(ctx, w.Index, tasks)
	case errors.Is(err, ErrPaused):
		return 0, errors.Join(err, w.Store.Release(ctx, w.Index, tasks))
	}
	// One bad record must not hold up its batch.
	for _, task := range tasks {
		failure := w.index(ctx, []Task{task})
		if failure == nil {
			if err := w.Store.Done(ctx, w.Index, []Task{task}); err != nil {
				return len(tasks), err
			}
			continue
		}
		if errors.Is(failure, ErrPaused) {
			return 0, failure // paused since: the leases of this task and the rest end
		}
		if ctx.Err() != nil {
			return len(tasks), ctx.Err() // shutting down or out of time: the lease ends and the task is claimed again
		}
		dead := task.Attempts+1 >= maxAttempts
		w.Log.WarnContext(ctx, "indexing failed", "index", w.Index, "memory", task.Record.ID.String(), "attempt", task.Attempts+1, "given_up", dead, "error", failure.Error())
		if err := w.Store.Fail(ctx, w.Index, task, time.Now().Add(backoff(task.Attempts)), dead, failure.Error()); err != nil {
			return len(tasks), err
		}
	}
	return len(tasks), nil
}

func (w *Worker) index(ctx context.Context, tasks []Task) error {
	records := make([]record.Record, len(tasks))
	for i, t := range tasks {
		records[i] = t.Record
	}
	return w.Indexer.Index(ctx, records)
}

// backoff doubles from one second to five minutes, with up to half as much again at random so that retries spread out.
func backoff(attempts int) time.Duration {
	wait := maxBackoff
	if attempts < 9 {
		wait = min(wait, time.Second<<attempts)
	}
	return wait + rand.N(wait/2)
}
