package memory_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// fakeIndex is a derived index that notes what it is given, and fails in prepare or put.
type fakeIndex struct {
	prepare, put func() error
	got          map[record.Key]bool
}

func (d *fakeIndex) Prepare(_ context.Context, _ []record.Record) (sqldb.Putter, error) {
	return func(_ context.Context, _ sqldb.Tx, stored map[record.Key]bool) error {
		d.got = stored
		return d.put()
	}, d.prepare()
}

// derive gives the store a fake index called dense, and returns what it was given last.
func derive(f *storetest.Fixture, prepare, put func() error) (got func() map[record.Key]bool) {
	index := &fakeIndex{prepare: prepare, put: put}
	f.Memory.Derive("dense", index)
	return func() map[record.Key]bool { return index.got }
}

func pending(t *testing.T, f *storetest.Fixture, index string) int64 {
	t.Helper()
	s, err := f.Queue.Status(t.Context(), index, "n")
	if err != nil {
		t.Fatal(err)
	}
	return s.Pending
}

func works() error { return nil }

// A derived index gets the memories that were stored, and those alone: they have no task, but a change has one.
func TestDerivedInTheSameTransaction(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		held := storetest.Record("n", "held", func(r *record.Record) { r.IdempotencyKey = "key" })
		got := derive(f, works, works)
		f.Insert(t, held)
		again, fresh := held, storetest.Record("n", "fresh", nil)
		again.ID = storetest.Record("n", "", nil).ID
		f.Insert(t, again, fresh, storetest.Record("n", "secret", func(r *record.Record) { r.Sensitive = true }))
		if want := map[record.Key]bool{fresh.Key(): true}; !maps.Equal(got(), want) {
			t.Errorf("the index was given %v, want %v", got(), want)
		}
		if n := pending(t, f, "dense"); n != 0 {
			t.Errorf("%d tasks of the derived index, want none", n)
		}
		if n := pending(t, f, "graph"); n != 2 {
			t.Errorf("%d tasks of an index in the queue, want 2", n)
		}
		if _, err := f.Memory.Update(t.Context(), "n", fresh.ID, 0, func(r *record.Record) error { r.Content = "changed"; return nil }); err != nil {
			t.Fatal(err)
		}
		if n := pending(t, f, "dense"); n != 1 {
			t.Errorf("%d tasks after a change, want 1", n)
		}
	})
}

// A derived index that fails keeps no memory from being stored: a worker of the queue tries again.
func TestDerivedFails(t *testing.T) {
	t.Parallel()
	fails, panics := func() error { return errors.New("fails") }, func() error { panic("fails") }
	for name, x := range map[string]struct{ prepare, put func() error }{
		"prepare fails": {fails, works}, "prepare panics": {panics, works}, "put fails": {works, fails}, "put panics": {works, panics},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
				derive(f, x.prepare, x.put)
				r := storetest.Record("n", "x", nil)
				inserted, err := f.Memory.Insert(t.Context(), []record.Record{r})
				if err != nil || len(inserted) != 1 || !inserted[0].New {
					t.Fatalf("stored %+v, %v", inserted, err)
				}
				if n := pending(t, f, "dense"); n != 1 {
					t.Errorf("%d tasks, want 1", n)
				}
			})
		})
	}
}
