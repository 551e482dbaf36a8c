package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// insert stores a memory and returns the number of the write.
func insert(t *testing.T, f *storetest.Fixture, r record.Record) int64 {
	t.Helper()
	stored, err := f.Memory.Insert(t.Context(), []record.Record{r})
	if err != nil {
		t.Fatal(err)
	}
	return stored[0].Record.Sequence
}

func knows(t *testing.T, f *storetest.Fixture, namespace string, sequence int64) (knows, gaveUp bool) {
	t.Helper()
	knows, gaveUp, err := f.Queue.Knows(t.Context(), index, namespace, sequence)
	if err != nil {
		t.Fatal(err)
	}
	return knows, gaveUp
}

func TestKnows(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		first, second := storetest.Record("n", "first", nil), storetest.Record("n", "second", nil)
		one := insert(t, f, first)
		tasks := claim(t, f, 10, time.Minute)
		two := insert(t, f, second)
		check := func(when string, sequence int64, want bool) {
			t.Helper()
			if known, gaveUp := knows(t, f, "n", sequence); known != want || gaveUp {
				t.Errorf("%s: knows %v, gave up %v", when, known, gaveUp)
			}
		}
		check("before all writes", 0, true)
		check("a claimed write", one, false)
		check("the second write", two, false)
		if known, _ := knows(t, f, "other", two); !known {
			t.Error("another namespace's tasks stand in the way")
		}
		if err := f.Queue.Done(t.Context(), index, tasks); err != nil {
			t.Fatal(err)
		}
		check("the first write, indexed", one, true)
		check("the second write, not indexed", two, false)

		// A change that comes while the one before is waiting does not push the older one's number out of the row.
		after, err := f.Memory.Update(t.Context(), "n", second.ID, 0, func(r *record.Record) error { r.Content = "changed"; return nil })
		if err != nil {
			t.Fatal(err)
		}
		check("a write that was overwritten before it was indexed", two, false)
		check("the change", after.Sequence, false)
		check("the first write, still", one, true)
		if err := f.Queue.Done(t.Context(), index, claim(t, f, 10, time.Minute)); err != nil {
			t.Fatal(err)
		}
		check("the change, indexed", after.Sequence, true)

		// What the index is not to have, it does not lack.
		check("a sensitive write", insert(t, f, storetest.Record("n", "secret", func(r *record.Record) { r.Sensitive = true })), true)
	})
}

func TestKnowsWhenGivenUp(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r := storetest.Record("n", "x", nil)
		sequence := insert(t, f, r)
		giveUp(t, f)
		if known, gaveUp := knows(t, f, "n", sequence); known || !gaveUp {
			t.Errorf("knows %v, gave up %v", known, gaveUp)
		}
		if known, gaveUp := knows(t, f, "n", sequence-1); !known || gaveUp {
			t.Errorf("an earlier write: knows %v, gave up %v", known, gaveUp)
		}
		if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{r.ID}); err != nil {
			t.Fatal(err)
		}
		if known, _ := knows(t, f, "n", sequence); !known {
			t.Error("a forgotten memory stands in the way")
		}
	})
}

// TestKnowsRefusesWhatWasNeverWritten: the number may come from another database, or from before a restore. Waiting would
// not help, and to say "known" would be a lie.
func TestKnowsRefusesWhatWasNeverWritten(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		refused := func(sequence int64) bool {
			t.Helper()
			known, _, err := f.Queue.Knows(t.Context(), index, "n", sequence)
			var field *record.FieldError
			if err != nil && !errors.As(err, &field) || err != nil && (known || field.Field != "at_least") {
				t.Errorf("knows %v, %v", known, err)
			}
			return err != nil
		}
		if !refused(1) || refused(0) {
			t.Error("an empty database")
		}
		last := insert(t, f, storetest.Record("n", "x", nil))
		if refused(last) {
			t.Error("the last write is refused")
		}
		if !refused(last + 1) {
			t.Error("the next write is not refused while a task is waiting")
		}
		if err := f.Queue.Done(t.Context(), index, claim(t, f, 10, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if !refused(last + 1) {
			t.Error("the next write is not refused when nothing is waiting")
		}
	})
}

// giveUp sets everything that is due aside.
func giveUp(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	for _, task := range claim(t, f, 100, time.Minute) {
		if err := f.Queue.Fail(t.Context(), index, task, 0, true, "for good"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBehindIsBounded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for range 3 {
			f.Insert(t, storetest.Record("n", "x", nil))
		}
		giveUp(t, f)
		for range 4 {
			f.Insert(t, storetest.Record("n", "x", nil))
		}
		for limit, want := range map[int]int64{100: 7, 7: 7, 5: 5} {
			if n, err := f.Queue.Behind(t.Context(), index, "n", limit); err != nil || n != want {
				t.Errorf("up to %d: %d, %v", limit, n, err)
			}
		}
		if n, err := f.Queue.Behind(t.Context(), index, "other", 100); err != nil || n != 0 {
			t.Errorf("another namespace: %d, %v", n, err)
		}
		if s, err := f.Queue.Total(t.Context(), index); err != nil || s.Pending != 4 || s.Dead != 3 || s.Lag <= 0 {
			t.Errorf("total %+v, %v", s, err)
		}
	})
}

// TestChangeEndsALease: a memory that changes is due at once, whoever has leased it, and the former holder ends nothing of the new lease.
func TestChangeEndsALease(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		changed := storetest.Record("n", "x", nil)
		f.Insert(t, changed)
		former := claim(t, f, 10, time.Minute)
		if _, err := f.Memory.Update(t.Context(), "n", changed.ID, 0, func(r *record.Record) error { r.Content = "y"; return nil }); err != nil {
			t.Fatal(err)
		}
		if due := claim(t, f, 10, time.Minute); len(due) != 1 || due[0].Record.Content != "y" {
			t.Fatalf("got %+v after the change, want the memory as it is now", due)
		}
		if err := f.Queue.Done(t.Context(), index, former); err != nil {
			t.Fatal(err)
		}
		if err := f.Queue.Extend(t.Context(), index, former, 0); err != nil {
			t.Fatal(err)
		}
		if due := claim(t, f, 10, time.Minute); len(due) != 0 {
			t.Errorf("got %+v, want nothing: it is leased", due)
		}
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		kept, changed := storetest.Record("n", "x", nil), storetest.Record("n", "y", nil)
		f.Insert(t, kept, changed)
		tasks := claim(t, f, 10, -time.Second) // the leases are over
		if _, err := f.Memory.Update(t.Context(), "n", changed.ID, 0, func(r *record.Record) error { r.Content = "z"; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := f.Queue.Extend(t.Context(), index, tasks, time.Minute); err != nil {
			t.Fatal(err)
		}
		due := claim(t, f, 10, time.Minute)
		if len(due) != 1 || due[0].Record.ID != changed.ID {
			t.Errorf("due although the lease was extended, or not due although the memory has changed: %+v", due)
		}
		if err := f.Queue.Extend(t.Context(), index, tasks, 0); err != nil {
			t.Fatal(err)
		}
		if due = claim(t, f, 10, time.Minute); len(due) != 1 || due[0].Record.ID != kept.ID || due[0].Attempts != 0 {
			t.Errorf("given back: %+v", due)
		}
	})
}

func TestCare(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		bad := storetest.Record("bad", "x", nil)
		f.Insert(t, bad)
		giveUp(t, f)
		f.Insert(t, storetest.Record("good", "x", nil))
		backlog, err := f.Queue.Backlog(t.Context(), 100)
		if err != nil || len(backlog) != 4 { // dense and graph
			t.Fatalf("%+v, %v", backlog, err)
		}
		if b := backlog[0]; b.Index != index || b.Namespace != "bad" || b.Dead != 1 || b.Pending != 0 || b.Lag != 0 {
			t.Errorf("first %+v", b)
		}
		if b := backlog[1]; b.Index != "graph" || b.Namespace != "bad" || b.Dead != 0 || b.Pending != 1 || b.Lag <= 0 {
			t.Errorf("second, the oldest: %+v", b)
		}
		if two, err := f.Queue.Backlog(t.Context(), 2); err != nil || len(two) != 2 {
			t.Errorf("bounded: %+v, %v", two, err)
		}
		list := func(which queue.Selection) []queue.Entry {
			t.Helper()
			entries, err := f.Queue.List(t.Context(), which, 100)
			if err != nil {
				t.Fatal(err)
			}
			return entries
		}
		if all := list(queue.Selection{}); len(all) != 4 || !all[0].Dead || all[1].Dead {
			t.Errorf("all %+v", all)
		}
		dead := list(queue.Selection{Dead: true})
		if len(dead) != 1 || dead[0].ID != bad.ID || dead[0].Index != index || dead[0].Namespace != "bad" || !dead[0].Dead ||
			dead[0].Attempts != 1 || dead[0].LastError != "for good" || time.Since(dead[0].EnqueuedAt) > time.Hour {
			t.Errorf("dead %+v", dead)
		}
		for _, which := range []queue.Selection{{Index: "graph"}, {Namespace: "good"}, {Index: "graph", Namespace: "bad"}} {
			if n, err := f.Queue.Retry(t.Context(), which); err != nil || n != 0 {
				t.Errorf("retry of %+v: %d, %v", which, n, err)
			}
		}
		if n, err := f.Queue.Retry(t.Context(), queue.Selection{Index: index, Namespace: "bad"}); err != nil || n != 1 {
			t.Errorf("retry: %d, %v", n, err)
		}
		if s := status(t, f, "bad"); s.Pending != 1 || s.Dead != 0 {
			t.Errorf("after the retry: %+v", s)
		}
		for _, task := range claim(t, f, 100, time.Minute) {
			if task.Record.ID == bad.ID && task.Attempts == 0 {
				return
			}
		}
		t.Error("what is to be tried again is not due")
	})
}
