package memory_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func revisionOf(t *testing.T, f *storetest.Fixture, namespace string) string {
	t.Helper()
	n, err := f.Memory.Namespace(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	return n.Revision
}

// TestRevisionChangesWithEachWrite: every kind of write gives its namespace a revision that it never had, and others none.
func TestRevisionChangesWithEachWrite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		l := newLegs(t, f)
		first, second := storetest.Record("n", "The crane is serviced.", nil), storetest.Record("n", "The crane is painted.", nil)
		f.Insert(t, first, storetest.Record("other", "The crane is sold.", nil))
		other := revisionOf(t, f, "other")
		seen := map[string]string{revisionOf(t, f, "n"): "the first"}
		for _, write := range []struct {
			name string
			call func() error
		}{
			{"insert", func() error { f.Insert(t, second); return nil }},
			{"a sensitive one", func() error {
				f.Insert(t, storetest.Record("n", "The crane has a key.", func(r *record.Record) { r.Sensitive = true }))
				return nil
			}},
			{"update", func() error {
				_, err := f.Memory.Update(t.Context(), "n", first.ID, 0, func(r *record.Record) error { r.Importance = .9; return nil })
				return err
			}},
			{"forget", func() error { _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{second.ID}); return err }},
			{"rename", func() error {
				_, err := f.Memory.RenameNamespace(t.Context(), "n", "m")
				if err == nil {
					_, err = f.Memory.RenameNamespace(t.Context(), "m", "n")
				}
				return err
			}},
			{"delete and make anew", func() error {
				if _, err := f.Memory.DeleteNamespace(t.Context(), "n"); err != nil {
					return err
				}
				f.Insert(t, first)
				return nil
			}},
		} {
			if err := write.call(); err != nil {
				t.Fatalf("%s: %v", write.name, err)
			}
			revision := revisionOf(t, f, "n")
			if before, again := seen[revision]; again {
				t.Errorf("%s left the revision of %s", write.name, before)
			}
			seen[revision] = write.name
			l.drain(t, f)
			if indexed := revisionOf(t, f, "n"); indexed != revision {
				t.Errorf("%s: indexing made %s of %s", write.name, indexed, revision)
			}
		}
		if now := revisionOf(t, f, "other"); now != other {
			t.Errorf("another namespace's went from %s to %s", other, now)
		}
		// What came to nothing changes nothing.
		before := revisionOf(t, f, "n")
		failure := errors.New("given up")
		if _, err := f.Memory.Update(t.Context(), "n", first.ID, 0, func(*record.Record) error { return failure }); !errors.Is(err, failure) {
			t.Fatal(err)
		}
		if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{uuid.New()}); err != nil {
			t.Fatal(err)
		}
		if after := revisionOf(t, f, "n"); after != before {
			t.Errorf("nothing changed, and %s became %s", before, after)
		}
	})
}

// TestRevisionUnderWriters reads a namespace between two looks at its revision while several write: the same revision always
// comes with the same memories.
func TestRevisionUnderWriters(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "The crane stands.", nil))
		var writers, readers sync.WaitGroup
		done := make(chan struct{})
		for w := range 4 {
			writers.Go(func() {
				for i := range 15 {
					r := storetest.Record("n", fmt.Sprintf("The crane was seen by %d for the %dth time.", w, i), nil)
					f.Insert(t, r)
					if i%2 == 0 {
						if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{r.ID}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		var mu sync.Mutex
		states, pairs := map[string]string{}, 0
		for range 2 {
			readers.Go(func() {
				for ended := false; !ended; {
					select {
					case <-done: // one more look, when nobody writes
						ended = true
					default:
					}
					before := revisionOf(t, f, "n")
					state := ""
					for _, r := range dump(t, f, "n") {
						state += r.ID.String() + " "
					}
					if revisionOf(t, f, "n") == before {
						mu.Lock()
						if known, ok := states[before]; ok && known != state {
							t.Errorf("revision %s stands for two states", before)
						}
						states[before] = state
						pairs++
						mu.Unlock()
					}
				}
			})
		}
		writers.Wait()
		close(done)
		readers.Wait()
		if n := len(dump(t, f, "n")); pairs < 2 || n != 29 {
			t.Errorf("%d looks, %d memories", pairs, n)
		}
	})
}
