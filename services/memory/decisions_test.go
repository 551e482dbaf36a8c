package memory_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func seen(r record.Record) memory.Seen { return memory.Seen{ID: r.ID, Revision: r.Revision} }

// verdict is one about memories as they are given.
func judgement(action memory.Action, r, target record.Record) memory.Judgement {
	v := memory.Judgement{Namespace: r.Namespace, Memory: seen(r), Action: action, Model: "scripted"}
	if action != memory.ActionAdd {
		v.Target = seen(target)
	}
	if action == memory.ActionUpdate {
		v.Content = target.Content + " " + r.Content
	}
	return v
}

func decide(t *testing.T, f *storetest.Fixture, v memory.Judgement) memory.Decision {
	t.Helper()
	d, err := f.Memory.Decide(t.Context(), v)
	if err != nil {
		t.Fatalf("decide %s: %v", v.Action, err)
	}
	return d
}

func decisions(t *testing.T, f *storetest.Fixture, namespace string, about uuid.UUID) []memory.Decision {
	t.Helper()
	listed, err := f.Memory.ListDecisions(t.Context(), namespace, about, memory.Cursor{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return listed
}

// contents leaves out what every write changes.
func contents(r record.Record) record.Record {
	r.Revision, r.Sequence, r.UpdatedAt = 0, 0, time.Time{}
	return r
}

// pair stores an older memory with every field set and a newer one.
func pair(t *testing.T, f *storetest.Fixture, namespace string) (older, newer record.Record) {
	t.Helper()
	older = full(namespace)
	older.ExpiresAt, older.IdempotencyKey = time.Time{}, ""
	newer = storetest.Record(namespace, "The door was painted blue.", func(r *record.Record) { r.Tags = []string{"paint"} })
	f.Insert(t, older, newer)
	return get(t, f, namespace, older.ID), get(t, f, namespace, newer.ID)
}

func TestDecisionsAreCarriedOutAndReverted(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for _, c := range []struct {
			action              memory.Action
			newerOut, olderOut  bool // of the list of live memories
			newerRev, olderRev  int64
			rewritten, replaces bool
		}{
			{action: memory.ActionAdd, newerRev: 1, olderRev: 1},
			{action: memory.ActionNoop, newerOut: true, newerRev: 2, olderRev: 1},
			{action: memory.ActionUpdate, newerOut: true, newerRev: 2, olderRev: 2, rewritten: true},
			{action: memory.ActionSupersede, olderOut: true, newerRev: 2, olderRev: 2, replaces: true},
		} {
			namespace := string(c.action)
			older, newer := pair(t, f, namespace)
			v := judgement(c.action, newer, older)
			d := decide(t, f, v)
			o, n := get(t, f, namespace, older.ID), get(t, f, namespace, newer.ID)
			if (n.SupersededBy == older.ID) != c.newerOut || (o.SupersededBy == newer.ID) != c.olderOut || (n.Supersedes == older.ID) != c.replaces {
				t.Errorf("%s: links: newer %+v, older %+v", c.action, n, o)
			}
			if n.Revision != c.newerRev || o.Revision != c.olderRev || (o.Content == v.Content) != c.rewritten {
				t.Errorf("%s: newer at %d, older at %d: %q", c.action, n.Revision, o.Revision, o.Content)
			}
			if n.Content != newer.Content || (!c.rewritten && o.Content != older.Content) {
				t.Errorf("%s: contents: newer %q, older %q", c.action, n.Content, o.Content)
			}
			if listed := decisions(t, f, namespace, uuid.Nil); len(listed) != 1 || !reflect.DeepEqual(listed[0], d) {
				t.Errorf("%s: listed %+v, want %+v", c.action, listed, d)
			}
			if done, err := f.Memory.Decided(t.Context(), namespace, seen(n)); err != nil || !done {
				t.Errorf("%s: decided at revision %d: %v, %v", c.action, n.Revision, done, err)
			}

			reverted, records, err := f.Memory.RevertDecision(t.Context(), namespace, d.ID)
			if err != nil || reverted.RevertedAt.IsZero() || records[0].ID != newer.ID {
				t.Fatalf("%s: revert: %+v, %+v, %v", c.action, reverted, records, err)
			}
			o, n = get(t, f, namespace, older.ID), get(t, f, namespace, newer.ID)
			if !reflect.DeepEqual(contents(o), contents(older)) || !reflect.DeepEqual(contents(n), contents(newer)) {
				t.Errorf("%s: after the reversal\nolder %+v\nwas   %+v\nnewer %+v\nwas   %+v", c.action, o, older, n, newer)
			}
			if c.action != memory.ActionAdd && n.Revision <= c.newerRev {
				t.Errorf("%s: the reversal is no new revision", c.action)
			}
			if listed := decisions(t, f, namespace, uuid.Nil); len(listed) != 1 || !reflect.DeepEqual(listed[0], reverted) {
				t.Errorf("%s: listed %+v, want %+v", c.action, listed, reverted)
			}
			if done, err := f.Memory.Decided(t.Context(), namespace, seen(n)); err != nil || !done {
				t.Errorf("%s: judged again after the reversal: %v, %v", c.action, done, err)
			}
			if _, _, err := f.Memory.RevertDecision(t.Context(), namespace, d.ID); !errors.Is(err, memory.ErrReverted) {
				t.Errorf("%s: second reversal: %v", c.action, err)
			}
			// What its author writes anew is judged anew.
			n, err = f.Memory.Update(t.Context(), namespace, newer.ID, 0, func(r *record.Record) error { r.Content += "!"; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if done, err := f.Memory.Decided(t.Context(), namespace, seen(n)); err != nil || done {
				t.Errorf("%s: a new revision counts as decided: %v, %v", c.action, done, err)
			}
		}
		if _, _, err := f.Memory.RevertDecision(t.Context(), "add", uuid.New()); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("unknown decision: %v", err)
		}
		if _, _, err := f.Memory.RevertDecision(t.Context(), "noop", decisions(t, f, "add", uuid.Nil)[0].ID); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("decision of another namespace: %v", err)
		}
	})
}

func TestNothingIsDecidedOverAChange(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		touch := func(r *record.Record) error { r.Tags = append(r.Tags, "touched"); return nil }
		expire := func(r *record.Record) error { r.ExpiresAt = record.Now().Add(time.Hour); return nil }
		later := func(r *record.Record) error { r.ExpiresAt = record.Now().Add(2 * time.Hour); return nil }
		hide := func(r *record.Record) error { r.Sensitive = true; return nil }
		for name, c := range map[string]struct {
			older, newer func(*record.Record) error
			forget       bool
			want         error
		}{
			"older changed":     {older: touch, want: memory.ErrRevision},
			"newer changed":     {newer: touch, want: memory.ErrRevision},
			"older expires":     {older: expire, want: memory.ErrRevision},
			"newer expires":     {newer: expire, want: memory.ErrRevision},
			"newer outlives":    {older: expire, newer: later},
			"older outlives":    {older: later, newer: expire, want: memory.ErrRevision},
			"older sensitive":   {older: hide, want: memory.ErrRevision},
			"newer sensitive":   {newer: hide, want: memory.ErrRevision},
			"older is no more":  {forget: true, want: memory.ErrNotFound},
			"as it was, so far": {},
		} {
			namespace := strings.Map(func(r rune) rune { return map[bool]rune{true: r, false: '-'}[r >= 'a' && r <= 'z'] }, name)
			older, newer := pair(t, f, namespace)
			v := judgement(memory.ActionUpdate, newer, older)
			for id, change := range map[uuid.UUID]func(*record.Record) error{older.ID: c.older, newer.ID: c.newer} {
				if change == nil {
					continue
				}
				after, err := f.Memory.Update(t.Context(), namespace, id, 0, change)
				if err != nil {
					t.Fatal(err)
				}
				if after.Sensitive || !after.ExpiresAt.IsZero() { // refused even if it was judged as it is
					if id == older.ID {
						v.Target.Revision = after.Revision
					} else {
						v.Memory.Revision = after.Revision
					}
				}
			}
			if c.forget {
				if _, err := f.Memory.Forget(t.Context(), namespace, []uuid.UUID{older.ID}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := f.Memory.Decide(t.Context(), v); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if c.want == nil {
				if _, err := f.Memory.Decide(t.Context(), v); !errors.Is(err, memory.ErrDecided) {
					t.Errorf("%s: the second time: %v", name, err)
				}
				continue
			}
			if n := get(t, f, namespace, newer.ID); n.SupersededBy != uuid.Nil || len(decisions(t, f, namespace, uuid.Nil)) != 0 {
				t.Errorf("%s: something was done: %+v", name, n)
			}
		}
	})
}

func TestReversalIsRefusedAfterAChange(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		older, newer := pair(t, f, "n")
		d := decide(t, f, judgement(memory.ActionUpdate, newer, older))
		after, err := f.Memory.Update(t.Context(), "n", older.ID, 0, func(r *record.Record) error { r.Tags = nil; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Memory.RevertDecision(t.Context(), "n", d.ID); !errors.Is(err, memory.ErrRevision) {
			t.Errorf("revert over a change: %v", err)
		}
		if got := get(t, f, "n", older.ID); got.Sequence != after.Sequence {
			t.Errorf("the refused reversal wrote %+v", got)
		}
		// A decision that left the older memory alone does not mind what became of it.
		third := storetest.Record("n", "A door, painted blue.", nil)
		f.Insert(t, third)
		d = decide(t, f, judgement(memory.ActionNoop, get(t, f, "n", third.ID), after))
		if _, err := f.Memory.Update(t.Context(), "n", older.ID, 0, func(r *record.Record) error { r.Category = "x"; return nil }); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Memory.RevertDecision(t.Context(), "n", d.ID); err != nil {
			t.Errorf("revert of a no-op: %v", err)
		}
	})
}

// TestDecisionsAreRevertedOneAfterAnother: what a reversal makes again is what the decision before it made.
func TestDecisionsAreRevertedOneAfterAnother(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		older, newer := pair(t, f, "n")
		stack := []memory.Decision{decide(t, f, judgement(memory.ActionUpdate, newer, older))}
		for i, action := range []memory.Action{memory.ActionUpdate, memory.ActionSupersede} {
			next := storetest.Record("n", fmt.Sprintf("The door was painted again, %d.", i), nil)
			f.Insert(t, next)
			stack = append(stack, decide(t, f, judgement(action, get(t, f, "n", next.ID), get(t, f, "n", older.ID))))
		}
		if _, _, err := f.Memory.RevertDecision(t.Context(), "n", stack[0].ID); !errors.Is(err, memory.ErrRevision) {
			t.Errorf("revert the first one before the others: %v, want ErrRevision", err)
		}
		for i, d := range slices.Backward(stack) {
			if _, _, err := f.Memory.RevertDecision(t.Context(), "n", d.ID); err != nil {
				t.Fatalf("revert decision %d: %v", i, err)
			}
		}
		if got, want := contents(get(t, f, "n", older.ID)), contents(older); !reflect.DeepEqual(got, want) {
			t.Errorf("in the end got %+v, want %+v", got, want)
		}
	})
}

func TestListDecisions(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		older, _ := pair(t, f, "n")
		var want []uuid.UUID
		for range 5 {
			r := storetest.Record("n", "again", nil)
			f.Insert(t, r)
			want = append([]uuid.UUID{decide(t, f, judgement(memory.ActionNoop, r, older)).ID}, want...)
		}
		lone := storetest.Record("n", "lone", nil)
		f.Insert(t, lone)
		add := decide(t, f, judgement(memory.ActionAdd, lone, record.Record{}))
		otherOlder, otherNewer := pair(t, f, "other")
		decide(t, f, judgement(memory.ActionNoop, otherNewer, otherOlder))

		var got []uuid.UUID
		for after := (memory.Cursor{}); ; {
			page, err := f.Memory.ListDecisions(t.Context(), "n", older.ID, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, d := range page {
				got = append(got, d.ID)
			}
			last := page[len(page)-1]
			after = memory.Cursor{CreatedAt: last.DecidedAt, ID: last.ID}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("about the older one: %v, want %v", got, want)
		}
		if all := decisions(t, f, "n", uuid.Nil); len(all) != 6 || all[0].ID != add.ID {
			t.Errorf("all: %+v", all)
		}
		if about := decisions(t, f, "n", lone.ID); len(about) != 1 || about[0].ID != add.ID || about[0].Target != (memory.Seen{}) {
			t.Errorf("about the lone one: %+v", about)
		}
	})
}

// TestPagesOfDecisionsAreBounded: decisions that keep large texts come in more pages than asked for, and all of them come.
func TestPagesOfDecisionsAreBounded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var want []string
		for range 80 {
			older, newer := storetest.Record("n", strings.Repeat("x", 60<<10), nil), storetest.Record("n", "newer", nil)
			f.Insert(t, older, newer)
			v := judgement(memory.ActionUpdate, newer, older)
			v.Content = "both"
			want = append([]string{decide(t, f, v).ID.String()}, want...)
		}
		client, size := f.Client(t), int32(1000)
		request := &triskelev1.ListDecisionsRequest{Namespace: "n", PageSize: &size}
		var got []string
		for more := true; more; more = request.GetPageToken() != "" {
			page, err := client.ListDecisions(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if bytes := proto.Size(page); bytes > 4<<20 {
				t.Errorf("a page has %d decisions and %d bytes, want at most 4 MiB", len(page.GetDecisions()), bytes)
			}
			for _, d := range page.GetDecisions() {
				got = append(got, d.GetId())
			}
			request.PageToken = page.GetNextPageToken()
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %d decisions %v, want %d %v", len(got), got, len(want), want)
		}
	})
}

// A forgotten or hidden memory's text must be gone from decisions, and from what was rewritten with it.
func TestDecisionsKeepNoSecrets(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		forget := func(namespace string, id uuid.UUID) error {
			_, err := f.Memory.Forget(t.Context(), namespace, []uuid.UUID{id})
			return err
		}
		hide := func(namespace string, id uuid.UUID) error {
			_, err := f.Memory.Update(t.Context(), namespace, id, 0, func(r *record.Record) error { r.Sensitive = true; return nil })
			return err
		}
		for name, remove := range map[string]func(string, uuid.UUID) error{"forget": forget, "hide": hide} {
			insert := func(namespace, content string) record.Record {
				r := storetest.Record(namespace, content, nil)
				f.Insert(t, r)
				return r
			}
			now := func(r record.Record) record.Record { return get(t, f, r.Namespace, r.ID) }

			// Of the newer one, whose text two others were rewritten with, one after the other.
			namespace := name + "/newer"
			oldest, older := insert(namespace, "oldest"), insert(namespace, "older")
			secret, later := insert(namespace, "canary"), insert(namespace, "later")
			decide(t, f, judgement(memory.ActionUpdate, secret, older))
			decide(t, f, judgement(memory.ActionUpdate, later, now(older)))
			decide(t, f, judgement(memory.ActionUpdate, now(older), oldest))
			if got := now(oldest).Content; got != "oldest older canary later" {
				t.Fatalf("%s: rewritten to %q", name, got)
			}
			if err := remove(namespace, secret.ID); err != nil {
				t.Fatal(err)
			}
			for _, r := range []record.Record{oldest, older, later} {
				if got := now(r); got.Content != r.Content || got.SupersededBy != uuid.Nil {
					t.Errorf("%s: %q is left as %+v", name, r.Content, got)
				}
			}
			for _, d := range decisions(t, f, namespace, uuid.Nil) {
				if d.Memory.ID == secret.ID || d.RevertedAt.IsZero() {
					t.Errorf("%s: decision %+v is left", name, d)
				}
			}
			if name == "hide" {
				if got := now(secret); !got.Sensitive || got.SupersededBy != uuid.Nil {
					t.Errorf("the hidden memory is %+v", got)
				}
			}

			// Of the older one.
			namespace = name + "/older"
			target, newer := insert(namespace, "canary"), insert(namespace, "newer")
			decide(t, f, judgement(memory.ActionUpdate, newer, target))
			if err := remove(namespace, target.ID); err != nil {
				t.Fatal(err)
			}
			if left := decisions(t, f, namespace, uuid.Nil); len(left) != 0 {
				t.Errorf("%s: %+v", name, left)
			}

			// What its author has written since is the author's.
			namespace = name + "/edited"
			target, newer = insert(namespace, "target"), insert(namespace, "canary")
			decide(t, f, judgement(memory.ActionUpdate, newer, target))
			decide(t, f, judgement(memory.ActionUpdate, insert(namespace, "later"), now(target)))
			if _, err := f.Memory.Update(t.Context(), namespace, target.ID, 0, func(r *record.Record) error { r.Content = "my own words"; return nil }); err != nil {
				t.Fatal(err)
			}
			if err := remove(namespace, newer.ID); err != nil {
				t.Fatal(err)
			}
			if got := now(target); got.Content != "my own words" {
				t.Errorf("%s: an edited memory became %q", name, got.Content)
			}
		}
		var n int
		var err error
		const count = `SELECT count(*) FROM curation_decisions WHERE content_before LIKE '%canary%' OR content_after LIKE '%canary%'`
		if f.Pool != nil {
			err = f.Pool.QueryRow(t.Context(), strings.ReplaceAll(count, "FROM ", "FROM memory.")).Scan(&n)
		} else {
			err = f.DB.Read.QueryRowContext(t.Context(), count).Scan(&n)
		}
		if err != nil || n != 0 {
			t.Errorf("%d decisions hold the canary, %v", n, err)
		}
	})
}

func TestForgettingDuringADecisionLeavesNothing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for range 20 {
			older, secret, other := storetest.Record("n", "older", nil), storetest.Record("n", "canary", nil), storetest.Record("n", "other", nil)
			f.Insert(t, older, secret, other)
			decide(t, f, judgement(memory.ActionUpdate, secret, older))
			rewritten := get(t, f, "n", older.ID)
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := f.Memory.Decide(t.Context(), judgement(memory.ActionUpdate, other, rewritten))
				if err != nil && !errors.Is(err, memory.ErrRevision) {
					t.Errorf("decide: %v", err)
				}
			})
			wg.Go(func() {
				if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{secret.ID}); err != nil {
					t.Errorf("forget: %v", err)
				}
			})
			wg.Wait()
			if got := get(t, f, "n", older.ID); got.Content != "older" {
				t.Errorf("the older memory still says %q", got.Content)
			}
			if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{older.ID, other.ID}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestTheCuratorsOwnWritesAreNotQueued(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		waiting := func(namespace string) int64 {
			st, err := f.Queue.Status(t.Context(), memory.CurationQueue, namespace)
			if err != nil {
				t.Fatal(err)
			}
			return st.Pending
		}
		older, newer := pair(t, f, "n")
		if on, err := f.Memory.Curation(t.Context()); err != nil || on || waiting("n") != 0 {
			t.Fatalf("on by default: %v, %v, %d waiting", on, err, waiting("n"))
		}
		for range 2 {
			if err := f.Memory.SetCuration(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		if on, err := f.Memory.Curation(t.Context()); err != nil || !on {
			t.Fatalf("switched on: %v, %v", on, err)
		}
		d := decide(t, f, judgement(memory.ActionUpdate, newer, older))
		if n := waiting("n"); n != 0 {
			t.Errorf("%d waiting after a decision", n)
		}
		if st, err := f.Queue.Status(t.Context(), "dense", "n"); err != nil || st.Pending != 2 {
			t.Errorf("the other indexes have to follow: %+v, %v", st, err)
		}
		if _, _, err := f.Memory.RevertDecision(t.Context(), "n", d.ID); err != nil {
			t.Fatal(err)
		}
		if n := waiting("n"); n != 0 {
			t.Errorf("%d waiting after the reversal", n)
		}

		// What waited before goes on waiting.
		older, newer = pair(t, f, "m")
		f.Insert(t, storetest.Record("m", "secret", func(r *record.Record) { r.Sensitive = true }))
		if n := waiting("m"); n != 2 {
			t.Fatalf("%d waiting, want the two that are not sensitive", n)
		}
		tasks, err := f.Queue.Claim(t.Context(), memory.CurationQueue, 10, time.Minute)
		if err != nil || len(tasks) != 2 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		decide(t, f, judgement(memory.ActionUpdate, newer, older))
		if n := waiting("m"); n != 2 {
			t.Errorf("%d waiting after a decision about one of them", n)
		}
		if err := f.Queue.Done(t.Context(), memory.CurationQueue, tasks); err != nil {
			t.Fatal(err)
		}
		if n := waiting("m"); n != 2 { // both have changed since they were claimed
			t.Errorf("%d waiting at their new revisions", n)
		}
		if err := f.Memory.SetCuration(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if n := waiting("m"); n != 0 {
			t.Errorf("%d waiting after it was switched off", n)
		}
		if st, err := f.Queue.Status(t.Context(), "dense", "m"); err != nil || st == (queue.Status{}) {
			t.Errorf("switching curation off emptied another queue: %+v, %v", st, err)
		}
	})
}
