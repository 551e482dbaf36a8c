package lexical_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// exact returns the names of the hits that are marked as exact matches, in order of names.
func (c *corpus) exact(t *testing.T, text string, edit func(*leg.Query)) []string {
	t.Helper()
	var names []string
	for _, hit := range search(t, c.f, text, func(q *leg.Query) {
		if q.MarkExact = true; edit != nil {
			edit(q)
		}
	}).Hits {
		if hit.Exact {
			names = append(names, c.names[hit.ID])
		}
	}
	slices.Sort(names)
	return names
}

func TestExactMatches(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		titled := func(title string) func(*record.Record) { return func(r *record.Record) { r.Title = title } }
		c.add(t, "content", "Owls sleep, by day.", nil)
		c.add(t, "title", "They hunt when it is dark", titled("Owls sleep by day"))
		c.add(t, "more", "Owls sleep by day and by night", titled("Owls"))
		c.add(t, "stems", "owl sleeping by days", nil)
		c.add(t, "accents", "Café Łódź", nil)
		c.add(t, "chinese", "上海的天气", nil)
		other := storetest.Record("other", "owls sleep by day", nil)
		f.Insert(t, other)
		for text, want := range map[string][]string{
			"owls sleep by day":                    {"content", "title"},
			"  OWLS -- sleep by day?!":             {"content", "title"},
			"owls":                                 {"more"},
			"owls sleep":                           nil,
			"owls sleep by day and":                nil,
			"sleep owls by day":                    nil,
			`is it true that "owls sleep by day"?`: {"content", "title"},
			`"owls sleep by day and by night" or “owls sleep by day”`: {"content", "more", "title"},
			"is it true that owls sleep by day":                       nil,
			"cafe lodz":                                               {"accents"},
			"上海的天气":                                                   {"chinese"},
			"上海的天气好":                                                  nil,
		} {
			if got := c.exact(t, text, nil); !slices.Equal(got, want) {
				t.Errorf("%q marks %q, want %q", text, got, want)
			}
			if got := c.exact(t, text, byRank); !slices.Equal(got, want) {
				t.Errorf("%q by ts_rank marks %q, want %q", text, got, want)
			}
		}
		if got := c.exact(t, "owls sleep by day", func(q *leg.Query) { q.MarkExact = false }); got != nil {
			t.Errorf("unasked, %q are marked", got)
		}
		if got := c.exact(t, "owls sleep by day", func(q *leg.Query) { q.Filter.CreatedFrom = c.records["title"].CreatedAt }); !slices.Equal(got, []string{"title"}) {
			t.Errorf("with a filter, %q are marked", got)
		}

		// The hashes follow the texts.
		if _, err := f.Memory.Update(t.Context(), "ns", c.records["content"].ID, 0, func(r *record.Record) error { r.Content = "Owls see by day"; return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{c.records["title"].ID}); err != nil {
			t.Fatal(err)
		}
		if got := c.exact(t, "owls sleep by day", nil); got != nil {
			t.Errorf("after they changed and went, %q are marked", got)
		}
		if got := c.exact(t, "owls see by day", nil); !slices.Equal(got, []string{"content"}) {
			t.Errorf("after it changed, %q are marked", got)
		}
	})
}

// TestExactBeyondTheDepth: an exact match that others outrank is among the hits, at its place by score.
func TestExactBeyondTheDepth(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		for i := range 30 {
			c.add(t, fmt.Sprint("louder ", i), "deploy freeze deploy freeze", nil)
		}
		c.add(t, "titled", strings.Repeat("nobody may ship on a Friday whatever the reason ", 20), func(r *record.Record) { r.Title = "Deploy freeze" })
		for _, edit := range []func(*leg.Query){nil, byRank, func(q *leg.Query) { q.Depth = 1 }} {
			if got := c.exact(t, "deploy freeze", edit); !slices.Equal(got, []string{"titled"}) {
				t.Errorf("%q are marked", got)
			}
		}
		hits := search(t, f, "deploy freeze", func(q *leg.Query) { q.MarkExact = true }).Hits
		if last := hits[len(hits)-1]; len(hits) != 10 || !last.Exact || last.Score <= 0 || last.Score >= hits[8].Score || last.CreatedAt.Location() != time.UTC {
			t.Errorf("the last of %d hits is %+v", len(hits), last)
		}
		if got := c.exact(t, "deploy freeze", func(q *leg.Query) { q.MinScore = &hits[0].Score }); got != nil {
			t.Errorf("below the least score, %q are marked", got)
		}
		for range 12 {
			c.add(t, "equal", strings.Repeat("somebody else's words about it ", 30), func(r *record.Record) { r.Title = "Deploy freeze" })
		}
		if got := c.exact(t, "deploy freeze", nil); len(got) != 8 {
			t.Errorf("%d of 13 exact matches displace hits, want 8", len(got))
		}
		if got := c.exact(t, "deploy freeze", func(q *leg.Query) { q.Depth, q.Scorer = 100, triskelev1.Scorer_SCORER_BM25 }); len(got) != 13 {
			t.Errorf("%d of 13 exact matches are marked", len(got))
		}
	})
}
