package dense_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func TestOtherProcessesAreFollowed(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		writer, reader, c := mustOpen(t, f, embed.NewHashed()), mustOpen(t, f, embed.NewHashed()), corpus{}
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
		c.add(t, f, writer, "third", "nothing of the kind", nil) // in the row of the one that is gone
		c.expect(t, search(t, reader, "cello", nil), "second", "third")
	})
}

// TestDeletedNamespaceIsForgotten: vectors in memory of a deleted namespace are not found in a later one of the same name.
func TestDeletedNamespaceIsForgotten(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		seed(t, f, "ns", 1500)
		search(t, s, "soil sensor", nil)
		if n, err := f.Memory.DeleteNamespace(t.Context(), "ns"); err != nil || n != 1500 {
			t.Fatalf("deleted %d, %v", n, err)
		}
		c.add(t, f, s, "new", "soil sensor", nil)
		for range 2 {
			c.expect(t, search(t, s, "soil sensor", nil), "new")
		}
	})
}

// TestFiltersFindAll: there are as many hits as pass a filter, however many pass, and the same without memory.
func TestFiltersFindAll(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := mustOpen(t, f, embed.NewHashed())
		records := seed(t, f, "ns", 3000)
		for name, tc := range map[string]struct {
			filter record.Filter
			pass   int
		}{
			"none": {record.Filter{TagsAny: []string{"nobody"}}, 0},
			"few":  {record.Filter{TagsAny: []string{"rare"}}, 30},
			"10%":  {record.Filter{CreatedFrom: records[2700].CreatedAt}, 300},
			"half": {record.Filter{CreatedFrom: records[1500].CreatedAt}, 1500},
			"all":  {record.Filter{CreatedFrom: records[0].CreatedAt}, 3000},
			"any":  {record.Filter{}, 3000},
		} {
			for _, depth := range []int{1, 30, 1000} {
				filtered := func(q *leg.Query) { q.Depth, q.Filter = depth, tc.filter }
				hits := search(t, s, "soil sensor battery", filtered).Hits
				if want := min(depth, tc.pass); len(hits) != want {
					t.Errorf("%s, depth %d: %d hits, want %d", name, depth, len(hits), want)
				}
			}
		}
	})
}

// TestHitsBeyondTheForgotten: many of the nearest are forgotten or not live, and as many others are found.
func TestHitsBeyondTheForgotten(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := mustOpen(t, f, embed.NewHashed())
		seed(t, f, "ns", 2500)
		nearest := search(t, s, "soil sensor", asVector(t, "soil sensor", func(q *leg.Query) { q.Depth = 1000 })).Hits
		var gone []uuid.UUID
		for _, hit := range nearest[:480] {
			gone = append(gone, hit.ID)
		}
		if _, err := f.Memory.Forget(t.Context(), "ns", gone); err != nil {
			t.Fatal(err)
		}
		var want []uuid.UUID
		for i, hit := range nearest[480:] {
			if i%9 >= 4 {
				want = append(want, hit.ID)
				continue
			}
			past := `to_timestamp(1)`
			if f.Engine == schema.SQLite {
				past = `1`
			}
			f.Corrupt(t, hit.ID, `expires_at = `+past)
		}
		for _, depth := range []int{10, 30, 100} {
			hits := search(t, s, "soil sensor", asVector(t, "soil sensor", func(q *leg.Query) { q.Depth = depth })).Hits
			if got := ids(hits); !slices.Equal(got, want[:depth]) {
				t.Errorf("depth %d: got %d hits, which are not the nearest", depth, len(got))
			}
		}
	})
}

// hurried is a context whose deadline has come but which does not end, so that what it cuts short can be seen.
type hurried struct{ context.Context }

func (hurried) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// TestHitsSoFar: a search whose time is up returns what it has.
func TestHitsSoFar(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		config := replica.DefaultConfig()
		config.MaxAge = time.Minute // the database is not asked
		s, err := openWith(t, f, f.ImagesWith(t, config), embed.NewHashed())
		if err != nil {
			t.Fatal(err)
		}
		seed(t, f, "ns", 2500)
		if result := search(t, s, "soil sensor", nil); result.State > triskelev1.LegState_LEG_STATE_OK || len(result.Hits) != 10 {
			t.Errorf("with time enough: %d hits, state %v", len(result.Hits), result.State)
		}
		result, err := s.Search(hurried{t.Context()}, leg.Query{Namespace: "ns", Text: "soil sensor", Depth: 100})
		if err != nil || result.State != triskelev1.LegState_LEG_STATE_TRUNCATED || len(result.Hits) != 100 ||
			!strings.Contains(result.Reason, "only 256 of the likeliest ") || !strings.Contains(result.Reason, " of 2500 vectors were compared") {
			t.Errorf("%d hits, state %v, reason %q, error %v", len(result.Hits), result.State, result.Reason, err)
		}
	})
}

// TestNotInMemory: without memory, PostgreSQL finds the same and says FALLBACK, and SQLite finds nothing and says why.
func TestNotInMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		inMemory := mustOpen(t, f, embed.NewHashed())
		without, err := openWith(t, f, f.ImagesWith(t, replica.Config{}), embed.NewHashed())
		if err != nil {
			t.Fatal(err)
		}
		records := seed(t, f, "ns", 300)
		want := search(t, inMemory, "soil sensor", asVector(t, "soil sensor", nil))
		got := search(t, without, "soil sensor", asVector(t, "soil sensor", nil))
		if !strings.Contains(got.Reason, "too large") {
			t.Errorf("the reason is %q", got.Reason)
		}
		scores, _, err := without.(leg.Scorer).Scores(t.Context(), leg.Query{Namespace: "ns", Text: "soil sensor"}, []uuid.UUID{records[7].ID})
		if err != nil {
			t.Fatal(err)
		}
		if f.Engine == schema.SQLite {
			if got.State != triskelev1.LegState_LEG_STATE_TRUNCATED || len(got.Hits) != 0 || len(scores) != 0 {
				t.Errorf("state %v, %d hits, %d scores", got.State, len(got.Hits), len(scores))
			}
			return
		}
		if got.State != triskelev1.LegState_LEG_STATE_FALLBACK || len(scores) != 1 || !slices.Equal(ids(got.Hits), ids(want.Hits)) {
			t.Errorf("state %v, %d scores, hits\n%v, want\n%v", got.State, len(scores), got.Hits, want.Hits)
		}
	})
}

func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		config := replica.DefaultConfig()
		config.Memory = 2 // only one of the namespaces at a time
		s, err := openWith(t, f, f.ImagesWith(t, config), embed.NewHashed())
		if err != nil {
			t.Fatal(err)
		}
		records := seed(t, f, "ns", 1500)
		seed(t, f, "other", 1500)
		var wg sync.WaitGroup
		for i := range 4 {
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
	})
}
