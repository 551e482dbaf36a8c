package dense_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// other opens the fixture's file once more, as another process would.
func other(t testing.TB, f *storetest.Fixture) *dense.SQLite {
	t.Helper()
	var path string
	if err := f.DB.Read.QueryRowContext(t.Context(), `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(path, f.Tel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := dense.NewSQLite(t.Context(), db, embed.NewHashed(), f.Queue, dense.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSQLiteSeesOtherProcesses(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	writer, c := mustOpen(t, f, embed.NewHashed()), corpus{}
	reader := other(t, f)
	c.expect(t, search(t, reader, "cello", nil))
	gone := c.add(t, f, writer, "gone", "the cello lesson", nil)
	c.expect(t, search(t, reader, "cello", nil), "gone")
	c.add(t, f, writer, "second", "a cello concert in Aldermouth", nil)
	c.expect(t, search(t, reader, "cello lesson", nil), "gone", "second")
	if _, err := f.Memory.Update(t.Context(), "ns", c["second"].ID, 0, func(r *record.Record) error { r.Content = "the cello lesson is free"; return nil }); err != nil {
		t.Fatal(err)
	}
	f.Drain(t, "dense", writer)
	c.expect(t, search(t, reader, "cello lesson is free", nil), "second", "gone")
	if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{gone.ID}); err != nil {
		t.Fatal(err)
	}
	c.expect(t, search(t, reader, "cello", nil), "second")
	c.add(t, f, writer, "third", "nothing of the kind", nil)
	c.expect(t, search(t, reader, "cello", nil), "second", "third")
}

func TestSQLiteStateFollowsCascades(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := mustOpen(t, f, embed.NewHashed())
	records := seed(t, f, "ns", 2000)
	state := func() (vectors, deleted int) {
		if err := f.DB.Read.QueryRowContext(t.Context(), `SELECT vectors, deleted FROM dense_state WHERE namespace = 'ns'`).Scan(&vectors, &deleted); err != nil {
			t.Fatal(err)
		}
		return vectors, deleted
	}
	if n, deleted := state(); n != 2000 || deleted != 0 {
		t.Errorf("%d vectors, %d deleted", n, deleted)
	}
	search(t, s, "soil", nil)
	var forgotten []uuid.UUID
	for _, r := range records[:1500] {
		forgotten = append(forgotten, r.ID)
	}
	for chunk := range slices.Chunk(forgotten, 500) {
		if _, err := f.Memory.Forget(t.Context(), "ns", chunk); err != nil {
			t.Fatal(err)
		}
	}
	if n, deleted := state(); n != 500 || deleted != 1500 {
		t.Errorf("%d vectors, %d deleted", n, deleted)
	}
	result := search(t, s, "soil", func(q *leg.Query) { q.Depth = 1000 })
	if len(result.Hits) != 500 {
		t.Errorf("%d hits, want 500", len(result.Hits))
	}
	if cached := s.(*dense.SQLite).CachedVectors()["ns"]; cached != 500 {
		t.Errorf("%d vectors are kept, want the 500 that are left", cached)
	}
	if fresh := search(t, other(t, f), "soil", func(q *leg.Query) { q.Depth = 1000 }); !slices.Equal(fresh.Hits, result.Hits) {
		t.Error("a process that starts afresh finds something else")
	}
}

func TestSQLiteRefusesUpdates(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	corpus{}.add(t, f, mustOpen(t, f, embed.NewHashed()), "a", "the cello lesson", nil)
	if _, err := f.DB.Write.ExecContext(t.Context(), `UPDATE dense_vectors SET revision = 2`); err == nil {
		t.Error("a vector was updated in place, which others would not notice")
	}
}

// What a vector of 256 dimensions takes in memory: its id, code and span, and with its components and scale.
const (
	codeBytes  = 8 + 2*256/8 + 4
	wholeBytes = codeBytes + 2*256 + 4
)

func TestSQLiteBoundsItsMemory(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.SQLite)
	for i := range 4 {
		seed(t, f, fmt.Sprintf("ns%d", i), 100+i)
	}
	in := func(namespace string) func(*leg.Query) { return func(q *leg.Query) { q.Namespace = namespace } }
	want := map[string][]leg.Hit{}
	for i := range 4 {
		namespace := fmt.Sprintf("ns%d", i)
		want[namespace] = search(t, s, "soil sensor", in(namespace)).Hits
	}
	if kept := s.CachedVectors(); len(kept) != 4 {
		t.Errorf("%v are kept, want all", kept)
	}
	s.MaxBytes = 2 * 110 * wholeBytes
	for _, namespace := range []string{"ns0", "ns1", "ns2", "ns3", "ns0", "ns3"} {
		if got := search(t, s, "soil sensor", in(namespace)).Hits; !slices.Equal(got, want[namespace]) {
			t.Errorf("%s: other hits than with more memory", namespace)
		}
	}
	s.MaxBytes-- // whatever is used next evicts
	corpus{}.add(t, f, s, "x", "soil", func(r *record.Record) { r.Namespace = "ns3" })
	search(t, s, "soil sensor", in("ns3"))
	if kept := s.CachedVectors(); len(kept) > 2 || kept["ns3"] == 0 {
		t.Errorf("%v are kept, want ns3 and at most one more", kept)
	}
	// Of a namespace that does not fit the codes are kept, and if they do not fit either, it is read each time.
	rare := record.Filter{TagsAny: []string{"rare"}}
	s = other(t, f)
	s.MaxBytes = 110 * codeBytes
	for namespace := range want {
		if got := search(t, s, "soil sensor", in(namespace)).Hits; namespace != "ns3" && !slices.Equal(got, want[namespace]) {
			t.Errorf("%s: other hits with codes only", namespace)
		}
		if kept := s.CachedVectors(); len(kept) != 1 || kept[namespace] < 100 {
			t.Errorf("%v are kept, want the codes of %s", kept, namespace)
		}
	}
	s.MaxBytes = 1
	for namespace := range want {
		if namespace == "ns3" {
			continue
		}
		if got := search(t, s, "soil sensor", in(namespace)).Hits; !slices.Equal(got, want[namespace]) {
			t.Errorf("%s: other hits when it does not fit", namespace)
		}
		if got := search(t, s, "soil sensor", func(q *leg.Query) { q.Namespace, q.Filter = namespace, rare }).Hits; len(got) != 1 {
			t.Errorf("%s: %d hits with the filter, want 1", namespace, len(got))
		}
		least := want[namespace][4].Score
		if got := search(t, s, "soil sensor", func(q *leg.Query) { q.Namespace, q.MinScore = namespace, &least }).Hits; !slices.Equal(got, want[namespace][:5]) {
			t.Errorf("%s: %d hits above the fifth's score", namespace, len(got))
		}
		if kept := s.CachedVectors(); kept[namespace] != 0 {
			t.Errorf("%v are kept, want not %s", kept, namespace)
		}
	}
}

// What a process has read of a namespace that was deleted must neither be found nor be kept when one of the same name
// comes to be before it looks again.
func TestSQLiteForgetsADeletedNamespace(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.SQLite)
	seed(t, f, "ns", 1500)
	search(t, s, "soil sensor", nil)
	if n, err := f.Memory.DeleteNamespace(t.Context(), "ns"); err != nil || n != 1500 {
		t.Fatalf("deleted %d, %v", n, err)
	}
	c := corpus{}
	c.add(t, f, s, "new", "soil sensor", nil)
	for range 2 {
		c.expect(t, search(t, s, "soil sensor", nil), "new")
	}
	if kept := s.CachedVectors()["ns"]; kept != 1 {
		t.Errorf("%d vectors are kept, want 1", kept)
	}
}

// However many memories pass a filter, what is found does not depend on the way it is found.
func TestSQLiteFilters(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.SQLite)
	records := seed(t, f, "ns", 2000)
	for name, tc := range map[string]struct {
		filter record.Filter
		pass   int
	}{
		"none": {record.Filter{TagsAny: []string{"nobody"}}, 0},
		"few":  {record.Filter{TagsAny: []string{"rare"}}, 20},
		"10%":  {record.Filter{CreatedFrom: records[1800].CreatedAt}, 200},
		"half": {record.Filter{CreatedFrom: records[1000].CreatedAt}, 1000},
		"all":  {record.Filter{CreatedFrom: records[0].CreatedAt}, 2000},
	} {
		for _, depth := range []int{1, 30, 1000} {
			filtered := func(q *leg.Query) { q.Depth, q.Filter = depth, tc.filter }
			s.MaxBytes = 512 << 20
			hits := search(t, s, "soil sensor battery", filtered).Hits
			if want := min(depth, tc.pass); len(hits) != want {
				t.Errorf("%s, depth %d: %d hits, want %d", name, depth, len(hits), want)
			}
			s.MaxBytes = 1
			if streamed := search(t, s, "soil sensor battery", filtered).Hits; !slices.Equal(hits, streamed) {
				t.Errorf("%s, depth %d: other hits when they are read from the database", name, depth)
			}
		}
	}
}

// Of the likely vectors many may turn out to be deleted when they are read from the file, and others not to be live: as many are
// found all the same.
func TestSQLiteFindsBeyondDeletedVectors(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := other(t, f)
	seed(t, f, "ns", 2500)
	nearest := search(t, other(t, f), "soil sensor", func(q *leg.Query) { q.Depth = 1000 }).Hits
	s.MaxBytes = 2500 * codeBytes
	search(t, s, "soil sensor", nil)
	var gone []uuid.UUID
	for _, hit := range nearest[:480] {
		gone = append(gone, hit.ID)
	}
	if _, err := f.Memory.Forget(t.Context(), "ns", gone); err != nil {
		t.Fatal(err)
	}
	for i, hit := range nearest[480:] {
		if i%9 < 4 {
			if _, err := f.DB.Write.ExecContext(t.Context(), `UPDATE memories SET expires_at = 1 WHERE id = ?`, hit.ID[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, depth := range []int{10, 30, 100, 300} {
		if hits := search(t, s, "soil sensor", func(q *leg.Query) { q.Depth = depth }).Hits; len(hits) != depth {
			t.Errorf("%d hits, want %d", len(hits), depth)
		}
	}
}

// hurried is a context whose deadline has come but which does not end, so that what it cuts short can be seen.
type hurried struct{ context.Context }

func (hurried) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }

func TestSQLiteGivesWhatItHas(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.SQLite)
	seed(t, f, "ns", 2500)
	truncated := func(reason string, hits int) {
		t.Helper()
		result, err := s.Search(hurried{t.Context()}, leg.Query{Namespace: "ns", Text: "soil sensor", Depth: 100})
		if err != nil || result.State != triskelev1.LegState_LEG_STATE_TRUNCATED || !strings.Contains(result.Reason, reason) || len(result.Hits) != hits {
			t.Errorf("%d hits, state %v, reason %q, error %v", len(result.Hits), result.State, result.Reason, err)
		}
	}
	truncated("0 of 2500 vectors had been read", 0)
	if result := search(t, s, "soil sensor", nil); result.State > triskelev1.LegState_LEG_STATE_OK || len(result.Hits) != 10 {
		t.Errorf("with time enough: %d hits, state %v", len(result.Hits), result.State)
	}
	truncated("only 256 of the likeliest 600 of 2500 vectors were compared", 100)
	s.MaxBytes = 1
	truncated("512 vectors were compared", 100)
}

func TestSQLiteSearchesAtOnce(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := mustOpen(t, f, embed.NewHashed()).(*dense.SQLite)
	records := seed(t, f, "ns", 1500)
	seed(t, f, "other", 1500)
	s.MaxBytes = 2000 * wholeBytes // only one of the namespaces at a time
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(9, uint64(i)))
			for range 20 {
				namespace := []string{"ns", "other"}[rng.IntN(2)]
				result, err := s.Search(t.Context(), leg.Query{Namespace: namespace, Text: sentence(rng, 4), Depth: 50})
				if err != nil || len(result.Hits) != 50 || result.State > triskelev1.LegState_LEG_STATE_OK {
					t.Errorf("%d hits, %v, %v", len(result.Hits), result.State, err)
				}
			}
		})
	}
	wg.Go(func() {
		for _, r := range records[:100] {
			if err := s.Index(t.Context(), []record.Record{r}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}
