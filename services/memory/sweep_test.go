package memory_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// expiring returns a record that expired so long ago.
func expiring(namespace, content string, ago time.Duration) record.Record {
	return storetest.Record(namespace, content, func(r *record.Record) { r.ExpiresAt = record.Now().Add(-ago) })
}

func count(t *testing.T, f *storetest.Fixture, namespace string) int64 {
	t.Helper()
	st, err := f.Memory.Statistics(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	return st.Live + st.Superseded + st.Expired
}

func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		old, recent := expiring("a", "old", 25*time.Hour), expiring("a", "recent", time.Hour)
		lasting, coming := storetest.Record("a", "lasting", nil), expiring("a", "coming", -time.Hour)
		newer := storetest.Record("a", "newer", func(r *record.Record) { r.Supersedes = old.ID })
		f.Insert(t, old, recent, lasting, coming)
		f.Insert(t, newer)
		f.Insert(t, expiring("b", "old too", 48*time.Hour))
		before := time.Now().Add(-24 * time.Hour)
		if n, err := f.Memory.Sweep(t.Context(), before, 100); err != nil || n != 2 {
			t.Fatalf("swept %d, %v", n, err)
		}
		found, err := f.Memory.Get(t.Context(), "a", []uuid.UUID{old.ID, recent.ID, lasting.ID, coming.ID, newer.ID})
		if err != nil || len(found) != 4 || found[0].ID != recent.ID {
			t.Errorf("left: %+v, %v", found, err)
		}
		if r := get(t, f, "a", newer.ID); r.Supersedes != uuid.Nil {
			t.Error("a memory points at one that was swept")
		}
		if n := count(t, f, "b"); n != 0 {
			t.Errorf("%d are left in the other namespace", n)
		}
		// What was derived is gone as well: the indexes have four memories to catch up with, not six.
		for namespace, want := range map[string]int64{"a": 4, "b": 0} {
			if s, err := f.Queue.Status(t.Context(), "dense", namespace); err != nil || s.Pending != want {
				t.Errorf("queue of %s: %+v, %v", namespace, s, err)
			}
		}
		if n, err := f.Memory.Sweep(t.Context(), before, 100); err != nil || n != 0 {
			t.Errorf("again: swept %d, %v", n, err)
		}
	})
}

// TestSweepersShare runs several at once: each memory is swept by one of them.
func TestSweepersShare(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var records []record.Record
		for range 60 {
			records = append(records, expiring("n", "old", time.Hour))
		}
		f.Insert(t, append(records, storetest.Record("n", "lasting", nil))...)
		var swept atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					n, err := f.Memory.Sweep(t.Context(), time.Now(), 7)
					if err != nil || n > 7 {
						t.Errorf("swept %d, %v", n, err)
					}
					if swept.Add(n); n == 0 || err != nil {
						return
					}
				}
			})
		}
		wg.Wait()
		if swept.Load() != 60 || count(t, f, "n") != 1 {
			t.Errorf("swept %d, left %d", swept.Load(), count(t, f, "n"))
		}
	})
}

// TestSweepWaitsForNobody sweeps while another transaction is at an expired memory.
func TestSweepWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	busy := expiring("n", "busy", time.Hour)
	f.Insert(t, busy, expiring("n", "old", time.Hour))
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM memory.memories WHERE namespace = 'n' AND id = $1 FOR UPDATE`, busy.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if n, err := f.Memory.Sweep(ctx, time.Now(), 10); err != nil || n != 1 {
		t.Errorf("beside a lock: swept %d, %v", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Memory.Sweep(ctx, time.Now(), 10); err != nil || n != 1 {
		t.Errorf("afterwards: swept %d, %v", n, err)
	}
}

// TestSweeping runs the sweeper itself, over more than one batch. Its log has counts, and nothing of the memories.
func TestSweeping(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var records []record.Record
		for range 450 {
			records = append(records, expiring("n", "xylophonequetzal", 2*time.Hour))
		}
		f.Insert(t, append(records, expiring("n", "recent", time.Minute))...)
		memory.Sweep{After: time.Hour}.Run(t.Context(), f.Memory, storetest.Log()) // never
		if n := count(t, f, "n"); n != 451 {
			t.Fatalf("%d are left although sweeping is off", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		var running sync.WaitGroup
		running.Go(func() {
			memory.Sweep{After: time.Hour, Every: time.Hour}.Run(ctx, f.Memory, slog.New(slog.NewTextHandler(&log, nil)))
		})
		deadline := time.Now().Add(30 * time.Second)
		for ticker := time.NewTicker(10 * time.Millisecond); count(t, f, "n") > 1; <-ticker.C {
			if time.Now().After(deadline) {
				t.Fatalf("%d are left", count(t, f, "n"))
			}
		}
		cancel()
		running.Wait()
		if text := log.String(); !strings.Contains(text, "swept expired memories") || strings.Contains(text, "xylophone") {
			t.Errorf("log:\n%s", text)
		}
	})
}
