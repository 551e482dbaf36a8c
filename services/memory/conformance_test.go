package memory_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var _ memory.Index = (*lexical.Index)(nil)

// full is a record that sets every field a client can.
func full(namespace string) record.Record {
	return storetest.Record(namespace, "The grüne Tür — \"quoted\", 100% \\ 日本", func(r *record.Record) {
		r.Title = "Door"
		r.Keywords = []string{"gate", "entrance", `the "grüne" \ {door}`, "NULL", "  "}
		r.Tags = []string{"house", "x,y", `"`, `\`, "{}", "null"}
		r.Category = "fact"
		r.Metadata = map[string]any{"project": "kite", "n": 1.5, "ok": true, "nested": map[string]any{"a": []any{"b", nil}}}
		r.Importance = 0.875
		r.Source = "notes/door.md"
		r.OccurredAt = time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)
		r.ExpiresAt = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
		r.IdempotencyKey = "door-1"
		r.Links = []record.Link{{Target: uuid.UUID{1}, Relation: "opens"}, {Target: uuid.UUID{2}, Relation: "mentions"}}
		r.Thread, r.Position = "notes/door.md", new(int64)
		*r.Position = 1<<53 - 1
	})
}

func get(t *testing.T, f *storetest.Fixture, namespace string, id uuid.UUID) record.Record {
	t.Helper()
	found, err := f.Memory.Get(t.Context(), namespace, []uuid.UUID{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("get %s: %d records, error %v", id, len(found), err)
	}
	return found[0]
}

func TestInsertRoundTrip(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		want := full("acme/bot")
		bare := storetest.Record("acme/bot", "x", nil)
		inserted, err := f.Memory.Insert(t.Context(), []record.Record{want, bare})
		if err != nil || len(inserted) != 2 || !inserted[0].New || !inserted[1].New {
			t.Fatalf("insert: %+v, %v", inserted, err)
		}
		if want.Sequence = inserted[0].Record.Sequence; want.Sequence < 1 || inserted[1].Record.Sequence <= want.Sequence {
			t.Errorf("writes have numbers %d and %d", want.Sequence, inserted[1].Record.Sequence)
		}
		if got := get(t, f, "acme/bot", want.ID); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		got := get(t, f, "acme/bot", bare.ID)
		if got.Thread != "" || got.Position != nil || got.Content != "x" || !got.OccurredAt.IsZero() || !got.ExpiresAt.IsZero() || got.SupersededBy != uuid.Nil || got.IdempotencyKey != "" || len(got.Metadata) != 0 {
			t.Errorf("bare record came back as %+v", got)
		}
	})
}

func TestInsertIsIdempotent(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		first := full("n")
		f.Insert(t, first)
		again := full("n") // another id, the same key and contents
		inserted, err := f.Memory.Insert(t.Context(), []record.Record{again})
		if err != nil || inserted[0].New || inserted[0].Record.ID != first.ID {
			t.Fatalf("repeat: %+v, %v", inserted, err)
		}
		sameID := storetest.Record("n", "by id", nil)
		f.Insert(t, sameID)
		inserted, err = f.Memory.Insert(t.Context(), []record.Record{sameID})
		if err != nil || inserted[0].New {
			t.Fatalf("repeat by id: %+v, %v", inserted, err)
		}

		differs := full("n")
		differs.Content = "something else"
		fresh := storetest.Record("n", "beside the conflict", nil)
		var conflict *memory.ConflictError
		if _, err := f.Memory.Insert(t.Context(), []record.Record{fresh, differs}); !errors.As(err, &conflict) || conflict.Index != 1 || conflict.ID != first.ID {
			t.Fatalf("conflict: %v", err)
		}
		if found, _ := f.Memory.Get(t.Context(), "n", []uuid.UUID{fresh.ID}); len(found) != 0 {
			t.Error("a record was stored although its batch had a conflict")
		}
		elsewhere := full("other")
		if inserted, err := f.Memory.Insert(t.Context(), []record.Record{elsewhere}); err != nil || !inserted[0].New {
			t.Errorf("the same key in another namespace: %+v, %v", inserted, err)
		}
		twins := []record.Record{storetest.Record("n", "twin", nil), storetest.Record("n", "twin", nil)}
		twins[0].IdempotencyKey, twins[1].IdempotencyKey = "twin", "twin"
		inserted, err = f.Memory.Insert(t.Context(), twins)
		if err != nil || !inserted[0].New || inserted[1].New || inserted[1].Record.ID != twins[0].ID {
			t.Errorf("twins in one batch: %+v, %v", inserted, err)
		}
	})
}

func TestConcurrentInsertStoresOnce(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var wg sync.WaitGroup
		var stored [8]bool
		for i := range stored {
			wg.Go(func() {
				r := full("new-namespace")
				inserted, err := f.Memory.Insert(t.Context(), []record.Record{r})
				if err != nil {
					t.Errorf("insert: %v", err)
					return
				}
				stored[i] = inserted[0].New
			})
		}
		wg.Wait()
		n := 0
		for _, s := range stored {
			if s {
				n++
			}
		}
		if n != 1 {
			t.Errorf("stored %d times", n)
		}
		if st, err := f.Memory.Statistics(t.Context(), "new-namespace"); err != nil || st.Live != 1 {
			t.Errorf("statistics: %+v, %v", st, err)
		}
	})
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r := full("n")
		f.Insert(t, r)
		after, err := f.Memory.Update(t.Context(), "n", r.ID, 1, func(r *record.Record) error { r.Content = "changed"; return nil })
		if err != nil || after.Revision != 2 || after.Content != "changed" || after.UpdatedAt.Before(r.UpdatedAt) {
			t.Fatalf("update: %+v, %v", after, err)
		}
		if got := get(t, f, "n", r.ID); !reflect.DeepEqual(got, after) {
			t.Errorf("got  %+v\nwant %+v", got, after)
		}
		if _, err := f.Memory.Update(t.Context(), "n", r.ID, 1, func(*record.Record) error { return nil }); !errors.Is(err, memory.ErrRevision) {
			t.Errorf("stale revision: %v", err)
		}
		if _, err := f.Memory.Update(t.Context(), "n", uuid.New(), 0, func(*record.Record) error { return nil }); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("unknown id: %v", err)
		}
		if _, err := f.Memory.Update(t.Context(), "other", r.ID, 0, func(*record.Record) error { return nil }); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("other namespace: %v", err)
		}
		refused := errors.New("refused")
		if _, err := f.Memory.Update(t.Context(), "n", r.ID, 0, func(r *record.Record) error { r.Content = "no"; return refused }); !errors.Is(err, refused) {
			t.Errorf("change's own error: %v", err)
		}
		if got := get(t, f, "n", r.ID); got.Content != "changed" {
			t.Errorf("a refused change was written: %+v", got)
		}
	})
}

func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r := storetest.Record("n", "x", nil)
		f.Insert(t, r)
		const writers = 8
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				if _, err := f.Memory.Update(t.Context(), "n", r.ID, 0, func(r *record.Record) error {
					r.Tags = append(r.Tags, fmt.Sprint(i))
					return nil
				}); err != nil {
					t.Errorf("update: %v", err)
				}
			})
		}
		wg.Wait()
		if got := get(t, f, "n", r.ID); len(got.Tags) != writers || got.Revision != writers+1 {
			t.Errorf("tags %v at revision %d", got.Tags, got.Revision)
		}
	})
}

func TestSupersede(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		place := int64(3)
		old := storetest.Record("n", "the door is green", func(r *record.Record) { r.Thread, r.Position = "talk", &place })
		f.Insert(t, old)
		replacement := storetest.Record("n", "the door is blue", func(r *record.Record) { r.IdempotencyKey = "blue" })
		if _, _, err := f.Memory.Supersede(t.Context(), old.ID, 7, replacement); !errors.Is(err, memory.ErrRevision) {
			t.Fatalf("wrong revision: %v", err)
		}
		if found, _ := f.Memory.Get(t.Context(), "n", []uuid.UUID{replacement.ID}); len(found) != 0 {
			t.Fatal("the replacement was stored although the call failed")
		}
		stored, was, err := f.Memory.Supersede(t.Context(), old.ID, 1, replacement)
		if err == nil && (stored.Thread != "talk" || stored.Position == nil || *stored.Position != 3) {
			t.Errorf("the replacement is in thread %q at %v, want the place of the old one", stored.Thread, stored.Position)
		}
		if err != nil || stored.Supersedes != old.ID || was.SupersededBy != stored.ID || was.Revision != 2 {
			t.Fatalf("supersede: %+v, %+v, %v", stored, was, err)
		}
		if got := get(t, f, "n", old.ID); got.SupersededBy != stored.ID {
			t.Errorf("old record: %+v", got)
		}
		retry := replacement
		retry.ID = uuid.New()
		if again, _, err := f.Memory.Supersede(t.Context(), old.ID, 1, retry); err != nil || again.ID != stored.ID {
			t.Errorf("retry: %+v, %v", again, err)
		}
		if _, _, err := f.Memory.Supersede(t.Context(), old.ID, 0, storetest.Record("n", "red", nil)); !errors.Is(err, memory.ErrSuperseded) {
			t.Errorf("second replacement: %v", err)
		}
		other, used := storetest.Record("n", "the gate is red", nil), storetest.Record("n", "used", func(r *record.Record) { r.IdempotencyKey = "used" })
		f.Insert(t, other, used)
		again := used
		again.ID = uuid.New()
		var conflict *memory.ConflictError
		if _, _, err := f.Memory.Supersede(t.Context(), other.ID, 0, again); !errors.As(err, &conflict) || conflict.ID != used.ID {
			t.Errorf("a key used for something else: %v", err)
		}
		if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{other.ID, used.ID}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Memory.Supersede(t.Context(), uuid.New(), 0, storetest.Record("n", "red", nil)); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("unknown id: %v", err)
		}
		listed, err := f.Memory.List(t.Context(), "n", record.Filter{}, memory.Cursor{}, 10)
		if err != nil || len(listed) != 1 || listed[0].ID != stored.ID {
			t.Errorf("list: %+v, %v", listed, err)
		}
		listed, err = f.Memory.List(t.Context(), "n", record.Filter{IncludeSuperseded: true}, memory.Cursor{}, 10)
		if err != nil || len(listed) != 2 {
			t.Errorf("list with superseded: %d, %v", len(listed), err)
		}
	})
}

func TestInsertLinksWhatItSupersedes(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		old := storetest.Record("n", "old", nil)
		newer := storetest.Record("n", "new", func(r *record.Record) { r.Supersedes = old.ID })
		f.Insert(t, old, newer)
		if got := get(t, f, "n", old.ID); got.SupersededBy != newer.ID || got.Revision != 2 {
			t.Errorf("old record: %+v", got)
		}
		// The derived indexes have to hear of the change, or they would take the old revision for one still to come.
		elsewhere := storetest.Record("m", "old", nil)
		f.Insert(t, elsewhere)
		tasks, err := f.Queue.Claim(t.Context(), "graph", 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		f.Insert(t, storetest.Record("m", "new", func(r *record.Record) { r.Supersedes = elsewhere.ID }))
		if err := f.Queue.Done(t.Context(), "graph", tasks); err != nil {
			t.Fatal(err)
		}
		if st, err := f.Queue.Status(t.Context(), "graph", "m"); err != nil || st.Pending != 2 {
			t.Errorf("pending in m: %+v, %v", st, err)
		}
	})
}

func TestForgetLeavesNothing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r, kept := full("n"), storetest.Record("n", "kept", nil)
		f.Insert(t, r, kept)
		ids := []uuid.UUID{r.ID, uuid.New()}
		if n, err := f.Memory.Forget(t.Context(), "other", ids); err != nil || n != 0 {
			t.Errorf("forget in another namespace: %d, %v", n, err)
		}
		if n, err := f.Memory.Forget(t.Context(), "n", ids); err != nil || n != 1 {
			t.Fatalf("forget: %d, %v", n, err)
		}
		if n, err := f.Memory.Forget(t.Context(), "n", ids); err != nil || n != 0 {
			t.Errorf("forget again: %d, %v", n, err)
		}
		if found, err := f.Memory.Get(t.Context(), "n", []uuid.UUID{r.ID, kept.ID}); err != nil || len(found) != 1 || found[0].ID != kept.ID {
			t.Errorf("get: %+v, %v", found, err)
		}
		for _, index := range []string{"dense", "graph"} {
			if st, err := f.Queue.Status(t.Context(), index, "n"); err != nil || st.Pending != 1 {
				t.Errorf("%s queue: %+v, %v", index, st, err)
			}
		}
		if inserted, err := f.Memory.Insert(t.Context(), []record.Record{r}); err != nil || !inserted[0].New {
			t.Errorf("storing it again: %+v, %v", inserted, err)
		}
	})
}

func TestSensitiveIsNotEnqueued(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		secret := storetest.Record("n", "secret", func(r *record.Record) { r.Sensitive = true })
		plain := storetest.Record("n", "plain", nil)
		f.Insert(t, secret, plain)
		pending := func() int64 {
			st, err := f.Queue.Status(t.Context(), "dense", "n")
			if err != nil {
				t.Fatal(err)
			}
			return st.Pending
		}
		if n := pending(); n != 1 {
			t.Fatalf("%d pending, want the plain record only", n)
		}
		if _, err := f.Memory.Update(t.Context(), "n", plain.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if n := pending(); n != 0 {
			t.Errorf("%d pending after it turned sensitive", n)
		}
		if _, err := f.Memory.Update(t.Context(), "n", plain.ID, 0, func(r *record.Record) error { r.Sensitive = false; return nil }); err != nil {
			t.Fatal(err)
		}
		if n := pending(); n != 1 {
			t.Errorf("%d pending after it turned public again", n)
		}
		// The database refuses it too, whatever the application does.
		var err error
		if f.Pool != nil {
			_, err = f.Pool.Exec(t.Context(), `INSERT INTO memory.index_queue (namespace, index_name, memory_id, revision) VALUES ('n', 'dense', $1, 1)`, secret.ID)
		} else {
			_, err = f.DB.Write.ExecContext(t.Context(), `INSERT INTO index_queue (namespace, index_name, memory_id, revision, enqueued_at, not_before) VALUES ('n', 'dense', ?, 1, 0, 0)`, secret.ID[:])
		}
		if err == nil {
			t.Error("the database took a queue row for a sensitive memory")
		}
	})
}

func TestListAndFilter(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		base := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
		make := func(i int, edit func(*record.Record)) record.Record {
			return storetest.Record("n", fmt.Sprintf("memory %d", i), func(r *record.Record) {
				r.CreatedAt = base.Add(time.Duration(i) * time.Hour)
				if edit != nil {
					edit(r)
				}
			})
		}
		records := []record.Record{
			make(0, func(r *record.Record) { r.Tags = []string{"a", "b"}; r.Category = "fact" }),
			make(1, func(r *record.Record) { r.Tags = []string{"b", "c"}; r.Metadata = map[string]any{"n": 1.0, "s": "x"} }),
			make(2, func(r *record.Record) { r.Category = "event"; r.Metadata = map[string]any{"n": "1", "s": "x"} }),
			make(3, func(r *record.Record) { r.Metadata, r.OccurredAt = map[string]any{"n": true}, base.Add(-time.Hour) }),
			make(4, func(r *record.Record) { r.ExpiresAt = base.Add(time.Hour) }), // expired long ago
		}
		f.Insert(t, records...)
		f.Insert(t, storetest.Record("other", "elsewhere", nil))
		for name, c := range map[string]struct {
			filter record.Filter
			want   []int
		}{
			"all, newest first": {record.Filter{}, []int{3, 2, 1, 0}},
			"any tag":           {record.Filter{TagsAny: []string{"a", "c"}}, []int{1, 0}},
			"all tags":          {record.Filter{TagsAll: []string{"a", "b"}}, []int{0}},
			"categories":        {record.Filter{Categories: []string{"fact", "event"}}, []int{2, 0}},
			"from":              {record.Filter{CreatedFrom: base.Add(2 * time.Hour)}, []int{3, 2}},
			"before":            {record.Filter{CreatedBefore: base.Add(2 * time.Hour)}, []int{1, 0}},
			"occurred from":     {record.Filter{OccurredFrom: base.Add(2 * time.Hour)}, []int{2}},
			"occurred before":   {record.Filter{OccurredBefore: base}, []int{3}},
			"occurred between":  {record.Filter{OccurredFrom: base, OccurredBefore: base.Add(time.Hour)}, []int{0}},
			"number":            {record.Filter{Metadata: map[string]any{"n": 1.0}}, []int{1}},
			"text":              {record.Filter{Metadata: map[string]any{"n": "1"}}, []int{2}},
			"boolean":           {record.Filter{Metadata: map[string]any{"n": true}}, []int{3}},
			"two keys":          {record.Filter{Metadata: map[string]any{"n": "1", "s": "x"}}, []int{2}},
			"joined by AND":     {record.Filter{TagsAny: []string{"b"}, Categories: []string{"fact"}}, []int{0}},
			"nothing":           {record.Filter{TagsAny: []string{"' OR 1=1 --"}}, nil},
		} {
			got, err := f.Memory.List(t.Context(), "n", c.filter, memory.Cursor{}, 10)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var want []uuid.UUID
			for _, i := range c.want {
				want = append(want, records[i].ID)
			}
			if ids := idsOf(got); !reflect.DeepEqual(ids, want) {
				t.Errorf("%s: got %v, want %v", name, ids, want)
			}
		}
		var paged []uuid.UUID
		var after memory.Cursor
		for {
			page, err := f.Memory.List(t.Context(), "n", record.Filter{}, after, 3)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			paged = append(paged, idsOf(page)...)
			last := page[len(page)-1]
			after = memory.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
		}
		if want := []uuid.UUID{records[3].ID, records[2].ID, records[1].ID, records[0].ID}; !reflect.DeepEqual(paged, want) {
			t.Errorf("paged %v, want %v", paged, want)
		}
	})
}

func idsOf(records []record.Record) []uuid.UUID {
	var ids []uuid.UUID
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestScanSeesEverythingOnce(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		at := record.Now()
		want := map[uuid.UUID]bool{}
		var records []record.Record
		for i := range 25 { // all at the same time, so that the id decides
			r := storetest.Record("n", fmt.Sprint("memory ", i), func(r *record.Record) { r.CreatedAt, r.ExpiresAt = at, at })
			want[r.ID] = true
			records = append(records, r)
		}
		f.Insert(t, records...)
		err := f.Memory.Scan(t.Context(), "n", 4, func(batch []record.Record) error {
			for _, r := range batch {
				if !want[r.ID] {
					t.Errorf("%s came twice or from elsewhere", r.ID)
				}
				delete(want, r.ID)
			}
			return nil
		})
		if err != nil || len(want) != 0 {
			t.Errorf("%d missed, error %v", len(want), err)
		}
		stop := errors.New("stop")
		if err := f.Memory.Scan(t.Context(), "n", 4, func([]record.Record) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("error of fn: %v", err)
		}
	})
}
