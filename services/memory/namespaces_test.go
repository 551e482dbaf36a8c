package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// index is a leg that follows the records through the queue.
type index interface {
	leg.Searcher
	queue.Indexer
}

// legs are the three legs over a fixture's database.
type legs struct {
	lexical      leg.Searcher
	dense, graph index
}

func newLegs(t testing.TB, f *storetest.Fixture) legs {
	t.Helper()
	images := f.Images(t)
	d, err := dense.New(context.Background(), f.Store(), images, embed.NewHashed(), f.Queue)
	if err != nil {
		t.Fatal(err)
	}
	return legs{lexical.New(f.Store(), images, lexical.DefaultConfig()), d, graph.New(f.Store(), images, f.Queue, graph.Config{})}
}

func (l legs) drain(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	f.Drain(t, "dense", l.dense)
	f.Drain(t, "graph", l.graph)
}

// recall returns what each leg finds in a namespace for a few queries.
func (l legs) recall(t *testing.T, namespace string) map[string][]leg.Hit {
	t.Helper()
	found := map[string][]leg.Hit{}
	for name, searcher := range map[string]leg.Searcher{"lexical": l.lexical, "dense": l.dense, "graph": l.graph} {
		for _, query := range []string{"Kestrel backup harbour", "Merlin deploys on Friday", "who keeps the token for Osprey"} {
			result, err := searcher.Search(t.Context(), leg.Query{Namespace: namespace, Text: query, Depth: 20})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// The order in which an engine adds up a score is its own affair, and it may change with the plan.
			for i, hit := range result.Hits {
				result.Hits[i].Score = math.Round(hit.Score*1e9) / 1e9
			}
			found[name+": "+query] = result.Hits
		}
	}
	return found
}

// dump returns every record of a namespace, oldest first.
func dump(t *testing.T, f *storetest.Fixture, namespace string) []record.Record {
	t.Helper()
	var all []record.Record
	if err := f.Memory.Scan(t.Context(), namespace, 7, func(batch []record.Record) error {
		all = append(all, batch...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// inhabit fills a namespace with memories in every state, indexed but for a few: of those one is waiting, one was tried
// and one given up on. The lexical index has words in every stage: in blocks, fresh and to be removed.
func inhabit(t *testing.T, f *storetest.Fixture, l legs, namespace string) {
	t.Helper()
	projects := []string{"Kestrel", "Merlin", "Osprey", "Harrier"}
	var records []record.Record
	for i := range 40 {
		project := projects[i%len(projects)]
		records = append(records, storetest.Record(namespace, fmt.Sprintf("%s keeps backup %d in the harbour vault; %s deploys on Friday with token %d.", project, i, projects[(i+1)%len(projects)], i*7), func(r *record.Record) {
			r.Title, r.Tags = project, []string{"ops", fmt.Sprintf("t%d", i%5)}
			r.CreatedAt = time.Date(2025, 1, 1, 0, i, 0, 0, time.UTC)
			r.IdempotencyKey = fmt.Sprintf("key-%d", i)
			switch {
			case i%10 == 3:
				r.Sensitive = true
			case i%10 == 4:
				r.ExpiresAt = time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
			case i%10 == 5:
				r.Supersedes = records[i-5].ID
			case i%10 == 6:
				r.Links = []record.Link{{Target: records[i-1].ID, Relation: "mentions"}}
				r.Metadata = map[string]any{"n": float64(i)}
			}
		}))
	}
	f.Insert(t, records...)
	if _, err := f.Memory.Update(t.Context(), namespace, records[0].ID, 0, func(r *record.Record) error { r.Content += " Merlin again."; return nil }); err != nil {
		t.Fatal(err)
	}
	l.drain(t, f)
	var waiting []record.Record
	for i := range 3 {
		waiting = append(waiting, storetest.Record(namespace, fmt.Sprintf("Osprey waits for number %d", i), nil))
	}
	f.Insert(t, waiting...)
	tasks, err := f.Queue.Claim(t.Context(), "dense", 2, time.Hour)
	if err != nil || len(tasks) != 2 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	for i, task := range tasks {
		if err := f.Queue.Fail(t.Context(), "dense", task, time.Hour, i == 0, "the model is down"); err != nil {
			t.Fatal(err)
		}
	}
}

// nothingHolds checks that a text is in no table.
func nothingHolds(t *testing.T, f *storetest.Fixture, texts ...string) {
	t.Helper()
	if tables := f.Holding(t, texts...); len(tables) > 0 {
		t.Errorf("of %q, got some in %v, want nothing left", texts, tables)
	}
}

func TestRenameMovesEverything(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		const from, to, other = "acme/before", "acme/after", "acme"
		l := newLegs(t, f)
		inhabit(t, f, l, from)
		f.Insert(t, storetest.Record(other, "Kestrel keeps another backup in the harbour", nil))
		records, elsewhere := dump(t, f, from), dump(t, f, other)
		found, foundElsewhere := l.recall(t, from), l.recall(t, other)
		for leg, hits := range found {
			if len(hits) == 0 {
				t.Fatalf("%s finds nothing to compare with", leg)
			}
		}
		created, err := f.Memory.Namespace(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := f.Memory.Statistics(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		// There and back, since a process may keep what it has read of a namespace by its name.
		for _, names := range [][2]string{{from, to}, {to, from}, {from, to}} {
			from, to := names[0], names[1]
			if n, err := f.Memory.RenameNamespace(t.Context(), from, to); err != nil || n != int64(len(records)) {
				t.Fatalf("rename: %d, %v", n, err)
			}
			for i := range records {
				records[i].Namespace = to
			}
			if got := dump(t, f, to); !reflect.DeepEqual(got, records) {
				t.Errorf("the records have changed: %d, were %d", len(got), len(records))
			}
			for leg, hits := range l.recall(t, to) {
				if !reflect.DeepEqual(hits, found[leg]) {
					t.Errorf("%s: got %v, want %v", leg, hits, found[leg])
				}
			}
			after, err := f.Memory.Statistics(t.Context(), to)
			for i := range after.Indexes {
				after.Indexes[i].Lag, stats.Indexes[i].Lag = 0, 0
			}
			if err != nil || !reflect.DeepEqual(after, stats) {
				t.Errorf("statistics %+v, were %+v, error %v", after, stats, err)
			}
			if ns, err := f.Memory.Namespace(t.Context(), to); err != nil || !ns.CreatedAt.Equal(created.CreatedAt) {
				t.Errorf("namespace %+v, was %+v, error %v", ns, created, err)
			}
			nothingHolds(t, f, from)
			for leg, hits := range l.recall(t, from) {
				if len(hits) > 0 {
					t.Errorf("%s finds %v by the old name", leg, hits)
				}
			}
		}
		if got := dump(t, f, other); !reflect.DeepEqual(got, elsewhere) {
			t.Error("another namespace's records have changed")
		}
		if got := l.recall(t, other); !reflect.DeepEqual(got, foundElsewhere) {
			t.Errorf("another namespace's recall was %v, is %v", foundElsewhere, got)
		}
		// What was left to do is done under the new name.
		l.drain(t, f)
		if st, err := f.Memory.Statistics(t.Context(), to); err != nil || st.Indexes[0].Pending != 1 || st.Indexes[0].Dead != 1 || st.Indexes[1].Pending != 0 {
			t.Errorf("left to index: %+v, %v", st.Indexes, err)
		}
	})
}

func TestRenameRefuses(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("a", "in a", nil), storetest.Record("b", "in b", nil))
		if _, err := f.Memory.RenameNamespace(t.Context(), "nowhere", "c"); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		for _, taken := range []string{"a", "b", "default"} {
			if _, err := f.Memory.RenameNamespace(t.Context(), "a", taken); !errors.Is(err, memory.ErrNamespaceTaken) {
				t.Errorf("to %s: %v", taken, err)
			}
		}
		if got := dump(t, f, "a"); len(got) != 1 {
			t.Errorf("%d records after refusals", len(got))
		}
	})
}

// A memory stored while its namespace is renamed is in the new one or in a new one of the old name, once.
func TestRenameBesideWriters(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		const writers, each, names = 4, 25, 5
		name := func(i int) string { return fmt.Sprintf("name-%d", i) }
		var wg sync.WaitGroup
		stored := make([][]uuid.UUID, writers)
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					r := storetest.Record(name(0), fmt.Sprintf("memory %d of writer %d", i, w), nil)
					if _, err := f.Memory.Insert(t.Context(), []record.Record{r}); err != nil {
						t.Errorf("insert: %v", err)
						return
					}
					stored[w] = append(stored[w], r.ID)
					if _, err := f.Memory.Update(t.Context(), name(0), r.ID, 0, func(r *record.Record) error { r.Title = "x"; return nil }); err != nil && !errors.Is(err, memory.ErrNotFound) {
						t.Errorf("update: %v", err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for i := 1; i < names; {
				switch _, err := f.Memory.RenameNamespace(t.Context(), name(0), name(i)); {
				case err == nil:
					i++
				case !errors.Is(err, memory.ErrNotFound): // nothing stored yet
					t.Errorf("rename: %v", err)
					return
				}
			}
		})
		wg.Wait()
		var got []uuid.UUID
		l := newLegs(t, f)
		for i := range names {
			records := dump(t, f, name(i))
			if found, err := l.lexical.Search(t.Context(), leg.Query{Namespace: name(i), Text: "memory writer", Depth: 1000}); err != nil || len(found.Hits) != len(records) {
				t.Errorf("%d of %d memories of %s are found, %v", len(found.Hits), len(records), name(i), err)
			}
			for _, r := range records {
				if r.Namespace != name(i) {
					t.Errorf("%s in a listing of %s", r.Namespace, name(i))
				}
				got = append(got, r.ID)
			}
		}
		want := slices.Concat(stored...)
		compare := func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
		slices.SortFunc(got, compare)
		slices.SortFunc(want, compare)
		if !slices.Equal(got, want) {
			t.Errorf("%d memories are there, %d were stored", len(got), len(want))
		}
	})
}

// A worker that claimed memories before their namespace was renamed writes nothing under the old name, and its tasks are
// given out again under the new one.
func TestRenameBesideAWorker(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		l := newLegs(t, f)
		f.Insert(t, storetest.Record("before", "Kestrel keeps a backup in the harbour", func(r *record.Record) { r.Title = "Kestrel" }))
		for name, indexer := range map[string]queue.Indexer{"dense": l.dense, "graph": l.graph} {
			tasks, err := f.Queue.Claim(t.Context(), name, 10, -time.Second)
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%s: %d tasks, %v", name, len(tasks), err)
			}
			if _, err := f.Memory.RenameNamespace(t.Context(), "before", "after"); err != nil {
				t.Fatal(err)
			}
			if err := indexer.Index(t.Context(), []record.Record{tasks[0].Record}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := f.Queue.Done(t.Context(), name, tasks); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			nothingHolds(t, f, "before")
			if st, err := f.Queue.Status(t.Context(), name, "after"); err != nil || st.Pending != 1 {
				t.Errorf("%s: %+v, %v", name, st, err)
			}
			if _, err := f.Memory.RenameNamespace(t.Context(), "after", "before"); err != nil {
				t.Fatal(err)
			}
		}
		l.drain(t, f)
		for leg, hits := range l.recall(t, "before") {
			if strings.HasSuffix(leg, "Kestrel backup harbour") && len(hits) != 1 {
				t.Errorf("%s: %v", leg, hits)
			}
		}
	})
}

func TestDeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		l := newLegs(t, f)
		kept := storetest.Record("acme", "Kestrel keeps another backup in the harbour", nil)
		f.Insert(t, kept)
		for _, namespace := range []string{"acme/bot", "default"} {
			inhabit(t, f, l, namespace)
			canary := storetest.Record(namespace, "Zanzibar is where the quokka lives", func(r *record.Record) {
				r.Title, r.Tags, r.Keywords = "Quokka", []string{"quokka"}, []string{"Quokkas"}
			})
			f.Insert(t, canary)
			l.drain(t, f)
			if len(f.Holding(t, canary.ID.String())) < 4 || len(f.Holding(t, "nowhere", "okka")) < 2 {
				t.Fatalf("the helper finds too little: %v, %v", f.Holding(t, canary.ID.String()), f.Holding(t, "nowhere", "okka"))
			}
			records := dump(t, f, namespace)
			if n, err := f.Memory.DeleteNamespace(t.Context(), namespace); err != nil || n != int64(len(records)) {
				t.Fatalf("delete: %d of %d, %v", n, len(records), err)
			}
			texts := []string{"quokka", "okka", "Zanzibar", "t4", "key-7"}
			for _, r := range records {
				texts = append(texts, r.ID.String())
			}
			nothingHolds(t, f, texts...)
			if namespace != "default" { // which is also a word
				nothingHolds(t, f, namespace)
			}
			if n, err := f.Memory.DeleteNamespace(t.Context(), namespace); err != nil || n != 0 {
				t.Errorf("delete again: %d, %v", n, err)
			}
			if _, err := f.Memory.Namespace(t.Context(), namespace); !errors.Is(err, memory.ErrNotFound) {
				t.Errorf("after deletion: %v", err)
			}
			for leg, hits := range l.recall(t, namespace) {
				if len(hits) > 0 {
					t.Errorf("%s: %v", leg, hits)
				}
			}
			again := storetest.Record(namespace, "Kestrel keeps a backup in the harbour", nil)
			f.Insert(t, again)
			l.drain(t, f)
			for leg, hits := range l.recall(t, namespace) {
				if leg == "lexical: Kestrel backup harbour" && (len(hits) != 1 || hits[0].ID != again.ID) {
					t.Errorf("%s in the namespace made anew: %v", leg, hits)
				}
			}
		}
		if got := dump(t, f, "acme"); len(got) != 1 || got[0].ID != kept.ID {
			t.Errorf("another namespace has %+v", got)
		}
	})
}

func TestListNamespaces(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for _, name := range []string{"b", "a/x", "a-b", "a", "a.b", "a/x/y", "ab", "a_b", "a0"} {
			f.Insert(t, storetest.Record(name, "x", nil))
		}
		list := func(prefix, after string, n int) (names []string) {
			found, err := f.Memory.ListNamespaces(t.Context(), prefix, after, n)
			if err != nil {
				t.Fatal(err)
			}
			for _, ns := range found {
				if ns.CreatedAt.IsZero() {
					t.Errorf("%s has no time", ns.Name)
				}
				names = append(names, ns.Name)
			}
			return names
		}
		for _, c := range []struct {
			prefix, after string
			n             int
			want          []string
		}{
			{"", "", 100, []string{"a", "a-b", "a.b", "a/x", "a/x/y", "a0", "a_b", "ab", "b", "default"}},
			{"", "", 3, []string{"a", "a-b", "a.b"}},
			{"", "a.b", 3, []string{"a/x", "a/x/y", "a0"}},
			{"a/", "", 100, []string{"a/x", "a/x/y"}},
			{"a/", "a/x", 100, []string{"a/x/y"}},
			{"%", "", 100, nil},
			{"c", "", 100, nil},
		} {
			if got := list(c.prefix, c.after, c.n); !slices.Equal(got, c.want) {
				t.Errorf("prefix %q after %q: %v, want %v", c.prefix, c.after, got, c.want)
			}
		}
	})
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		if _, err := f.Memory.Namespace(t.Context(), "nowhere"); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		if ns, err := f.Memory.Namespace(t.Context(), "default"); err != nil || ns.CreatedAt.IsZero() {
			t.Errorf("default: %+v, %v", ns, err)
		}
		empty := memory.Statistics{Indexes: []queue.Backlog{{Index: "dense"}, {Index: "graph"}}}
		if st, err := f.Memory.Statistics(t.Context(), "default"); err != nil || !reflect.DeepEqual(st, empty) {
			t.Errorf("default: %+v, %v", st, err)
		}
		past := record.Now().Add(-time.Hour)
		old := storetest.Record("n", "old", func(r *record.Record) { r.ExpiresAt = past })
		f.Insert(t, old, storetest.Record("n", "newer", func(r *record.Record) { r.Supersedes = old.ID }),
			storetest.Record("n", "gone", func(r *record.Record) { r.ExpiresAt, r.Sensitive = past, true }),
			storetest.Record("n", "grün", func(r *record.Record) {
				r.Sensitive, r.Title, r.Category, r.Source = true, "t", "c", "s"
				r.Keywords, r.Tags = []string{"日", "b"}, []string{"x,y"}
			}))
		f.Insert(t, storetest.Record("other", "elsewhere", nil))
		tasks, err := f.Queue.Claim(t.Context(), "graph", 1, time.Minute)
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		if err := f.Queue.Fail(t.Context(), "graph", tasks[0], 0, true, "x"); err != nil {
			t.Fatal(err)
		}
		st, err := f.Memory.Statistics(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		for i := range st.Indexes {
			if st.Indexes[i].Lag <= 0 {
				t.Errorf("%s has no lag", st.Indexes[i].Index)
			}
			st.Indexes[i].Lag = 0
		}
		texts := len("old") + len("newer") + len("gone") + len("grün") + len("tcs") + len("日b") + len("x,y")
		want := memory.Statistics{
			Live: 2, Superseded: 1, Expired: 1, Sensitive: 2, Bytes: int64(texts + 4*len("{}")),
			Indexes: []queue.Backlog{{Index: "dense", Status: queue.Status{Pending: 2}}, {Index: "graph", Status: queue.Status{Pending: 1, Dead: 1}}},
		}
		if !reflect.DeepEqual(st, want) {
			t.Errorf("got  %+v\nwant %+v", st, want)
		}
	})
}
