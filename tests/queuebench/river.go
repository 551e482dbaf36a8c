package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/triskele/triskele/services/record"
)

const (
	// cooldown is river's least time between two looks for jobs, and between two notifications of a process that inserts
	// some. Its default, 100 ms, would bound what it gets done. poll is for jobs whose notification was left out.
	cooldown = 5 * time.Millisecond
	poll     = 100 * time.Millisecond
	// collectTime is how long a batch waits for another job.
	collectTime = 2 * time.Millisecond
)

// indexJob asks for one memory to be indexed.
type indexJob struct {
	Index     string    `json:"index"`
	Namespace string    `json:"namespace"`
	ID        uuid.UUID `json:"id"`
}

// Kind implements river.JobArgs.
func (indexJob) Kind() string { return "index" }

// riverJobs is river, with a queue for each index.
type riverJobs struct {
	pool    *pgxpool.Pool
	insert  *river.Client[pgx.Tx]
	unique  river.UniqueOpts
	batched bool
}

// uniqueJobs coalesces the edits of a memory. River demands all of these states, so an edit while the memory's job runs is
// dropped, and the index keeps the text before it: a use of river to be measured, not to be shipped.
var uniqueJobs = river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}}

func newRiver(ctx context.Context, pool *pgxpool.Pool, batched bool, unique river.UniqueOpts) (*riverJobs, error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	insert, err := river.NewClient(driver, &river.Config{FetchCooldown: cooldown, Logger: slog.New(slog.DiscardHandler)})
	return &riverJobs{pool, insert, unique, batched}, err
}

func (r *riverJobs) enqueue(ctx context.Context, tx pgx.Tx, m record.Record) error {
	jobs := make([]river.InsertManyParams, len(indexes))
	for i, index := range indexes {
		jobs[i] = river.InsertManyParams{Args: indexJob{index, m.Namespace, m.ID}, InsertOpts: &river.InsertOpts{Queue: index, UniqueOpts: r.unique}}
	}
	_, err := r.insert.InsertManyTx(ctx, tx, jobs)
	return err
}

func (r *riverJobs) work(ctx context.Context, index indexFunc) (stop func(), err error) {
	w := &worker{pool: r.pool, index: index}
	collecting, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	if r.batched {
		w.collectors = map[string]chan request{}
		for _, name := range indexes {
			requests := make(chan request)
			w.collectors[name] = requests
			running.Go(func() { w.collect(collecting, name, requests) })
		}
	}
	workers, queues := river.NewWorkers(), map[string]river.QueueConfig{}
	river.AddWorker(workers, w)
	for _, name := range indexes {
		queues[name] = river.QueueConfig{MaxWorkers: batch}
	}
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Queues: queues, Workers: workers, FetchCooldown: cooldown, FetchPollInterval: poll, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		_ = client.Stop(context.WithoutCancel(ctx)) // lets running jobs finish
		end()
		running.Wait()
	}, nil
}

func (r *riverJobs) left(ctx context.Context) (n int, err error) {
	err = r.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE finalized_at IS NULL").Scan(&n)
	return n, err
}

// worker does river's jobs.
type worker struct {
	river.WorkerDefaults[indexJob]
	pool       *pgxpool.Pool
	index      indexFunc
	collectors map[string]chan request // by index; nil indexes each job by itself
}

// request is a job that waits for its batch.
type request struct {
	id   uuid.UUID
	done chan error
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, job *river.Job[indexJob]) error {
	if w.collectors == nil {
		return w.load(ctx, job.Args.Index, []uuid.UUID{job.Args.ID})
	}
	r := request{job.Args.ID, make(chan error, 1)}
	select {
	case w.collectors[job.Args.Index] <- r:
		return <-r.done
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load reads memories as they are now and indexes them.
func (w *worker) load(ctx context.Context, index string, ids []uuid.UUID) error {
	rows, err := w.pool.Query(ctx, `SELECT id, revision, content FROM memory.memories WHERE namespace = $1 AND id = ANY($2)`, namespace, ids)
	if err != nil {
		return err
	}
	memories, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m memory, err error) {
		var content string
		err = row.Scan(&m.id, &m.revision, &content)
		return m, err
	})
	if err != nil {
		return err
	}
	if len(memories) == 0 {
		return errors.New("no such memories")
	}
	return w.index(ctx, index, memories)
}

// collect indexes what comes in, as much at once as comes within a moment.
func (w *worker) collect(ctx context.Context, index string, requests <-chan request) {
	for {
		var waiting []request
		select {
		case <-ctx.Done():
			return
		case r := <-requests:
			waiting = append(waiting, r)
		}
		for more := true; more && len(waiting) < batch; {
			select {
			case r := <-requests:
				waiting = append(waiting, r)
			case <-time.After(collectTime):
				more = false
			}
		}
		ids := make([]uuid.UUID, len(waiting))
		for i, r := range waiting {
			ids[i] = r.id
		}
		err := w.load(ctx, index, ids)
		for _, r := range waiting {
			r.done <- err
		}
	}
}
