package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
)

const (
	// maxAttempts is the least number of attempts before a task becomes dead. A task younger than patience becomes
	// dead only if the fault is its own: see fail.
	maxAttempts = 10
	patience    = 24 * time.Hour
	maxBackoff  = 5 * time.Minute
	// lease is how long the tasks of a crashed worker stay leased. A live worker extends it at each heartbeat; one
	// heartbeat may fail. After a longer stall another worker repeats the work, which is harmless.
	lease     = 15 * time.Second
	heartbeat = lease / 3
	// longestWait is longer than any task is postponed. Those that are, by a clock that has been put back since, are looked for every hastenEvery.
	longestWait, hastenEvery = time.Hour, time.Minute
	// callTime is the timeout of one call of the indexer. After maxHung timeouts without a success, the rest of a
	// batch is not tried one by one.
	callTime = 2 * time.Minute
	maxHung  = 2
	// An idle worker sleeps for busyPoll first, since writes come in bursts, then longer, up to idlePoll. It sleeps
	// for pausedPoll after ErrPaused, for up to awayPoll while the database fails, and for up to maxPause while all its
	// tasks fail or nothing can be stored.
	busyPoll   = 5 * time.Millisecond
	idlePoll   = 100 * time.Millisecond
	pausedPoll = time.Second
	awayPoll   = time.Second
	maxPause   = 30 * time.Second
	// handBack is the timeout for releasing leases, which delays a shutdown.
	handBack = 2 * time.Second
)

// Indexer brings a derived index up to date with records of any namespaces. It must be idempotent, must not overwrite
// the result of a newer revision, and stores all of the records or none. It may refuse with ErrPaused. Its context
// has a check of package endpoint: no server is sent anything once a record is sensitive or deleted.
type Indexer interface {
	Index(ctx context.Context, records []record.Record) error
}

// Worker processes the tasks of one index.
type Worker struct {
	Index   string
	Store   Work
	Indexer Indexer
	Batch   int // records per call of the indexer
	Log     *slog.Logger
	// Wake, if not nil, ends the sleep of an idle worker: a store in the same process signals it after each write.
	Wake <-chan struct{}
	// Meter, if not nil, records metrics of each batch and of the queue.
	Meter metric.Meter
	// Tracer, if not nil, creates a span for every batch.
	Tracer trace.Tracer

	metrics  metrics
	hastened time.Time
}

// progress is the outcome of one step.
type progress int

const (
	nothingDue progress = iota
	indexed             // at least one task
	stuck               // all tasks that were tried failed
	paused
)

func (p progress) String() string { return [...]string{"nothing due", "indexed", "stuck", "paused"}[p] }

// Run works until ctx ends. A panic of the indexer counts as a failure of the batch.
func (w *Worker) Run(ctx context.Context) {
	defer w.measure()()
	pause := idlePoll // before the next claim
	away := false     // whether the database failed the last time
	for ctx.Err() == nil {
		came, err := w.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			w.Log.ErrorContext(ctx, "the queue of an index fails; its worker tries again until it works", "index", w.Index, "error", err.Error())
		case err == nil && away:
			w.Log.InfoContext(ctx, "the queue of an index works again", "index", w.Index)
		}
		away = err != nil
		wake := w.Wake
		switch {
		case came == stuck: // new tasks would fail too
			pause, wake = min(2*max(pause, idlePoll), maxPause), nil
		case away:
			pause, wake = min(2*max(pause, idlePoll), awayPoll), nil
		case came == indexed:
			pause = 0
			continue
		case came == paused:
			pause, wake = pausedPoll, nil
		default:
			pause = min(max(2*pause, busyPoll), idlePoll)
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-time.After(pause):
		}
	}
}

func (w *Worker) step(ctx context.Context) (progress, error) {
	if time.Since(w.hastened) >= hastenEvery {
		w.hastened = time.Now()
		if err := w.Store.Hasten(ctx, w.Index, longestWait); err != nil {
			return nothingDue, err
		}
	}
	tasks, err := w.Store.Claim(ctx, w.Index, w.Batch, lease)
	if err != nil || len(tasks) == 0 {
		return nothingDue, err
	}
	if w.Tracer == nil {
		return w.work(ctx, tasks)
	}
	ctx, span := w.Tracer.Start(ctx, "index "+w.Index, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("triskele.index", w.Index), attribute.Int("triskele.memories", len(tasks))))
	defer span.End()
	came, err := w.work(ctx, tasks)
	span.SetAttributes(attribute.String("triskele.outcome", came.String()))
	if err != nil || came == stuck {
		span.SetStatus(codes.Error, came.String()) // the causes are in the log
	}
	return came, err
}

func (w *Worker) work(ctx context.Context, tasks []Task) (progress, error) {
	held := w.hold(ctx, tasks)
	defer held.release(ctx)
	err := w.index(ctx, tasks)
	switch {
	case err == nil:
		return indexed, held.settle(tasks, func() error { return w.Store.Done(ctx, w.Index, tasks) })
	case errors.Is(err, ErrPaused):
		return paused, nil
	case ctx.Err() != nil:
		return nothingDue, nil
	case diskerr.Of(postgres.Wrap(err)) != nil: // no task can be settled, and models would be asked for nothing
		return stuck, err
	}
	if len(tasks) > 1 {
		w.Log.WarnContext(ctx, "indexing a batch failed; its memories are tried one by one", "index", w.Index, "memories", len(tasks), "reason", reason(err))
	}
	// One bad record must not hold up its batch.
	failures, failed, hung := make([]error, len(tasks)), 0, 0
	for i := 0; i < len(tasks) && hung < maxHung; i++ {
		alone := tasks[i : i+1]
		if len(tasks) > 1 {
			err = w.index(ctx, alone)
		}
		switch {
		case err == nil:
			if err := held.settle(alone, func() error { return w.Store.Done(ctx, w.Index, alone) }); err != nil {
				return stuck, err
			}
			hung = math.MinInt // the indexer works
		case errors.Is(err, ErrPaused):
			return paused, nil
		case ctx.Err() != nil:
			return nothingDue, nil
		default:
			failures[i] = err
			failed++
			if errors.Is(err, context.DeadlineExceeded) {
				hung++
			}
		}
	}
	came := indexed
	if failed == len(tasks) || hung == maxHung {
		came = stuck
	}
	for i, failure := range failures {
		if failure == nil {
			continue
		}
		if err := held.settle(tasks[i:i+1], func() error { return w.fail(ctx, tasks[i], failure, came == indexed) }); err != nil {
			return came, err
		}
	}
	return came, nil
}

// fail retries a task later or makes it dead. ownFault says that the index worked when the task failed.
func (w *Worker) fail(ctx context.Context, task Task, failure error, ownFault bool) error {
	attempt, why := task.Attempts+1, reason(failure)
	dead := attempt >= maxAttempts && (ownFault || errors.Is(failure, ErrHopeless) || time.Since(task.EnqueuedAt) > patience)
	outcome := "failed"
	if dead {
		outcome = "given_up"
	}
	w.metrics.count(ctx, 1, outcome)
	w.Log.WarnContext(ctx, "indexing failed", "index", w.Index, "memory", task.Record.ID.String(), "attempt", attempt, "given_up", dead, "reason", why)
	wait := backoff(task.Attempts)
	if !ownFault { // a recovered index should get its tasks soon
		wait = min(wait, maxPause)
	}
	return w.Store.Fail(ctx, w.Index, task, wait, dead, why)
}

func (w *Worker) index(ctx context.Context, tasks []Task) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	records := slice.Map(tasks, func(t Task) record.Record { return t.Record })
	start := time.Now()
	checked := endpoint.WithCheck(ctx, func(ctx context.Context) (bool, error) { return w.Store.AsSensitive(ctx, records) })
	err := panics.Catch(ctx, w.Log, "index "+w.Index, func() error { return w.Indexer.Index(checked, records) })
	if _, ok := errors.AsType[*panics.Error](err); ok { // it would panic again
		err = fmt.Errorf("%w: %w", ErrHopeless, err)
	}
	w.metrics.called(ctx, len(tasks), time.Since(start), err)
	return err
}

// backoff doubles from one second to five minutes, plus up to 50 % jitter.
func backoff(attempts int) time.Duration {
	wait := maxBackoff
	if attempts < 9 {
		wait = min(wait, time.Second<<attempts)
	}
	return wait + rand.N(wait/2)
}

// holding extends the leases of a batch, so that an indexer may take longer than a lease.
type holding struct {
	worker *Worker
	mu     sync.Mutex
	tasks  []Task // not settled yet
	cancel context.CancelFunc
	ended  chan struct{}
}

func (w *Worker) hold(ctx context.Context, tasks []Task) *holding {
	ctx, cancel := context.WithCancel(ctx)
	h := &holding{worker: w, tasks: slices.Clone(tasks), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(heartbeat):
				_ = panics.Catch(ctx, w.Log, "extend the leases of "+w.Index, func() error { h.extend(ctx); return nil })
			}
		}
	}()
	return h
}

func (h *holding) extend(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.worker.Store.Extend(ctx, h.worker.Index, h.tasks, lease); err != nil && ctx.Err() == nil {
		h.worker.Log.WarnContext(ctx, "a lease was not extended", "index", h.worker.Index, "error", err.Error())
	}
}

// settle calls end and stops extending the leases of tasks.
func (h *holding) settle(tasks []Task, end func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := end(); err != nil {
		return err
	}
	h.tasks = slices.DeleteFunc(h.tasks, func(t Task) bool {
		return slices.ContainsFunc(tasks, func(s Task) bool { return s.Record.Key() == t.Record.Key() })
	})
	return nil
}

// release ends the leases of unsettled tasks, also at shutdown.
func (h *holding) release(ctx context.Context) {
	h.cancel()
	<-h.ended
	if len(h.tasks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handBack)
	defer cancel()
	if err := h.worker.Store.Extend(ctx, h.worker.Index, h.tasks, 0); err != nil {
		h.worker.Log.WarnContext(ctx, "leases were not released", "index", h.worker.Index, "error", err.Error())
	}
}
