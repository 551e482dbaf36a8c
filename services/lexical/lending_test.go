package lexical_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// turn puts a record into a thread.
func turn(thread string, position int64, edit func(*record.Record)) func(*record.Record) {
	return func(r *record.Record) {
		r.Thread, r.Position = thread, &position
		if edit != nil {
			edit(r)
		}
	}
}

func borrowing(q *leg.Query) { q.Borrow = 1 }

// hit returns a named hit of a search.
func (c *corpus) hit(t *testing.T, result leg.Result, name string) leg.Hit {
	t.Helper()
	i := slices.IndexFunc(result.Hits, func(h leg.Hit) bool { return c.names[h.ID] == name })
	if i < 0 {
		t.Fatalf("%s was not found", name)
	}
	return result.Hits[i]
}

func TestNeighboursLend(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "question", "Where did Ottilie buy the cello?", turn("talk", 1, nil))
		c.add(t, "answer", "In Aldermouth, at the harbour, last winter", turn("talk", 2, nil))
		c.add(t, "next", "It sounds wonderful", turn("talk", 3, nil))
		c.add(t, "alone", "Ottilie walks along the harbour of Aldermouth", nil)
		c.add(t, "other", "A cello needs rosin", turn("another talk", 3, nil))
		const text = "cello harbour"
		c.expect(t, text, nil, "other", "question", "answer", "alone")
		found := c.expect(t, text, borrowing, "answer", "question", "other", "next", "alone")

		own := search(t, f, text, nil)
		for _, hit := range found.Hits {
			name := c.names[hit.ID]
			if name == "next" {
				if hit.Own != 0 || hit.Score <= 0 {
					t.Errorf("next: got %+v, want nothing of its own", hit)
				}
				continue
			}
			if before := c.hit(t, own, name); hit.Own != before.Score || before.Own != before.Score {
				t.Errorf("%s: got %v of its own, want %v", name, hit.Own, before.Score)
			}
			if lent := hit.Score > hit.Own; lent != (name == "question" || name == "answer") {
				t.Errorf("%s: got %v, of its own %v", name, hit.Score, hit.Own)
			}
		}
		ids := []uuid.UUID{c.records["answer"].ID, c.records["next"].ID, c.records["alone"].ID}
		scores, _, err := searcher(t, f).Scores(t.Context(), leg.Query{Namespace: "ns", Text: text, Borrow: 1}, ids)
		if err != nil || len(scores) != len(ids) {
			t.Fatalf("scores: %v, %v", scores, err)
		}
		for _, score := range scores {
			if hit := c.hit(t, found, c.names[score.ID]); score.Score != hit.Score || score.Own != hit.Own {
				t.Errorf("%s: got %+v alone, %+v in a search", c.names[score.ID], score, hit)
			}
		}
		least := c.hit(t, found, "answer").Own
		c.expect(t, text, func(q *leg.Query) { q.Borrow, q.MinScore = 1, &least }, "answer", "question", "other")
	})
}

// TestShareOfAWord checks the amount for a single word: a neighbour that has it lends 0.6 of the most, less what is there.
func TestShareOfAWord(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "has", "cello lesson", turn("talk", 1, nil))
		c.add(t, "lacks", "school lesson", turn("talk", 2, nil))
		for _, name := range []string{"one", "two", "three"} {
			c.add(t, name, "boat lesson", nil)
		}
		found := search(t, f, "cello", borrowing)
		has, lacks := c.hit(t, found, "has"), c.hit(t, found, "lacks")
		if has.Score != has.Own || math.Abs(lacks.Score-.6*has.Own) > 1e-9 {
			t.Errorf("got %v and %v, want the second to be 0.6 of the first", has.Score, lacks.Score)
		}
	})
}

// TestLengthInThreads: the words around a memory complete it, so a long turn loses less to a short one than a long note does.
func TestLengthInThreads(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		for name, rest := range map[string]string{"short": "", "long": strings.Repeat(" lesson", 40)} {
			c.add(t, name+" note", "cello"+rest, nil)
			c.add(t, name+" turn", "cello"+rest, turn(name, 1, nil))
			c.add(t, name+" next", "harbour", turn(name, 2, nil))
			c.add(t, name+" alone", "cello"+rest, turn(name+" alone", 1, nil)) // has no words around
		}
		found := search(t, f, "cello", borrowing)
		share := func(kind string) float64 {
			return c.hit(t, found, "long "+kind).Score / c.hit(t, found, "short "+kind).Score
		}
		if note, turn, alone := share("note"), share("turn"), share("alone"); note > 0.5 || turn < 0.9 || alone != note {
			t.Errorf("a long memory has %v of a short one's score, %v in a thread, and %v alone in one, want at most 0.5, at least 0.9 and as the first", note, turn, alone)
		}
		var others []uuid.UUID
		for _, kind := range []string{"short note", "long note", "short alone", "long alone"} {
			others = append(others, c.records[kind].ID)
		}
		if _, err := f.Memory.Forget(t.Context(), "ns", others); err != nil {
			t.Fatal(err)
		}
		found = search(t, f, "cello", borrowing)
		if turn := share("turn"); len(found.Hits) != 4 || turn < 0.85 {
			t.Errorf("where all are in threads, %d are found, and a long turn has %v of a short one's score, want 4 and at least 0.85", len(found.Hits), turn)
		}
	})
}

// TestBoundInThreads: a long turn may score more than a long note could, and the search does not leave it out for that.
func TestBoundInThreads(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		for i := range 40 {
			c.add(t, fmt.Sprint("short ", i), "boat", nil)
		}
		for i := range 20 {
			tag := []string(nil)
			if i < 2 {
				tag = []string{"few"}
			}
			long := "cello" + strings.Repeat(" lesson", 80-10*min(i, 1)) // the first is the longest, so the second is the best
			c.add(t, fmt.Sprint("long ", i), long, turn(fmt.Sprint("talk ", i/2), int64(i), func(r *record.Record) { r.Tags = tag }))
		}
		found := search(t, f, "cello", func(q *leg.Query) { q.Depth, q.Filter.TagsAny = 1, []string{"few"} })
		if len(found.Hits) != 1 || c.names[found.Hits[0].ID] != "long 1" {
			t.Errorf("got %+v, want the second", found.Hits)
		}
	})
}

// TestWhoLendsNothing hides a neighbour in every way there is. The answer then scores what it scores alone.
func TestWhoLendsNothing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for name, hide := range map[string]func(t *testing.T, id uuid.UUID){
			"filtered": nil,
			"expired": func(t *testing.T, id uuid.UUID) {
				update(t, f, id, func(r *record.Record) { r.ExpiresAt = time.Now().Add(-time.Hour) })
			},
			"superseded": func(t *testing.T, id uuid.UUID) {
				if _, _, err := f.Memory.Supersede(t.Context(), id, 0, storetest.Record("ns", "nothing of that", nil)); err != nil {
					t.Fatal(err)
				}
			},
			"forgotten": func(t *testing.T, id uuid.UUID) {
				if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{id}); err != nil {
					t.Fatal(err)
				}
			},
		} {
			c := newCorpus(f)
			thread := "talk " + name
			c.add(t, "question", "Which zither "+name+"?", turn(thread, 1, nil))
			c.add(t, "answer", "The one at the harbour "+name, turn(thread, 2, func(r *record.Record) { r.Tags = []string{name} }))
			text := "zither harbour " + name
			edit := borrowing
			if hide == nil {
				edit = func(q *leg.Query) { q.Borrow, q.Filter.TagsAny = 1, []string{name} }
			} else {
				if lent := c.hit(t, search(t, f, text, borrowing), "answer"); lent.Score <= lent.Own {
					t.Errorf("%s: nothing was lent before: %+v", name, lent)
				}
				hide(t, c.records["question"].ID)
			}
			if got := c.hit(t, search(t, f, text, edit), "answer"); got.Score != got.Own {
				t.Errorf("%s: got %v, of its own %v", name, got.Score, got.Own)
			}
		}
	})
}

func update(t *testing.T, f *storetest.Fixture, id uuid.UUID, change func(*record.Record)) {
	t.Helper()
	if _, err := f.Memory.Update(t.Context(), "ns", id, 0, func(r *record.Record) error {
		change(r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestNoThreadNoChange compares searches that may borrow with those that may not, in a namespace without threads.
func TestNoThreadNoChange(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		for i, text := range []string{"a cello and a boat", "the boat of the school", "cello cello boat", "harbour"} {
			c.add(t, string(rune('a'+i)), text, nil)
		}
		for _, text := range []string{"cello boat", `"the boat"`, "harbour school"} {
			with, without := search(t, f, text, borrowing), search(t, f, text, nil)
			if !slices.Equal(with.Hits, without.Hits) {
				t.Errorf("%s: got %+v, want %+v", text, with.Hits, without.Hits)
			}
		}
	})
}

// TestManyHits has one thread among 60 memories that are in none: as many hits are found as without lending.
func TestManyHits(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		for i := range 60 {
			c.add(t, fmt.Sprint("alone ", i), "cello"+strings.Repeat(" boat", i), nil)
		}
		c.add(t, "turn", "cello and a boat and a harbour", turn("talk", 1, nil))
		c.add(t, "next", "yes", turn("talk", 2, nil))
		deep := func(borrow float64) []leg.Hit {
			return search(t, f, "cello", func(q *leg.Query) { q.Borrow, q.Depth = borrow, 50 }).Hits
		}
		without, with := deep(0), deep(1)
		if len(with) != 50 || !slices.IsSortedFunc(with, leg.CompareHits) {
			t.Fatalf("got %d hits, want 50 in order", len(with))
		}
		with = slices.DeleteFunc(with, func(h leg.Hit) bool { return c.names[h.ID] == "next" })
		if !slices.Equal(with, without[:len(with)]) {
			t.Errorf("got other hits than without lending, besides the neighbour:\n%+v\n%+v", with, without)
		}
	})
}
