package queue_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

const index = "dense"

func claim(t *testing.T, f *storetest.Fixture, n int, lease time.Duration) []queue.Task {
	t.Helper()
	tasks, err := f.Queue.Claim(t.Context(), index, n, lease)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func status(t *testing.T, f *storetest.Fixture, namespace string) queue.Status {
	t.Helper()
	s, err := f.Queue.Status(t.Context(), index, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClaimLeasesEachTaskOnce(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var records []record.Record
		for range 20 {
			records = append(records, storetest.Record("n", "x", nil))
		}
		f.Insert(t, records...)
		var mu sync.Mutex
		seen := map[uuid.UUID]int{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					tasks, err := f.Queue.Claim(t.Context(), index, 3, time.Minute)
					if err != nil {
						t.Errorf("claim: %v", err)
						return
					}
					if len(tasks) == 0 {
						return
					}
					mu.Lock()
					for _, task := range tasks {
						seen[task.Record.ID]++
						if task.Record.Content != "x" || task.EnqueuedAt.IsZero() {
							t.Errorf("task %+v", task)
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, r := range records {
			if seen[r.ID] != 1 {
				t.Errorf("%s was claimed %d times", r.ID, seen[r.ID])
			}
		}
		if s := status(t, f, "n"); s.Pending != 20 || s.Dead != 0 {
			t.Errorf("leased tasks are still pending: %+v", s)
		}
		if s := status(t, f, "other"); s != (queue.Status{}) {
			t.Errorf("another namespace: %+v", s)
		}
	})
}

func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil))
		if n := len(claim(t, f, 1, -time.Second)); n != 1 { // over as soon as it is given, as after a crash
			t.Fatalf("%d tasks", n)
		}
		if n := len(claim(t, f, 1, time.Minute)); n != 1 {
			t.Errorf("the task was not claimed again: %d", n)
		}
		if n := len(claim(t, f, 1, time.Minute)); n != 0 {
			t.Errorf("a leased task was given to another: %d", n)
		}
	})
}

func TestDoneKeepsWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		changed, kept := storetest.Record("n", "x", nil), storetest.Record("n", "y", nil)
		f.Insert(t, changed, kept)
		tasks := claim(t, f, 10, time.Minute)
		if _, err := f.Memory.Update(t.Context(), "n", changed.ID, 0, func(r *record.Record) error { r.Content = "z"; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := f.Queue.Done(t.Context(), index, tasks); err != nil {
			t.Fatal(err)
		}
		again := claim(t, f, 10, time.Minute)
		if len(again) != 1 || again[0].Record.ID != changed.ID || again[0].Record.Content != "z" || again[0].Record.Revision != 2 {
			t.Errorf("left to do: %+v", again)
		}
	})
}

func TestFailPutsBackOrSetsAside(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r := storetest.Record("n", "x", nil)
		f.Insert(t, r)
		task := claim(t, f, 1, time.Minute)[0]
		if err := f.Queue.Fail(t.Context(), index, task, -time.Second, false, "the model is down"); err != nil {
			t.Fatal(err)
		}
		again := claim(t, f, 1, time.Minute)
		if len(again) != 1 || again[0].Attempts != 1 {
			t.Fatalf("after a failure: %+v", again)
		}
		if err := f.Queue.Fail(t.Context(), index, again[0], -time.Second, true, "for good"); err != nil {
			t.Fatal(err)
		}
		if left := claim(t, f, 1, time.Minute); len(left) != 0 {
			t.Errorf("a dead task was claimed: %+v", left)
		}
		if s := status(t, f, "n"); s.Pending != 0 || s.Dead != 1 || s.Lag != 0 {
			t.Errorf("status %+v", s)
		}
		if _, err := f.Memory.Update(t.Context(), "n", r.ID, 0, func(r *record.Record) error { r.Content = "y"; return nil }); err != nil {
			t.Fatal(err)
		}
		if s := status(t, f, "n"); s.Pending != 1 || s.Dead != 0 {
			t.Errorf("a change revives a dead task: %+v", s)
		}
	})
}

func TestForgottenMemoriesHaveNoTasks(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r := storetest.Record("n", "x", nil)
		f.Insert(t, r)
		task := claim(t, f, 1, time.Minute)[0]
		if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{r.ID}); err != nil {
			t.Fatal(err)
		}
		if s := status(t, f, "n"); s.Pending != 0 {
			t.Errorf("status %+v", s)
		}
		// The worker that was at it ends without an error and without bringing the task back.
		if err := f.Queue.Done(t.Context(), index, []queue.Task{task}); err != nil {
			t.Error(err)
		}
		if err := f.Queue.Fail(t.Context(), index, task, 0, false, "x"); err != nil {
			t.Error(err)
		}
		if s := status(t, f, "n"); s.Pending != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestRetriesByTheDatabasesClock: a worker whose clock is behind that of the database does not retry at once, nor does it take others' tasks
// for ones that are postponed too long.
func TestRetriesByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		if f.Engine != schema.Postgres { // a SQLite file has the worker's clock
			return
		}
		f.Insert(t, storetest.Record("n", "x", nil))
		task := claim(t, f, 1, time.Minute)[0]
		synctest.Test(t, func(t *testing.T) { // the clock shows the year 2000
			if err := f.Queue.Fail(t.Context(), index, task, time.Minute, false, "x"); err != nil {
				t.Error(err)
			}
			if err := f.Queue.Hasten(t.Context(), index, time.Hour); err != nil {
				t.Error(err)
			}
		})
		if again := claim(t, f, 1, time.Minute); len(again) > 0 {
			t.Errorf("got %+v at once, want it in a minute", again)
		}
	})
}
