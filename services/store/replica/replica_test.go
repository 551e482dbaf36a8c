package replica_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// titles is a part that keeps titles.
type titles struct {
	rows *replica.Rows
	of   map[uint32]string
}

func (p *titles) Read(ctx context.Context, tx replica.Tx, namespace string, ids []uuid.UUID) (func(), error) {
	statement, args := `SELECT id, title FROM memory.memories WHERE namespace = $1`, []any{namespace}
	if ids != nil {
		statement, args = statement+` AND id = ANY($2::uuid[])`, append(args, ids)
	}
	read := map[uuid.UUID]string{}
	var id uuid.UUID
	var title string
	err := tx.Each(ctx, statement, args, []any{&id, &title}, func() error {
		read[id] = title
		return nil
	})
	apply := func() {
		for id, title := range read {
			if row, known := p.rows.Row(id); known {
				p.of[row] = title
			}
		}
	}
	if ids == nil {
		apply()
		return nil, err
	}
	return apply, err
}

func (p *titles) Drop(row uint32) { delete(p.of, row) }
func (p *titles) Bytes() int64    { return int64(100 * len(p.of)) }

func images(t *testing.T, f *storetest.Fixture, config replica.Config) *replica.Set {
	set := f.ImagesWith(t, config)
	set.Register("titles", replica.Records, func(rows *replica.Rows) replica.Part { return &titles{rows, map[uint32]string{}} })
	return set
}

func strict() replica.Config { return replica.Config{Memory: 64} }

// search returns the titles of the memories that a filter passes.
func search(t *testing.T, set *replica.Set, namespace string, filter record.Filter) map[uuid.UUID]string {
	t.Helper()
	view, err := set.View(t.Context(), namespace, replica.Need{Filter: filter}, 1)
	if err != nil {
		t.Fatalf("view of %s: %v", namespace, err)
	}
	defer view.Close()
	part, found, list := view.Part.(*titles), map[uuid.UUID]string{}, view.List()
	for row := range uint32(view.Len()) {
		if has := view.Has(row); has != slices.Contains(list, row) {
			t.Errorf("row %d: Has and List differ", row)
		} else if has {
			found[view.IDs[row]] = part.of[row]
		}
	}
	return found
}

// list returns the same from the database.
func list(t *testing.T, f *storetest.Fixture, namespace string, filter record.Filter) map[uuid.UUID]string {
	t.Helper()
	page, err := f.Memory.List(t.Context(), namespace, filter, memory.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	found := map[uuid.UUID]string{}
	for _, r := range page {
		if r.ExpiresAt.IsZero() || r.ExpiresAt.After(time.Now()) {
			found[r.ID] = r.Title
		}
	}
	return found
}

func TestImagesFollow(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set, random := images(t, f, strict()), rand.New(rand.NewPCG(1, 2))
		known := map[string][]uuid.UUID{}
		filters := []record.Filter{
			{}, {IncludeSuperseded: true}, {TagsAny: []string{"a", "b"}}, {TagsAll: []string{"a", "b"}}, {Categories: []string{"x", "none"}},
			{Metadata: map[string]any{"k": "1"}}, {Metadata: map[string]any{"k": 1.0}}, {Metadata: map[string]any{"k": true}},
			{CreatedFrom: time.Now().Add(-time.Minute), CreatedBefore: time.Now().Add(time.Hour)}, {TagsAny: []string{"never"}},
			{OccurredFrom: time.Now().Add(-48 * time.Hour)}, {OccurredBefore: time.Now().Add(-48 * time.Hour)},
		}
		for step := range 150 {
			namespace := fmt.Sprintf("n%d", random.IntN(2))
			change(t, f, random, namespace, known, step)
			filter := filters[random.IntN(len(filters))]
			got, want := search(t, set, namespace, filter), list(t, f, namespace, filter)
			if !maps.Equal(got, want) {
				t.Fatalf("step %d, %s, %+v: got %d memories, want %d", step, namespace, filter, len(got), len(want))
			}
		}
	})
}

// TestVersions: an image's version changes with its namespace, and with nothing else.
func TestVersions(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set := images(t, f, strict())
		version := func(namespace string) int64 {
			view, err := set.View(t.Context(), namespace, replica.Need{}, 1)
			if err != nil {
				t.Fatalf("view of %s: %v", namespace, err)
			}
			defer view.Close()
			return view.Version
		}
		f.Insert(t, storetest.Record("a", "first", nil), storetest.Record("b", "other", nil))
		a, b := version("a"), version("b")
		if a == 0 || a == b {
			t.Errorf("versions of two images: got %d and %d, want two numbers", a, b)
		}
		f.Insert(t, storetest.Record("b", "second", nil))
		if again := version("a"); again != a {
			t.Errorf("after a write elsewhere: got version %d, want %d", again, a)
		}
		if again := version("b"); again == b {
			t.Errorf("after a write: got version %d again", again)
		}
		if none := version("none"); none != 0 {
			t.Errorf("of no namespace: got version %d, want 0", none)
		}
	})
}

// change makes a random change.
func change(t *testing.T, f *storetest.Fixture, random *rand.Rand, namespace string, known map[string][]uuid.UUID, step int) {
	t.Helper()
	ids := known[namespace]
	one := func() uuid.UUID { return ids[random.IntN(len(ids))] }
	switch at := random.IntN(10); {
	case at < 5 || len(ids) == 0:
		r := storetest.Record(namespace, fmt.Sprint("text ", step), func(r *record.Record) {
			r.Title = fmt.Sprint("title ", step)
			r.Tags = []string{"a", "b", "c"}[random.IntN(3):]
			r.Category = []string{"", "x"}[random.IntN(2)]
			r.Metadata = map[string]any{"k": []any{"1", 1.0, true, nil}[random.IntN(4)]}
			if random.IntN(2) == 0 {
				r.OccurredAt = time.Now().Add(-time.Duration(random.IntN(100)) * time.Hour).Truncate(time.Microsecond)
			}
			if random.IntN(5) == 0 {
				r.ExpiresAt = time.Now().Add(-time.Hour)
			}
		})
		f.Insert(t, r)
		known[namespace] = append(ids, r.ID)
	case at < 7:
		if _, err := f.Memory.Update(t.Context(), namespace, one(), 0, func(r *record.Record) error {
			r.Title, r.Tags = fmt.Sprint("again ", step), []string{"b"}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	case at < 8:
		r := storetest.Record(namespace, fmt.Sprint("new ", step), nil)
		if _, _, err := f.Memory.Supersede(t.Context(), one(), 0, r); err == nil {
			known[namespace] = append(ids, r.ID)
		}
	case at < 9 || step%3 > 0:
		id := one()
		if _, err := f.Memory.Forget(t.Context(), namespace, []uuid.UUID{id}); err != nil {
			t.Fatal(err)
		}
		known[namespace] = slices.DeleteFunc(ids, func(other uuid.UUID) bool { return other == id })
	case random.IntN(2) == 0:
		if _, err := f.Memory.DeleteNamespace(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		delete(known, namespace)
	default: // another namespace gets the name
		other := "spare"
		r := storetest.Record(other, "other", nil)
		f.Insert(t, r)
		if _, err := f.Memory.DeleteNamespace(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Memory.RenameNamespace(t.Context(), other, namespace); err != nil {
			t.Fatal(err)
		}
		known[namespace] = []uuid.UUID{r.ID}
	}
}

func TestImagesFollowWritersOfLongTransactions(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	set := images(t, f, strict())
	first := storetest.Record("n", "first", nil)
	f.Insert(t, first)
	if err := f.Store().Write(t.Context(), "", func(tx sqldb.Tx) error {
		tx.Note("n", string(replica.Records), first.ID)
		if _, err := tx.Postgres.Exec(t.Context(), `UPDATE memory.memories SET title = 'late' WHERE id = $1`, first.ID); err != nil {
			return err
		}
		second := storetest.Record("n", "second", nil) // begins later and commits earlier
		f.Insert(t, second)
		if got := search(t, set, "n", record.Filter{}); len(got) != 2 || got[first.ID] != first.Title {
			t.Errorf("before the commit: got %v, want 2 memories with their first titles", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := search(t, set, "n", record.Filter{})[first.ID]; got != "late" {
		t.Errorf("after the commit the title is %q, want late", got)
	}
}

func TestLoadingWhileOthersWrite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for range 5 {
			set := images(t, f, strict())
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for i := range 10 {
						r := storetest.Record("n", fmt.Sprint(i), func(r *record.Record) { r.Title = "t" })
						f.Insert(t, r)
						if i%3 == 0 {
							if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{r.ID}); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			search(t, set, "n", record.Filter{})
			wg.Wait()
			if got, want := search(t, set, "n", record.Filter{}), list(t, f, "n", record.Filter{}); !maps.Equal(got, want) {
				t.Fatalf("got %d memories, want %d", len(got), len(want))
			}
		}
	})
}

func TestFollowerKeepsImagesCurrent(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		config := replica.DefaultConfig()
		set := images(t, f, config)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			set.Follow(ctx)
		}()
		defer func() { stop(); <-done }()
		f.Insert(t, storetest.Record("n", "first", nil))
		search(t, set, "n", record.Filter{})
		for i := range 3 {
			r := storetest.Record("n", fmt.Sprint(i), nil)
			f.Insert(t, r)
			for deadline := time.Now().Add(20 * time.Second); ; {
				if _, there := search(t, set, "n", record.Filter{})[r.ID]; there {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the image does not follow")
				}
			}
		}
		// What this process has committed is seen at once.
		r := storetest.Record("n", "told", nil)
		f.Insert(t, r)
		set.Told()
		if _, there := search(t, set, "n", record.Filter{})[r.ID]; !there {
			t.Error("a search does not see what it was told of")
		}
	})
}

func TestImagesAreBounded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set := images(t, f, replica.Config{Memory: 1})
		var records []record.Record
		for i := range 1000 {
			records = append(records, storetest.Record(fmt.Sprintf("n%d", i%4), "x", nil))
		}
		f.Insert(t, records...)
		for i := range 8 {
			namespace := fmt.Sprintf("n%d", i%4)
			if got := len(search(t, set, namespace, record.Filter{})); got != 250 {
				t.Errorf("%s: %d memories, want 250", namespace, got)
			}
		}
		for i := range 100 { // invented names leave nothing
			search(t, set, fmt.Sprintf("invented-%d", i), record.Filter{})
		}
		if n := set.Len(); n > 4 {
			t.Errorf("%d images are kept, want 4 at most", n)
		}
	})
}

func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	set := images(t, f, strict())
	fresh := images(t, f, replica.Config{Memory: 64, Fresh: true})
	r := storetest.Record("n", "x", func(r *record.Record) { r.Title = "kept" })
	f.Insert(t, r)
	for _, s := range []*replica.Set{set, fresh} {
		search(t, s, "n", record.Filter{})
	}
	f.Pool.Close()
	view, err := set.View(t.Context(), "n", replica.Need{AtLeast: 1 << 40}, 1)
	if err != nil {
		t.Fatalf("without the database: %v", err)
	}
	defer view.Close()
	if !view.Away || view.Reason == "" || view.Age == 0 || !view.Stale || len(view.List()) != 1 {
		t.Errorf("away %t (%q), age %v, stale %t, %d memories", view.Away, view.Reason, view.Age, view.Stale, len(view.List()))
	}
	if _, err := fresh.View(t.Context(), "n", replica.Need{}, 1); err == nil {
		t.Error("an image that must be fresh was searched without the database")
	}
}

// TestPrunedLog prunes what an image has not read: it must not go on as if nothing had happened.
func TestPrunedLog(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set := images(t, f, strict())
		kept, forgotten := storetest.Record("n", "kept", nil), storetest.Record("n", "forgotten", nil)
		f.Insert(t, kept, forgotten)
		search(t, set, "n", record.Filter{})
		if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{forgotten.ID}); err != nil {
			t.Fatal(err)
		}
		if f.Pool != nil {
			if _, err := f.Pool.Exec(t.Context(), `SELECT memory.prune_log('-1 hour'::interval)`); err != nil {
				t.Fatal(err)
			}
		} else if err := f.DB.Update(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`INSERT INTO log (seq, namespace, memory_id, part) VALUES (1000000, 'other', x'00', 'm')`) // prunes
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if got := search(t, set, "n", record.Filter{}); len(got) != 1 {
			t.Errorf("got %d memories, want the one that was not forgotten", len(got))
		}
	})
}

// TestHurriedSearches: searches that have hardly any time say nothing about the database.
func TestHurriedSearches(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set := images(t, f, strict())
		f.Insert(t, storetest.Record("n", "x", nil))
		search(t, set, "n", record.Filter{}) // loads it
		for i := range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
			if view, err := set.View(ctx, "n", replica.Need{}, 1); err == nil {
				if view.Away {
					t.Errorf("after %v: the database is said not to answer", time.Duration(i)*10*time.Microsecond)
				}
				view.Close()
			}
			cancel()
		}
		if got := set.Concern(); got != "" {
			t.Errorf("concern: got %q, want none", got)
		}
	})
}

// holding is a part that waits while a namespace is loaded, but for those that are called small.
type holding struct {
	reads chan string // namespaces
	hold  chan struct{}
}

func newHolding() holding { return holding{make(chan string, 100), make(chan struct{})} }

func (p holding) Read(ctx context.Context, _ replica.Tx, namespace string, ids []uuid.UUID) (func(), error) {
	if ids == nil && namespace != "small" {
		p.reads <- namespace
		select {
		case <-p.hold:
		case <-ctx.Done():
		}
	}
	return nil, nil
}
func (holding) Drop(uint32)  {}
func (holding) Bytes() int64 { return 0 }

// within is a View of at most d.
func within(t *testing.T, d time.Duration, set *replica.Set, namespace string, need replica.Need) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	view, err := set.View(ctx, namespace, need, 0.5)
	if err == nil {
		view.Close()
	}
	return err
}

func TestForgottenWhileLoaded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil))
		set, part := images(t, f, strict()), newHolding()
		set.Register("holding", replica.Records, func(*replica.Rows) replica.Part { return part })
		loaded := make(chan int)
		go func() { loaded <- len(search(t, set, "n", record.Filter{})) }()
		<-part.reads // the rows have been read
		if _, err := f.Memory.DeleteNamespace(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		close(part.hold)
		<-loaded
		if got := search(t, set, "n", record.Filter{}); len(got) > 0 {
			t.Errorf("found %v in a namespace that was forgotten", got)
		}
	})
}

// A filter's keys are all in memory after a search, also if some were and there was no room for the others.
func TestKeysThatPushEachOtherOut(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", func(r *record.Record) {
			r.Title, r.Metadata = "match", map[string]any{"k0": "a", "new": "b"}
		}))
		set := images(t, f, strict())
		for i := range 32 {
			search(t, set, "n", record.Filter{Metadata: map[string]any{fmt.Sprintf("k%d", i): "a"}})
		}
		both := record.Filter{Metadata: map[string]any{"k0": "a", "new": "b"}}
		if got := search(t, set, "n", both); len(got) != 1 {
			t.Errorf("found %v by a filter of two keys, want the memory", got)
		}
		others := make(chan struct{})
		go func() {
			defer close(others)
			for i := range 300 {
				_ = within(t, time.Minute, set, "n", replica.Need{Filter: record.Filter{Metadata: map[string]any{fmt.Sprintf("other%d", i): "a"}}})
			}
		}()
		for searching := true; searching; {
			select {
			case <-others:
				searching = false
			default:
			}
			if got := search(t, set, "n", both); len(got) != 1 {
				t.Fatalf("found %v while other searches push the keys out, want the memory", got)
			}
		}
	})
}

// Searches keep their time while a change waits for a slow search.
func TestDeadlineWhileAChangeWaits(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil))
		set := images(t, f, replica.Config{Memory: 64, MaxAge: 10 * time.Millisecond})
		slow, err := set.View(t.Context(), "n", replica.Need{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		f.Insert(t, storetest.Record("n", "y", nil))
		go set.Follow(t.Context())
		for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; {
			called, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			view, err := set.View(called, "n", replica.Need{}, 1)
			if err == nil {
				view.Close()
			} else if called.Err() == nil {
				t.Errorf("got %v before the deadline", err)
			}
			cancel()
		}
	})
}

// Loading leaves connections to others, so that what is in memory stays current.
func TestLoadingLeavesConnectionsPostgres(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	f.Insert(t, storetest.Record("a", "x", nil), storetest.Record("b", "x", nil), storetest.Record("small", "x", nil))
	set, part := f.ImagesWith(t, strict()), newHolding()
	defer close(part.hold)
	for _, leg := range []string{"lexical", "dense", "graph"} {
		set.Register(leg, replica.Records, func(*replica.Rows) replica.Part { return part })
	}
	for _, namespace := range []string{"a", "b"} {
		if err := within(t, 100*time.Millisecond, set, namespace, replica.Need{}); !errors.Is(err, replica.ErrCold) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("view of %s, which is loaded: %v", namespace, err)
		}
		<-part.reads
	}
	if got, most := f.Pool.Stat().AcquiredConns(), f.Pool.Stat().MaxConns(); got > most/2 {
		t.Errorf("%d of %d connections are used for loading, want half of them at most", got, most)
	}
	if err := within(t, 10*time.Second, set, "small", replica.Need{}); err != nil && !errors.Is(err, replica.ErrCold) {
		t.Errorf("view of another namespace: %v", err)
	}
}

// One namespace that cannot be read leaves the others current, and a damaged memory leaves its namespace.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	set, part := images(t, f, replica.Config{Memory: 64, MaxAge: 10 * time.Millisecond}), &failing{}
	set.Register("failing", replica.Records, func(*replica.Rows) replica.Part { return part })
	f.Insert(t, storetest.Record("bad", "x", nil), storetest.Record("good", "x", nil))
	search(t, set, "bad", record.Filter{})
	search(t, set, "good", record.Filter{})
	part.failing.Store(true)
	go set.Follow(t.Context())
	f.Insert(t, storetest.Record("bad", "y", nil), storetest.Record("good", "y", nil))
	for len(search(t, set, "good", record.Filter{})) < 2 {
		time.Sleep(time.Millisecond)
	}
	if got := set.Concern(); got != "" {
		t.Errorf("concern: got %q, want none", got)
	}
	for deadline := time.Now().Add(10 * time.Second); ; { // it may be as old as MaxAge allows
		view, err := set.View(t.Context(), "bad", replica.Need{}, 1)
		if err != nil {
			break
		}
		view.Close()
		if time.Now().After(deadline) {
			t.Fatal("a namespace that cannot be read is searched")
		}
	}
	part.failing.Store(false)
	if _, err := f.DB.Write.ExecContext(t.Context(), `UPDATE memories SET tags = '[1]' WHERE namespace = 'good' AND content = 'y'`); err != nil {
		t.Fatal(err)
	}
	if got := search(t, images(t, f, strict()), "good", record.Filter{}); len(got) != 1 {
		t.Errorf("got %v beside a memory with damaged tags, want one memory", got)
	}
}

// failing is a part that can read no namespace that is called bad.
type failing struct{ failing atomic.Bool }

func (*failing) Drop(uint32)  {}
func (*failing) Bytes() int64 { return 0 }

func (p *failing) Read(ctx context.Context, tx replica.Tx, namespace string, _ []uuid.UUID) (func(), error) {
	if !p.failing.Load() || namespace != "bad" {
		return nil, nil
	}
	var one int
	return nil, tx.Each(ctx, `SELECT 1`, nil, []any{&one}, func() error { return errors.New("damaged") })
}

// holdingLarge is a part that reads nothing but what is called small until hold is closed.
type holdingLarge struct{ hold chan struct{} }

func (holdingLarge) Drop(uint32)  {}
func (holdingLarge) Bytes() int64 { return 0 }

func (p holdingLarge) Read(_ context.Context, _ replica.Tx, namespace string, _ []uuid.UUID) (func(), error) {
	if namespace != "small" {
		<-p.hold
	}
	return nil, nil
}

// A small namespace does not wait for the loads of others.
func TestSmallNamespacesPass(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set, part := images(t, f, strict()), holdingLarge{make(chan struct{})}
		set.Register("holding", replica.Records, func(*replica.Rows) replica.Part { return part })
		defer close(part.hold)
		for _, namespace := range []string{"a", "b", "c", "small"} {
			f.Insert(t, storetest.Record(namespace, "x", nil))
		}
		for _, namespace := range []string{"a", "b", "c"} {
			if err := within(t, 50*time.Millisecond, set, namespace, replica.Need{}); err == nil {
				t.Fatalf("%s was searched before it was read", namespace)
			}
		}
		if err := within(t, time.Minute, set, "small", replica.Need{}); err != nil {
			t.Errorf("a small namespace beside others that are loaded: got %v, want no error", err)
		}
	})
}

// holdingEach is a part that waits while some namespaces are loaded.
type holdingEach struct {
	reads chan string // namespaces
	hold  map[string]chan struct{}
}

func (holdingEach) Drop(uint32)  {}
func (holdingEach) Bytes() int64 { return 0 }

func (p holdingEach) Read(_ context.Context, _ replica.Tx, namespace string, _ []uuid.UUID) (func(), error) {
	p.reads <- namespace
	if hold, held := p.hold[namespace]; held {
		<-hold
	}
	return nil, nil
}

// A small namespace that has waited takes the place of a large one, too.
func TestSmallNamespacesTakeAnyPlace(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	set, part := images(t, f, strict()), holdingEach{make(chan string, 100), map[string]chan struct{}{}}
	set.Register("holding", replica.Records, func(*replica.Rows) replica.Part { return part })
	held := []string{"a", "b", "c", "d"} // all places are taken; a and b have those of large namespaces
	for _, namespace := range held {
		part.hold[namespace] = make(chan struct{})
	}
	for _, namespace := range held {
		f.Insert(t, storetest.Record(namespace, "x", nil))
		_ = within(t, time.Millisecond, set, namespace, replica.Need{})
		<-part.reads
	}
	f.Insert(t, storetest.Record("small", "x", nil))
	if err := within(t, 50*time.Millisecond, set, "small", replica.Need{}); err == nil {
		t.Fatal("a namespace was searched while all places were taken")
	}
	close(part.hold["a"])
	close(part.hold["b"])
	if err := within(t, 20*time.Second, set, "small", replica.Need{}); err != nil {
		t.Errorf("a small namespace beside two free places: got %v, want no error", err)
	}
	close(part.hold["c"])
	close(part.hold["d"])
}

// growing is a part that grows by 16 bytes with each row of its own.
type growing struct{ bytes *atomic.Int64 }

func (growing) Drop(uint32)    {}
func (p growing) Bytes() int64 { return p.bytes.Load() }

func (p growing) Read(ctx context.Context, tx replica.Tx, _ string, _ []uuid.UUID) (func(), error) {
	var n int64
	return nil, tx.Each(ctx, `WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100000) SELECT n FROM r`, nil, []any{&n}, func() error {
		p.bytes.Add(16)
		return nil
	})
}

// Parts that would fit alone do not take more together than there is for all, not even while they are loaded.
func TestPartsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set, bytes := images(t, f, replica.Config{Memory: 2}), [2]atomic.Int64{}
		for i := range bytes {
			set.Register(fmt.Sprint("part ", i), replica.Records, func(*replica.Rows) replica.Part { return growing{&bytes[i]} })
		}
		f.Insert(t, storetest.Record("n", "x", nil))
		if err := within(t, time.Minute, set, "n", replica.Need{}); !errors.Is(err, replica.ErrTooLarge) {
			t.Errorf("got %v, want %v", err, replica.ErrTooLarge)
		}
		if got := bytes[0].Load() + bytes[1].Load(); got > 5<<19 { // each looks now and then
			t.Errorf("two parts took %d bytes before they were given up, want 2.5 MiB at most", got)
		}
	})
}

// immense is a part that has no room. It counts how often it is read.
type immense struct{ reads *atomic.Int64 }

func (immense) Drop(uint32)  {}
func (immense) Bytes() int64 { return 1 << 40 }

func (p immense) Read(context.Context, replica.Tx, string, []uuid.UUID) (func(), error) {
	p.reads.Add(1)
	return nil, nil
}

// A namespace that was too large is not read again while it has as many memories.
func TestTooLargeIsNotReadAgain(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set, reads := images(t, f, strict()), atomic.Int64{}
		set.Register("immense", replica.Records, func(*replica.Rows) replica.Part { return immense{&reads} })
		r := storetest.Record("n", "x", nil)
		f.Insert(t, r, storetest.Record("n", "y", nil))
		for i, want := range []int64{1, 1, 2} {
			if i == 2 {
				if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{r.ID}); err != nil {
					t.Fatal(err)
				}
			}
			set.RetryNow()
			if err := within(t, time.Minute, set, "n", replica.Need{}); !errors.Is(err, replica.ErrTooLarge) {
				t.Errorf("try %d: got %v, want %v", i, err, replica.ErrTooLarge)
			}
			if got := reads.Load(); got != want {
				t.Errorf("after try %d: got %d reads, want %d", i, got, want)
			}
		}
	})
}

// What expired before 1970 has expired.
func TestExpiredLongAgo(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for _, at := range []time.Time{time.Unix(0, 0).UTC(), time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC)} {
			f.Insert(t, storetest.Record("n", "x", func(r *record.Record) { r.ExpiresAt = at }))
		}
		if got := search(t, images(t, f, strict()), "n", record.Filter{}); len(got) != 0 {
			t.Errorf("found %v, which expired before 1970 or then", got)
		}
	})
}

// A search whose time is too short for a filter's metadata leaves the key in memory for others, and says nothing about the database.
func TestMetadataTakesLong(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for range 5 {
			records := make([]record.Record, 1000)
			for i := range records {
				records[i] = storetest.Record("n", "x", func(r *record.Record) { r.Metadata = map[string]any{"k": fmt.Sprint(i % 7)} })
			}
			f.Insert(t, records...)
		}
		set := images(t, f, replica.Config{Memory: 64, MaxAge: time.Minute})
		search(t, set, "n", record.Filter{})
		need := replica.Need{Filter: record.Filter{Metadata: map[string]any{"k": "3"}}}
		deadline := 2 * time.Millisecond
		for err := within(t, deadline, set, "n", need); err != nil; err = within(t, deadline, set, "n", need) {
			if !errors.Is(err, replica.ErrCold) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a search in a hurry: %v", err)
			}
		}
		if got := set.Concern(); got != "" {
			t.Errorf("concern: got %q, want none", got)
		}
	})
}

// reserved is a part that takes three quarters of the memory while it is loaded.
type reserved struct {
	reading chan string
	hold    chan struct{}
}

func (reserved) Drop(uint32)  {}
func (reserved) Bytes() int64 { return 3 << 18 }

func (p reserved) Read(ctx context.Context, tx replica.Tx, namespace string, _ []uuid.UUID) (func(), error) {
	var n int64
	err := tx.Each(ctx, `WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 20000) SELECT n FROM r`, nil, []any{&n}, func() error { return nil })
	if p.reading <- namespace; err == nil && namespace == "a" {
		<-p.hold
	}
	return nil, err
}

// Namespaces that are loaded at a time take no more memory together than there is for all.
func TestLoadsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set, part := images(t, f, replica.Config{Memory: 1}), reserved{make(chan string, 10), make(chan struct{})}
		set.Register("reserved", replica.Records, func(*replica.Rows) replica.Part { return part })
		f.Insert(t, storetest.Record("a", "x", nil), storetest.Record("b", "x", nil))
		_ = within(t, time.Millisecond, set, "a", replica.Need{})
		<-part.reading
		if err := within(t, time.Minute, set, "b", replica.Need{}); !errors.Is(err, replica.ErrCold) {
			t.Errorf("beside another one that is loaded: got %v, want %v", err, replica.ErrCold)
		}
		close(part.hold)
		for _, namespace := range []string{"a", "b"} {
			err := within(t, time.Minute, set, namespace, replica.Need{})
			for deadline := time.Now().Add(10 * time.Second); errors.Is(err, replica.ErrCold) && time.Now().Before(deadline); {
				time.Sleep(50 * time.Millisecond)
				err = within(t, time.Minute, set, namespace, replica.Need{})
			}
			if err != nil {
				t.Errorf("%s by itself: got %v, want no error", namespace, err)
			}
		}
	})
}

// full is a part that has no room for changes.
type full struct{}

func (full) Drop(uint32)  {}
func (full) Bytes() int64 { return 0 }

func (full) Read(_ context.Context, _ replica.Tx, _ string, ids []uuid.UUID) (func(), error) {
	if ids != nil {
		return nil, replica.ErrTooLarge
	}
	return nil, nil
}

// A namespace that gets too large is loaded anew, which finds that it is. The database answers.
func TestGrownTooLarge(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set := images(t, f, strict())
		set.Register("full", replica.Records, func(*replica.Rows) replica.Part { return full{} })
		f.Insert(t, storetest.Record("n", "x", nil))
		search(t, set, "n", record.Filter{})
		f.Insert(t, storetest.Record("n", "y", nil))
		view, err := set.View(t.Context(), "n", replica.Need{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		if view.Away || set.Concern() != "" {
			t.Errorf("got away %v and the concern %q, want none", view.Away, set.Concern())
		}
	})
}
