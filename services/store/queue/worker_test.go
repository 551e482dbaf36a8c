package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// indexer is an index made of a function.
type indexer func(ctx context.Context, records []record.Record) error

func (i indexer) Index(ctx context.Context, records []record.Record) error { return i(ctx, records) }

func TestWorkerIsolatesABadRecord(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		good := []record.Record{storetest.Record("n", "good 1", nil), storetest.Record("n", "good 2", nil)}
		f.Insert(t, good[0], storetest.Record("n", "bad", nil), good[1])
		var mu sync.Mutex
		var indexed []string
		ctx, cancel := context.WithCancel(t.Context())
		tried := make(chan struct{}, 100)
		worker := queue.Worker{Index: index, Store: f.Queue, Batch: 10, Log: storetest.Log(), Indexer: indexer(func(_ context.Context, records []record.Record) error {
			if slices.ContainsFunc(records, func(r record.Record) bool { return r.Content == "bad" }) {
				if len(records) == 1 {
					tried <- struct{}{}
				}
				return errors.New("cannot index this")
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range records {
				indexed = append(indexed, r.Content)
			}
			return nil
		})}
		ended := make(chan struct{})
		go func() { worker.Run(ctx); close(ended) }()
		<-tried
		<-tried // once more after the backoff: it was put back, and nothing else was
		cancel()
		<-ended
		slices.Sort(indexed)
		if got := strings.Join(indexed, ", "); got != "good 1, good 2" {
			t.Errorf("indexed %s", got)
		}
		if s := status(t, f, "n"); s.Pending != 1 || s.Lag <= 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestWorkerWakesForNewWork(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		wake, indexed := make(chan struct{}, 1), make(chan string, 1)
		worker := queue.Worker{Index: index, Store: f.Queue, Batch: 10, Log: storetest.Log(), Wake: wake, Indexer: indexer(func(_ context.Context, records []record.Record) error {
			indexed <- records[0].Content
			return nil
		})}
		ended := make(chan struct{})
		go func() { worker.Run(ctx); close(ended) }()
		f.Insert(t, storetest.Record("n", "new", nil))
		wake <- struct{}{}
		if got := <-indexed; got != "new" {
			t.Errorf("indexed %q", got)
		}
		cancel()
		<-ended
	})
}

// start runs a worker until the test or stop ends it.
func start(t *testing.T, w *queue.Worker) (stop func()) {
	t.Helper()
	if w.Log == nil {
		w.Log = storetest.Log()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// eventually polls what a worker does to the database.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for ticker := time.NewTicker(10 * time.Millisecond); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func TestPausedIndexerCountsNoAttempt(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil), storetest.Record("n", "y", nil))
		asked := make(chan int, 100)
		stop := start(t, &queue.Worker{Index: index, Store: f.Queue, Batch: 10, Indexer: indexer(func(_ context.Context, records []record.Record) error {
			asked <- len(records)
			return fmt.Errorf("dense: %w", queue.ErrPaused)
		})})
		if n, again := <-asked, <-asked; n != 2 || again != 2 {
			t.Errorf("asked about %d memories, then %d", n, again)
		}
		stop()
		tasks := claim(t, f, 10, time.Minute) // given back, not leased until the lease would have ended
		if len(tasks) != 2 || tasks[0].Attempts != 0 || tasks[1].Attempts != 0 {
			t.Errorf("tasks %+v", tasks)
		}
	})
}

// failTimes lets everything that is due fail n times.
func failTimes(t *testing.T, f *storetest.Fixture, n int) {
	t.Helper()
	for range n {
		for _, task := range claim(t, f, 10, time.Minute) {
			if err := f.Queue.Fail(t.Context(), index, task, -time.Second, false, "again"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func entries(t *testing.T, f *storetest.Fixture) []queue.Entry {
	t.Helper()
	entries, err := f.Queue.List(t.Context(), queue.Selection{Index: index}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestFailingWhereOthersGoThroughIsGivenUp(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "bad", nil))
		failTimes(t, f, 9)
		f.Insert(t, storetest.Record("n", "good", nil))
		start(t, &queue.Worker{Index: index, Store: f.Queue, Batch: 10, Indexer: indexer(func(_ context.Context, records []record.Record) error {
			if slices.ContainsFunc(records, func(r record.Record) bool { return r.Content == "bad" }) {
				return errors.New("cannot index this")
			}
			return nil
		})})
		eventually(t, "the bad one is given up", func() bool { s := status(t, f, "n"); return s.Dead == 1 && s.Pending == 0 })
	})
}

// TestOutageGivesNothingUp: if everything fails, it is the index that is out of order.
func TestOutageGivesNothingUp(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil), storetest.Record("n", "y", nil))
		failTimes(t, f, 20)
		start(t, &queue.Worker{Index: index, Store: f.Queue, Batch: 10, Indexer: indexer(func(context.Context, []record.Record) error {
			return errors.New("everything fails")
		})})
		eventually(t, "both have failed once more", func() bool {
			return !slices.ContainsFunc(entries(t, f), func(e queue.Entry) bool { return e.Attempts != 21 })
		})
		if s := status(t, f, "n"); s.Dead != 0 || s.Pending != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

// syncBuffer is a log that two goroutines may use.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// public is an error that says in safe words what happened.
type public struct{ error }

func (public) Public() string { return "the model is full" }

// TestReasonsHaveNoText puts a memory's text into every error and looks for it in what is kept and logged.
func TestReasonsHaveNoText(t *testing.T) {
	t.Parallel()
	const canary = "xylophonequetzal"
	causes := map[string]error{
		"plain":    errors.New("cannot embed " + canary),
		"joined":   errors.Join(fmt.Errorf("%s: %w", canary, errors.New(canary)), errors.New(canary)),
		"deadline": fmt.Errorf("embed %q: %w", canary, context.DeadlineExceeded),
		"database": fmt.Errorf("put %q: %w", canary, &pgconn.PgError{Code: "22P02", Message: "invalid input: " + canary, Detail: canary}),
		"public":   fmt.Errorf("%s: %w", canary, public{errors.New(canary)}),
	}
	want := map[string]string{
		"plain": "error of type *errors.errorString", "joined": "error of type *errors.errorString", "deadline": "timed out",
		"database": "PostgreSQL error 22P02", "public": "the model is full",
	}
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		kinds := map[string]string{}
		for kind := range causes {
			r := storetest.Record("n", kind, nil)
			f.Insert(t, r)
			kinds[r.ID.String()] = kind
		}
		var log syncBuffer
		stop := start(t, &queue.Worker{
			Index: index, Store: f.Queue, Batch: 10, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Indexer: indexer(func(_ context.Context, records []record.Record) error { return causes[records[0].Content] }),
		})
		eventually(t, "all have failed", func() bool {
			return !slices.ContainsFunc(entries(t, f), func(e queue.Entry) bool { return e.Attempts == 0 })
		})
		stop()
		for _, e := range entries(t, f) {
			if kind := kinds[e.ID.String()]; e.LastError != want[kind] || !strings.Contains(log.String(), want[kind]) {
				t.Errorf("%s: kept %q", kind, e.LastError)
			}
		}
		if strings.Contains(log.String(), canary) {
			t.Errorf("text in the log:\n%s", log.String())
		}
	})
}

func TestEndingWorkerGivesItsTasksBack(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil))
		begun := make(chan struct{})
		stop := start(t, &queue.Worker{Index: index, Store: f.Queue, Batch: 10, Indexer: indexer(func(ctx context.Context, _ []record.Record) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})})
		<-begun
		if due := claim(t, f, 10, time.Minute); len(due) != 0 {
			t.Errorf("%d tasks are due while they are being indexed", len(due))
		}
		stop()
		if due := claim(t, f, 10, time.Minute); len(due) != 1 || due[0].Attempts != 0 {
			t.Errorf("due afterwards: %+v", due)
		}
	})
}

// TestWorkerGuardsWhatItGivesOut has an indexer send texts to a server, one of which turns sensitive, or goes, right before.
func TestWorkerGuardsWhatItGivesOut(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var sent atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			sent.Add(n)
		}))
		t.Cleanup(server.Close)
		e, err := endpoint.New(server.URL, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		stays, turns, goes := storetest.Record("n", "stays", nil), storetest.Record("n", "turns", nil), storetest.Record("m", "goes", nil)
		before := map[string]func(){
			"turns": func() {
				if _, err := f.Memory.Update(t.Context(), "n", turns.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
					t.Error(err)
				}
			},
			"goes": func() {
				if _, err := f.Memory.Forget(t.Context(), "m", []uuid.UUID{goes.ID}); err != nil {
					t.Error(err)
				}
			},
		}
		f.Insert(t, stays, turns, goes)
		ended := make(chan error, 100)
		stop := start(t, &queue.Worker{Index: index, Store: f.Queue, Batch: 1, Indexer: indexer(func(ctx context.Context, records []record.Record) error {
			if hide := before[records[0].Content]; hide != nil {
				hide()
			}
			_, _, err := e.Post(ctx, "", []byte("x"), 100)
			ended <- err
			return err
		})})
		defer stop()
		var withdrawn int
		for range 3 {
			err := <-ended
			if errors.Is(err, endpoint.ErrWithdrawn) {
				withdrawn++
			} else if err != nil {
				t.Error(err)
			}
		}
		if sent.Load() != 1 || withdrawn != 2 {
			t.Errorf("%d texts were sent, %d withheld", sent.Load(), withdrawn)
		}
	})
}

// list is a list of tasks in memory, on whatever clock the test runs.
type list struct {
	mu     sync.Mutex
	away   error // that Claim returns, if not nil
	claims int
	due    map[uuid.UUID]time.Time
	tries  map[uuid.UUID]int
}

var _ queue.Work = (*list)(nil)

func (l *list) Claim(_ context.Context, _ string, n int, lease time.Duration) (tasks []queue.Task, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claims++; l.away != nil {
		return nil, l.away
	}
	for id, due := range l.due {
		if len(tasks) < n && !due.After(time.Now()) {
			l.due[id] = time.Now().Add(lease)
			tasks = append(tasks, queue.Task{Record: record.Record{ID: id}, EnqueuedAt: time.Now(), Attempts: l.tries[id]})
		}
	}
	return tasks, nil
}

func (l *list) Extend(_ context.Context, _ string, tasks []queue.Task, lease time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		l.due[t.Record.ID] = time.Now().Add(lease)
	}
	return nil
}

func (l *list) Done(_ context.Context, _ string, tasks []queue.Task) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		delete(l.due, t.Record.ID)
	}
	return nil
}

func (l *list) Fail(_ context.Context, _ string, t queue.Task, wait time.Duration, _ bool, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due[t.Record.ID] = time.Now().Add(wait)
	l.tries[t.Record.ID]++
	return nil
}

func (l *list) Hasten(context.Context, string, time.Duration) error { return nil }

func (l *list) AsSensitive(context.Context, []record.Record) (bool, error) { return true, nil }

func (l *list) Total(context.Context, string) (queue.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return queue.Status{Pending: int64(len(l.due))}, nil
}

// TestSlowIndexerKeepsItsLease runs two workers whose indexer takes longer than a lease, on a fake clock: no memory is
// indexed twice.
func TestSlowIndexerKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &list{due: map[uuid.UUID]time.Time{}, tries: map[uuid.UUID]int{}}
		for range 6 {
			tasks.due[uuid.New()] = time.Now()
		}
		var mu sync.Mutex
		seen := map[uuid.UUID]int{}
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for range 2 {
			w := queue.Worker{Index: index, Store: tasks, Batch: 3, Log: storetest.Log(), Indexer: indexer(func(_ context.Context, records []record.Record) error {
				mu.Lock()
				for _, r := range records {
					seen[r.ID]++
				}
				mu.Unlock()
				time.Sleep(110 * time.Second)
				return nil
			})}
			workers.Go(func() { w.Run(ctx) })
		}
		time.Sleep(10 * time.Minute)
		cancel()
		workers.Wait()
		if len(tasks.due) != 0 || len(seen) != 6 {
			t.Errorf("%d memories were indexed, %d are left", len(seen), len(tasks.due))
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s was indexed %d times", id, n)
			}
		}
	})
}

// cutOff is a list that a worker can claim from and then never reach again: it has died, as far as the list can tell.
type cutOff struct{ *list }

func (cutOff) Extend(context.Context, string, []queue.Task, time.Duration) error {
	return errors.New("unreachable")
}

// TestDeadWorkersTasksAreTakenOver: what a dead worker has claimed is out of reach for a quarter of a minute.
func TestDeadWorkersTasksAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &list{due: map[uuid.UUID]time.Time{uuid.New(): time.Now()}, tries: map[uuid.UUID]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		claimed := make(chan struct{})
		dead := queue.Worker{Index: index, Store: cutOff{tasks}, Batch: 1, Log: slog.New(slog.DiscardHandler), Indexer: indexer(func(ctx context.Context, _ []record.Record) error {
			close(claimed)
			<-ctx.Done()
			return ctx.Err()
		})}
		running.Go(func() { dead.Run(ctx) })
		<-claimed
		died, indexed := time.Now(), make(chan time.Time, 1)
		living := queue.Worker{Index: index, Store: tasks, Batch: 1, Log: storetest.Log(), Indexer: indexer(func(context.Context, []record.Record) error {
			indexed <- time.Now()
			return nil
		})}
		running.Go(func() { living.Run(ctx) })
		if after := (<-indexed).Sub(died); after < 14*time.Second || after > 16*time.Second {
			t.Errorf("taken over after %v", after)
		}
		cancel()
		running.Wait()
	})
}

// TestHangingCallIsEnded has an indexer that hangs on any batch and answers for single memories: they go through.
func TestHangingCallIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &list{due: map[uuid.UUID]time.Time{}, tries: map[uuid.UUID]int{}}
		for range 3 {
			tasks.due[uuid.New()] = time.Now()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		w := queue.Worker{Index: index, Store: tasks, Batch: 3, Log: storetest.Log(), Indexer: indexer(func(ctx context.Context, records []record.Record) error {
			if len(records) > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})}
		running.Go(func() { w.Run(ctx) })
		time.Sleep(5 * time.Minute)
		cancel()
		running.Wait()
		if len(tasks.due) != 0 {
			t.Errorf("%d memories are left", len(tasks.due))
		}
	})
}

// TestHangingIndexerIsGivenABreak: an indexer that hangs whatever it is given is not asked about each memory of a batch in
// turn, which would take hours and say nothing meanwhile.
func TestHangingIndexerIsGivenABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &list{due: map[uuid.UUID]time.Time{}, tries: map[uuid.UUID]int{}}
		for range 60 {
			tasks.due[uuid.New()] = time.Now()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var hanging atomic.Bool
		hanging.Store(true)
		var log syncBuffer
		w := queue.Worker{Index: index, Store: tasks, Batch: 60, Log: slog.New(slog.NewTextHandler(&log, nil)), Indexer: indexer(func(ctx context.Context, records []record.Record) error {
			if hanging.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})}
		running.Go(func() { w.Run(ctx) })
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		tasks.mu.Lock()
		tried := len(tasks.tries)
		tasks.mu.Unlock()
		if tried != 2 || !strings.Contains(log.String(), "one by one") || !strings.Contains(log.String(), "timed out") {
			t.Errorf("%d memories have failed by then; log:\n%s", tried, log.String())
		}
		hanging.Store(false)
		time.Sleep(5 * time.Minute)
		cancel()
		running.Wait()
		if len(tasks.due) != 0 {
			t.Errorf("%d memories are left after the indexer has answered again", len(tasks.due))
		}
	})
}

// TestBacklogDrainsSoonAfterAnOutage: what failed for hours is not put off for long when the index works again.
func TestBacklogDrainsSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &list{due: map[uuid.UUID]time.Time{}, tries: map[uuid.UUID]int{}}
		for range 100 {
			tasks.due[uuid.New()] = time.Now()
		}
		var away atomic.Bool
		away.Store(true)
		stop := start(t, &queue.Worker{Index: index, Store: tasks, Batch: 64, Indexer: indexer(func(context.Context, []record.Record) error {
			if away.Load() {
				return errors.New("away")
			}
			return nil
		})})
		time.Sleep(3 * time.Hour)
		away.Store(false)
		time.Sleep(time.Minute)
		stop()
		if len(tasks.due) != 0 {
			t.Errorf("%d memories are left a minute after the outage", len(tasks.due))
		}
	})
}

// TestAwayDatabaseIsAskedSeldom: a worker asks a database that is away about once a second, and says once that it is away and that it
// is back.
func TestAwayDatabaseIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &list{due: map[uuid.UUID]time.Time{uuid.New(): time.Now()}, tries: map[uuid.UUID]int{}, away: errors.New("connection refused")}
		var log syncBuffer
		wake := make(chan struct{}, 1)
		stop := start(t, &queue.Worker{Index: index, Store: tasks, Batch: 64, Wake: wake, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Indexer: indexer(func(context.Context, []record.Record) error { return nil })})
		time.Sleep(time.Minute)
		wake <- struct{}{} // does not hurry it
		tasks.mu.Lock()
		if tasks.claims < 60 || tasks.claims > 65 {
			t.Errorf("got %d claims in a minute, want about 60", tasks.claims)
		}
		tasks.away = nil
		tasks.mu.Unlock()
		time.Sleep(time.Second)
		stop()
		if len(tasks.due) != 0 {
			t.Error("the task was not done within a second")
		}
		if text := log.String(); strings.Count(text, "level=ERROR") != 1 || strings.Count(text, "works again") != 1 || strings.Count(text, "\n") != 2 {
			t.Errorf("the log has %s", text)
		}
	})
}

// fullList is a list on a full disk.
type fullList struct{ *list }

func (fullList) Fail(context.Context, string, queue.Task, time.Duration, bool, string) error {
	return diskerr.ErrFull
}

// TestModelsAreAskedSeldomOnAFullDisk: a model may cost money, and nothing of what it says can be stored.
func TestModelsAreAskedSeldomOnAFullDisk(t *testing.T) {
	for name, err := range map[string]error{"sqlite": fmt.Errorf("%w: cause", diskerr.ErrFull), "postgres": &pgconn.PgError{Code: "53100"}} {
		synctest.Test(t, func(t *testing.T) {
			tasks := &list{due: map[uuid.UUID]time.Time{}, tries: map[uuid.UUID]int{}}
			for range 64 {
				tasks.due[uuid.New()] = time.Now()
			}
			var full atomic.Bool
			full.Store(true)
			var asked atomic.Int64
			stop := start(t, &queue.Worker{Index: index, Store: fullList{tasks}, Batch: 64, Indexer: indexer(func(context.Context, []record.Record) error {
				if asked.Add(1); full.Load() {
					return err
				}
				return nil
			})})
			time.Sleep(time.Hour)
			if got := asked.Load(); got > 140 {
				t.Errorf("%s: got %d calls in an hour, want one in half a minute", name, got)
			}
			full.Store(false)
			time.Sleep(time.Minute)
			stop()
			if len(tasks.due) != 0 {
				t.Errorf("%s: %d memories are left a minute after there is room", name, len(tasks.due))
			}
		})
	}
}

// TestPollsOftenAfterWork: writes come in bursts, so the next is looked for soon, and an idle worker looks ten times a
// second.
func TestPollsOftenAfterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &list{due: map[uuid.UUID]time.Time{}, tries: map[uuid.UUID]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		indexed := make(chan time.Time, 1)
		w := queue.Worker{Index: index, Store: tasks, Batch: 1, Log: storetest.Log(), Indexer: indexer(func(context.Context, []record.Record) error {
			indexed <- time.Now()
			return nil
		})}
		running.Go(func() { w.Run(ctx) })
		add := func() time.Duration {
			begun := time.Now()
			tasks.mu.Lock()
			tasks.due[uuid.New()] = begun
			tasks.mu.Unlock()
			return (<-indexed).Sub(begun)
		}
		time.Sleep(1050 * time.Millisecond)
		if lag := add(); lag < 20*time.Millisecond || lag > 100*time.Millisecond {
			t.Errorf("the first of a burst was indexed after %v", lag)
		}
		for range 10 {
			time.Sleep(2 * time.Millisecond)
			if lag := add(); lag > 10*time.Millisecond {
				t.Errorf("the next of a burst was indexed after %v", lag)
			}
		}
		cancel()
		running.Wait()
	})
}

// collect reads all metrics, by name and labels.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := func(labels attribute.Set) string { return m.Name + " " + labels.Encoded(attribute.DefaultEncoder()) }
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[name(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[name(p.Attributes)] = p.Value
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[name(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[name(p.Attributes)] = float64(p.Count)
				}
			}
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("a", "dead", nil))
		giveUp(t, f)
		f.Insert(t, storetest.Record("a", "bad", nil), storetest.Record("b", "good", nil))
		reader := sdkmetric.NewManualReader()
		stop := start(t, &queue.Worker{
			Index: index, Store: f.Queue, Batch: 10, Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"),
			Indexer: indexer(func(_ context.Context, records []record.Record) error {
				if slices.ContainsFunc(records, func(r record.Record) bool { return r.Content == "bad" }) {
					return errors.New("bad")
				}
				return nil
			}),
		})
		eventually(t, "one is indexed and one has failed", func() bool {
			values := collect(t, reader)
			return values["triskele.index.memories index=dense,outcome=indexed"] == 1 && values["triskele.index.memories index=dense,outcome=failed"] >= 1
		})
		values := collect(t, reader)
		for name, want := range map[string]float64{"triskele.index.pending index=dense": 1, "triskele.index.dead index=dense": 1} {
			if values[name] != want {
				t.Errorf("%s is %v, want %v", name, values[name], want)
			}
		}
		if values["triskele.index.lag index=dense"] <= 0 || values["triskele.index.batch.duration index=dense,outcome=indexed"] != 1 ||
			values["triskele.index.batch.duration index=dense,outcome=failed"] < 2 {
			t.Errorf("values %v", values)
		}
		for name := range values {
			if strings.Contains(name, "namespace") {
				t.Errorf("a namespace is a label: %s", name)
			}
		}
		stop()
		if values := collect(t, reader); values["triskele.index.pending index=dense"] != 0 {
			t.Error("the list is still being read when nobody works it off")
		}
	})
}

// TestPanicIsAFailedAttempt: a memory that makes the indexer panic is given up on by name, alone in the list or not, the others of its
// batch are indexed, and the worker goes on.
func TestPanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		bad := storetest.Record("n", "bad words", nil)
		f.Insert(t, bad)
		failTimes(t, f, 8)
		var log syncBuffer
		stop := start(t, &queue.Worker{Index: index, Store: f.Queue, Batch: 10, Log: slog.New(slog.NewTextHandler(&log, nil)), Indexer: indexer(func(_ context.Context, records []record.Record) error {
			for _, r := range records {
				if r.Content == bad.Content {
					panic("cannot index " + r.Content)
				}
			}
			return nil
		})})
		eventually(t, "the attempt has failed", func() bool { return entries(t, f)[0].Attempts == 9 })
		f.Insert(t, storetest.Record("n", "good", nil))
		eventually(t, "the good one is indexed", func() bool { return len(entries(t, f)) == 1 })
		stop()
		if _, err := f.Memory.Update(t.Context(), "n", bad.ID, 0, func(r *record.Record) error { r.Title = "anew"; return nil }); err != nil {
			t.Fatal(err)
		}
		failTimes(t, f, 9)
		start(t, &queue.Worker{Index: index, Store: f.Queue, Batch: 10, Log: slog.New(slog.NewTextHandler(&log, nil)), Indexer: indexer(func(context.Context, []record.Record) error {
			panic(errors.New(bad.Content))
		})})
		eventually(t, "it is given up although nothing else was indexed", func() bool { s := status(t, f, "n"); return s.Dead == 1 && s.Pending == 0 })
		for _, e := range entries(t, f) {
			if want := "panic (*errors.errorString); the log has its stack"; e.ID != bad.ID || !e.Dead || e.Attempts != 10 || e.LastError != want {
				t.Errorf("got %+v, want memory %s dead after 10 attempts with %q", e, bad.ID, want)
			}
		}
		if got := log.String(); strings.Contains(got, "bad words") || !strings.Contains(got, "worker_test.go") {
			t.Errorf("got the log %q, want the stack and no text", got)
		}
	})
}

// TestClockPutBack: a task that was postponed while the clock was a year ahead is not left for a year.
func TestClockPutBack(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "ahead", nil), storetest.Record("n", "postponed", nil))
		for _, task := range claim(t, f, 10, time.Minute) {
			wait := 10 * time.Minute
			if task.Record.Content == "ahead" {
				wait = 365 * 24 * time.Hour
			}
			if err := f.Queue.Fail(t.Context(), index, task, wait, false, "failed"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var seen []string
		w := queue.Worker{Index: index, Store: f.Queue, Batch: 10, Log: storetest.Log(), Indexer: indexer(func(_ context.Context, records []record.Record) error {
			for _, r := range records {
				seen = append(seen, r.Content)
			}
			time.AfterFunc(200*time.Millisecond, cancel)
			return nil
		})}
		w.Run(ctx)
		if !slices.Equal(seen, []string{"ahead"}) {
			t.Errorf("got %v indexed, want the memory from ahead alone", seen)
		}
	})
}
