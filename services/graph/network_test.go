package graph_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// both runs a subtest with each traversal.
func both(t *testing.T, fn func(t *testing.T, q leg.Query)) {
	t.Helper()
	for _, traversal := range []triskelev1.Traversal{triskelev1.Traversal_TRAVERSAL_HOP_DECAY, triskelev1.Traversal_TRAVERSAL_PAGERANK} {
		t.Run(traversal.String(), func(t *testing.T) { fn(t, leg.Query{Traversal: traversal}) })
	}
}

// find returns what a search finds, as the first words of the memories.
func find(t *testing.T, f *storetest.Fixture, s leg.Searcher, q leg.Query) string {
	t.Helper()
	var out []string
	for _, h := range search(t, s, q).Hits {
		records, err := f.Memory.Get(t.Context(), ns, []uuid.UUID{h.ID})
		if err != nil || len(records) != 1 {
			t.Fatalf("%v, %v", records, err)
		}
		out = append(out, strings.Fields(records[0].Content)[0])
	}
	return strings.Join(out, " ")
}

func ranked(text string) leg.Query {
	return leg.Query{Text: text, Traversal: triskelev1.Traversal_TRAVERSAL_PAGERANK}
}

func TestPageRank(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		one := storetest.Record(ns, "one: yesterday Teo repaired the hull of Kittiwake.", nil)
		two := storetest.Record(ns, "two: it was seen that Kittiwake lies in Aldermouth.", nil)
		three := storetest.Record(ns, "three: we know that Aldermouth floods.", nil)
		other := storetest.Record(ns, "other: we ordered paper from Brackwater.", nil)
		page := storetest.Record(ns, "page: a boat", func(r *record.Record) { r.Title = "Kittiwake" })
		f.Insert(t, one, two, three, other)
		f.Drain(t, "graph", s)
		if got := find(t, f, s, ranked("what does Teo do")); got != "one: two: three:" {
			t.Errorf("found %s", got)
		}
		f.Insert(t, page)
		f.Drain(t, "graph", s)
		if got := find(t, f, s, ranked("Kittiwake")); got != "page: two: one: three:" && got != "page: one: two: three:" {
			t.Errorf("a page of its own comes first, and the network catches up: found %s", got)
		}
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{two.ID}); err != nil {
			t.Fatal(err)
		}
		if got := find(t, f, s, ranked("Teo")); got != "one: page:" {
			t.Errorf("without the bridge: found %s", got)
		}
		if result := search(t, s, ranked("Teo")); result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_PAGERANK || result.State != triskelev1.LegState_LEG_STATE_UNSPECIFIED {
			t.Errorf("%+v", result)
		}
		if result := search(t, s, ranked("What Is The Plan For Q3")); result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
			t.Errorf("%+v", result)
		}
	})
}

func TestNearlyNamed(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		boat := storetest.Record(ns, "boat: yesterday Teo repaired the Kittiwake.", nil)
		quarter := storetest.Record(ns, "quarter: the plan of Report-Q2 is bold", nil)
		f.Insert(t, boat, quarter)
		f.Drain(t, "graph", s)
		for text, want := range map[string]string{
			"where is the kitiwake": "boat:", "where is the kite": "", "Report-Q3": "", "Report-Q2": "quarter:", "What Is The Plan For Q3": "",
		} {
			if got := find(t, f, s, ranked(text)); got != want {
				t.Errorf("%q found %q, want %q", text, got, want)
			}
		}
		again := storetest.Record(ns, "again: we lie in Brackwater.", nil)
		index(t, f, s, again)
		find(t, f, s, ranked("Brackwater")) // which takes it in
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{again.ID}); err != nil {
			t.Fatal(err)
		}
		if got := find(t, f, s, ranked("brakwater")); got != "" {
			t.Errorf("a forgotten name finds %q", got)
		}
		index(t, f, s, storetest.Record(ns, "anew: they lie in Brackwater.", nil))
		if got := find(t, f, s, ranked("brakwater")); got != "anew:" {
			t.Errorf("a name that is back finds %q", got)
		}
	})
}

func TestAliases(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		named := storetest.Record(ns, "named: the Harbour Defence Union (HDU) met.", func(r *record.Record) { r.Title = "Harbour Defence Union" })
		short := storetest.Record(ns, "short: in spring the HDU hired Teo.", nil)
		long := storetest.Record(ns, "long: they say the Harbour Defence Union sold a boat.", nil)
		f.Insert(t, named, short, long)
		f.Drain(t, "graph", s)
		for _, text := range []string{"who is in the HDU", "Harbour Defence Union"} {
			if got := strings.Fields(find(t, f, s, ranked(text))); len(got) != 3 {
				t.Errorf("%q found %s", text, got)
			}
		}
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{named.ID}); err != nil {
			t.Fatal(err)
		}
		if got := find(t, f, s, ranked("HDU")); got != "short:" {
			t.Errorf("nobody says what HDU is any more: found %s", got)
		}
	})
}

func put(t *testing.T, s *graph.Leg, facts ...graph.Fact) {
	t.Helper()
	if n, err := s.PutFacts(t.Context(), ns, facts); err != nil || n != len(facts) {
		t.Fatalf("stored %d of %d facts: %v", n, len(facts), err)
	}
}

// TestFactsReplaceEachOther: of a relation with one object at a time the newest fact holds, whatever came in first, and an
// older one holds again when the newer one's evidence is gone.
func TestFactsReplaceEachOther(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		say := func(content string, months int) record.Record {
			return storetest.Record(ns, content, func(r *record.Record) { r.OccurredAt = at.AddDate(0, months, 0) })
		}
		old, current := say("old: he moved", 0), say("new: he moved again", 2)
		brack, kessel := say("brack: the rain of Brackwater", 0), say("kessel: the sun of Kessel", 0)
		f.Insert(t, old, current, brack, kessel)
		f.Drain(t, "graph", s)
		put(t, s,
			graph.Fact{Memory: current.ID, Subject: "Teo", Relation: "Lives in", Object: "Kessel", Single: true},
			graph.Fact{Memory: old.ID, Subject: "Teo", Relation: "lives in", Object: "Brackwater", Single: true})
		both(t, func(t *testing.T, q leg.Query) {
			q.Text = "where does Teo live"
			if got := find(t, f, s, q); got != "new: kessel:" {
				t.Errorf("now: found %s", got)
			}
			q.AsOf = at.AddDate(0, 1, 0)
			if got := find(t, f, s, q); got != "old: brack:" {
				t.Errorf("before: found %s", got)
			}
			q.AsOf = time.Time{}
			q.Filter.IncludeSuperseded = true
			if got := strings.Fields(find(t, f, s, q)); !slices.Contains(got, "old:") {
				t.Errorf("with what is superseded: found %s", got)
			}
		})
		if _, err := f.Memory.Update(t.Context(), ns, current.ID, 0, func(r *record.Record) error { r.Importance = 0.9; return nil }); err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "graph", s)
		if got := find(t, f, s, ranked("Teo")); got != "new: kessel:" {
			t.Errorf("indexed again: found %s", got)
		}
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{current.ID}); err != nil {
			t.Fatal(err)
		}
		both(t, func(t *testing.T, q leg.Query) {
			q.Text = "Teo"
			if got := find(t, f, s, q); got != "old: brack:" {
				t.Errorf("its closing is forgotten: found %s", got)
			}
		})
		consistent(t, f)
	})
}

func TestFactsEnd(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		job := storetest.Record(ns, "job: a job", func(r *record.Record) { r.OccurredAt = at })
		f.Insert(t, job)
		f.Drain(t, "graph", s)
		put(t, s, graph.Fact{Memory: job.ID, Subject: "Teo", Relation: "works for", Object: "Fenwright", From: at, To: at.AddDate(0, 2, 0)})
		both(t, func(t *testing.T, q leg.Query) {
			q.Text = "Fenwright"
			if got := find(t, f, s, q); got != "" {
				t.Errorf("now: found %s", got)
			}
			q.AsOf = at.AddDate(0, 1, 0)
			if got := find(t, f, s, q); got != "job:" {
				t.Errorf("then: found %s", got)
			}
			q.AsOf = at.AddDate(0, -1, 0)
			if got := find(t, f, s, q); got != "" {
				t.Errorf("before: found %s", got)
			}
		})
	})
}

// A fact whose end, or that of its memory, is still to come holds, and replaces another one until then.
func TestFactThatWillEnd(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		now := record.Now()
		before, job := storetest.Record(ns, "before", nil), storetest.Record(ns, "job", nil)
		loan := storetest.Record(ns, "loan", func(r *record.Record) { r.ExpiresAt = now.Add(-time.Hour) })
		f.Insert(t, before, job, loan)
		f.Drain(t, "graph", s)
		put(t, s,
			graph.Fact{Memory: before.ID, Subject: "Teo", Relation: "works for", Object: "Brackwater", Single: true, From: now.AddDate(-3, 0, 0)},
			graph.Fact{Memory: job.ID, Subject: "Teo", Relation: "works for", Object: "Fenwright", Single: true, From: now.AddDate(-2, 0, 0), To: now.AddDate(1, 0, 0)},
			graph.Fact{Memory: loan.ID, Subject: "Teo", Relation: "works for", Object: "Aldermouth", Single: true, From: now.AddDate(-1, 0, 0)})
		searchers := map[string]leg.Searcher{"in memory": s}
		if f.Engine == schema.Postgres {
			searchers["in SQL"] = inSQL{s}
		}
		for where, s := range searchers {
			both(t, func(t *testing.T, q leg.Query) {
				q.Text = "Teo"
				if got := find(t, f, s, q); got != "job" {
					t.Errorf("%s, now: found %s, want job", where, got)
				}
				q.AsOf = now.AddDate(2, 0, 0)
				if got := find(t, f, s, q); got != "before" {
					t.Errorf("%s, after the end: found %s, want before", where, got)
				}
			})
		}
	})
}

// A superseded memory holds until its successor was created, whatever is changed of it afterwards, whichever is stored first, and whether the
// successor is forgotten.
func TestSupersededHoldUntilTheirSuccessors(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		replaced := time.Date(1969, 3, 1, 0, 0, 0, 0, time.UTC)
		pair := func(name string) (old, current record.Record) {
			titled := func(r *record.Record) { r.Title = "Kittiwake" }
			old, current = storetest.Record(ns, name+"-then", titled), storetest.Record(ns, name+"-now", titled)
			old.CreatedAt, old.UpdatedAt = replaced.AddDate(-1, 0, 0), replaced.AddDate(-1, 0, 0)
			current.CreatedAt, current.UpdatedAt, current.Supersedes = replaced, replaced, old.ID
			return old, current
		}
		first, second := pair("changed")
		late, early := pair("late")
		f.Insert(t, first, early)
		f.Insert(t, late, second)
		if _, err := f.Memory.Update(t.Context(), ns, first.ID, 0, func(r *record.Record) error { r.Importance = 0.9; return nil }); err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "graph", s)
		searchers := map[string]leg.Searcher{"in memory": s}
		if f.Engine == schema.Postgres {
			searchers["in SQL"] = inSQL{s}
		}
		expected := func(current string) {
			for where, s := range searchers {
				both(t, func(t *testing.T, q leg.Query) {
					q.Text = "Kittiwake"
					for at, want := range map[time.Time]string{
						replaced.AddDate(-2, 0, 0): "", replaced.AddDate(0, -1, 0): "changed-then late-then", replaced: current, replaced.AddDate(0, 1, 0): current,
					} {
						q.AsOf = at
						got := strings.Fields(find(t, f, s, q))
						slices.Sort(got)
						if strings.Join(got, " ") != want {
							t.Errorf("%s, as of %s: found %v, want %s", where, at.Format(time.DateOnly), got, want)
						}
					}
				})
			}
		}
		expected("changed-now late-now")
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{second.ID, early.ID}); err != nil {
			t.Fatal(err)
		}
		expected("")
	})
}

// What a text says by itself is no triple: where the triples are imported, it would outlast that text.
func TestTriplesLeaveOutTheTexts(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		r := storetest.Record(ns, "We use a Harbour Dredging Unit (HDU).", nil)
		f.Insert(t, r)
		f.Drain(t, "graph", s)
		put(t, s, graph.Fact{Memory: r.ID, Subject: "Dredger", Relation: graph.AliasRelation, Object: "Harbour Dredging Unit"})
		view, err := s.View(t.Context(), ns)
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		if concept, _ := view.Concept("Harbour Dredging Unit"); len(concept.Aliases) != 2 {
			t.Errorf("got the aliases %v, want both", concept.Aliases)
		}
		if got := view.Triples(); len(got) != 1 || got[0].Subject != "Dredger" {
			t.Errorf("got %v, want the imported fact", got)
		}
	})
}

// A fact is shown as ended when its memory expires, unless its source says that it ended before.
func TestFactsEndWithTheirMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		now := record.Now()
		r := storetest.Record(ns, "a loan", func(r *record.Record) { r.ExpiresAt = now.AddDate(1, 0, 0) })
		f.Insert(t, r)
		f.Drain(t, "graph", s)
		put(t, s,
			graph.Fact{Memory: r.ID, Subject: "Teo", Relation: "plays for", Object: "Aldermouth"},
			graph.Fact{Memory: r.ID, Subject: "Teo", Relation: "plays in", Object: "Kessel", To: now.AddDate(0, 6, 0)},
			graph.Fact{Memory: r.ID, Subject: "Teo", Relation: "belongs to", Object: "Brackwater", To: now.AddDate(2, 0, 0)})
		view, err := s.View(t.Context(), ns)
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		ends := map[string]time.Time{"Aldermouth": r.ExpiresAt, "Kessel": now.AddDate(0, 6, 0), "Brackwater": r.ExpiresAt}
		for _, got := range view.Triples() {
			if want := ends[got.Object]; !got.To.Equal(want) {
				t.Errorf("%s: got the end %v, want %v", got.Object, got.To, want)
			}
			delete(ends, got.Object)
		}
		if len(ends) > 0 {
			t.Errorf("lacking are %v", ends)
		}
	})
}

// An end at 1970 is one, and so is a search of that time: what counts from there has 0 for it.
func TestFactThatEndedAt1970(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		end := time.Unix(0, 0).UTC()
		r := storetest.Record(ns, "chronicle", func(r *record.Record) { r.OccurredAt = end.AddDate(-10, 0, 0) })
		f.Insert(t, r)
		f.Drain(t, "graph", s)
		put(t, s, graph.Fact{Memory: r.ID, Subject: "Orsolya", Relation: "is mayor of", Object: "Kittiwake", From: end.AddDate(-10, 0, 0), To: end})
		expect(t, s, leg.Query{Text: "Orsolya"})
		expect(t, s, leg.Query{Text: "Orsolya", AsOf: end.AddDate(-1, 0, 0)}, r)
		expect(t, s, leg.Query{Text: "Orsolya", AsOf: end})
		put(t, s, graph.Fact{Memory: r.ID, Subject: "Piroska", Relation: "is mayor of", Object: "Kittiwake", From: end.AddDate(-10, 0, 0), To: end.AddDate(1, 0, 0)})
		expect(t, s, leg.Query{Text: "Piroska"})
		expect(t, s, leg.Query{Text: "Piroska", AsOf: end}, r)
	})
}

func TestFactsAreKeptOut(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		secret := storetest.Record(ns, "a secret", func(r *record.Record) { r.Sensitive = true })
		plain := storetest.Record(ns, "plain: a note", nil)
		f.Insert(t, secret, plain)
		f.Drain(t, "graph", s)
		fact := graph.Fact{Memory: secret.ID, Subject: "Canarywharf", Relation: "opens", Object: "Xyzzy"}
		n, err := s.PutFacts(t.Context(), ns, []graph.Fact{fact, {Memory: uuid.New(), Subject: "A", Relation: "r", Object: "B"}})
		if n != 0 || err != nil || len(f.Holding(t, "Canarywharf")) != 0 {
			t.Errorf("stored %d, %v, %v", n, err, f.Holding(t, "Canarywharf"))
		}
		for _, bad := range []graph.Fact{
			{Memory: plain.ID, Subject: "", Relation: "r", Object: "B"}, {Memory: plain.ID, Subject: "A", Relation: strings.Repeat("r", 257), Object: "B"},
			{Memory: plain.ID, Subject: "A", Relation: "co-mention", Object: "B"},
		} {
			if _, err := s.PutFacts(t.Context(), ns, []graph.Fact{bad}); err == nil {
				t.Errorf("stored %+v", bad)
			}
		}
		fact.Memory = plain.ID
		put(t, s, fact)
		if got := find(t, f, s, ranked("Canarywharf")); got != "plain:" {
			t.Errorf("found %s", got)
		}
		if _, err := f.Memory.Update(t.Context(), ns, plain.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if left := f.Holding(t, "Canarywharf"); len(left) != 0 {
			t.Errorf("left in %v", left)
		}
		if result := search(t, s, ranked("Canarywharf")); result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
			t.Errorf("the copy in memory still knows it: %+v", result)
		}
	})
}

func TestRelationsCount(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		a, b := bare(0.5), bare(0.5)
		f.Insert(t, a, b)
		f.Drain(t, "graph", s)
		put(t, s, graph.Fact{Memory: a.ID, Subject: "Acme", Relation: "founded by", Object: "Teo"}, graph.Fact{Memory: b.ID, Subject: "Acme", Relation: "advised by", Object: "Maren"})
		expectFirst := func(text string, want record.Record) {
			t.Helper()
			if hits := search(t, s, ranked(text)).Hits; len(hits) != 2 || hits[0].ID != want.ID {
				t.Errorf("%q: %+v", text, hits)
			}
		}
		expectFirst("who is the founder of Acme", a)
		expectFirst("who advises Acme", b)
	})
}

func TestPaths(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		one := storetest.Record(ns, "yesterday Teo repaired the Kittiwake.", func(r *record.Record) { r.Keywords = []string{"Teo"} }) // somebody says that he is one
		two := storetest.Record(ns, "it was seen that Kittiwake lies here", nil)
		three := bare(0.5)
		two.Links = []record.Link{{Target: three.ID, Relation: "cites"}}
		f.Insert(t, one, two, three)
		f.Drain(t, "graph", s)
		q := ranked("Teo")
		q.Explain = true
		result := search(t, s, q)
		hits := result.Hits
		if len(hits) != 3 || len(result.Paths) != 3 {
			t.Fatalf("%+v", result)
		}
		want := []leg.Step{{Concept: "Teo"}, {Relation: "mentioned in", Memory: one.ID}, {Relation: "mentions", Concept: "Kittiwake"},
			{Relation: "mentioned in", Memory: two.ID}, {Relation: "cites", Memory: three.ID}}
		for i, n := range []int{2, 4, 5} {
			if !slices.Equal(result.Paths[i], want[:n]) {
				t.Errorf("hit %d: %+v, want %+v", i, result.Paths[i], want[:n])
			}
		}
		if hits[0].Concepts != 1 || hits[1].Concepts != 0 {
			t.Errorf("%+v", hits)
		}
	})
}

// TestPathsOfHops: so does a walk by hop decay, in memory and in SQL.
func TestPathsOfHops(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := openWith(f, graph.Config{})
		searchers := []leg.Searcher{s}
		if f.Engine == schema.Postgres {
			searchers = append(searchers, inSQL{s})
		}
		page := storetest.Record(ns, "a page of his own", func(r *record.Record) { r.Title = "Teo" })
		both := storetest.Record(ns, "yesterday Teo repaired the Kittiwake.", nil)
		ship := storetest.Record(ns, "it was seen that Kittiwake lies here", nil)
		cited, citing, owned := bare(0.5), bare(0.5), bare(0.5)
		ship.Links = []record.Link{{Target: cited.ID, Relation: "cites"}}
		citing.Links = []record.Link{{Target: page.ID, Relation: "cites"}}
		f.Insert(t, page, both, ship, cited, citing, owned)
		f.Drain(t, "graph", s)
		put(t, s, graph.Fact{Memory: owned.ID, Subject: "Aldermouth Mill", Relation: "owned by", Object: "Teo"})
		mill := storetest.Record(ns, "the Aldermouth Mill stands still", nil)
		f.Insert(t, mill)
		f.Drain(t, "graph", s)
		teo, kittiwake := leg.Step{Concept: "Teo"}, leg.Step{Relation: "mentioned with", Concept: "Kittiwake"}
		want := map[uuid.UUID][]leg.Step{
			page.ID:   {teo, {Relation: "title of", Memory: page.ID}},
			both.ID:   {teo, {Relation: "mentioned in", Memory: both.ID}},
			ship.ID:   {teo, kittiwake, {Relation: "mentioned in", Memory: ship.ID}},
			cited.ID:  {teo, kittiwake, {Relation: "mentioned in", Memory: ship.ID}, {Relation: "cites", Memory: cited.ID}},
			citing.ID: {teo, {Relation: "title of", Memory: page.ID}, {Relation: "linked from", Memory: citing.ID}},
			owned.ID:  {teo, {Relation: "mentioned in", Memory: owned.ID}},
			mill.ID:   {teo, {Relation: "is owned by of", Concept: "Aldermouth Mill"}, {Relation: "mentioned in", Memory: mill.ID}},
		}
		for traversal, s := range searchers {
			q := leg.Query{Namespace: ns, Text: "Teo", Depth: 10, Traversal: triskelev1.Traversal_TRAVERSAL_HOP_DECAY}
			if plain := search(t, s, q); len(plain.Paths) > 0 {
				t.Errorf("%v: nobody asked for %+v", traversal, plain.Paths)
			}
			q.Explain = true
			result := search(t, s, q)
			if len(result.Hits) != len(want) || len(result.Paths) != len(want) || result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY {
				t.Fatalf("%v: %+v", traversal, result)
			}
			for i, h := range result.Hits {
				if !slices.Equal(result.Paths[i], want[h.ID]) {
					t.Errorf("%v: %+v, want %+v", traversal, result.Paths[i], want[h.ID])
				}
			}
		}
	})
}

// TestNetworksAgree: both engines give the same order and scores by PageRank, whether a network was read at once or has
// followed its memories one change after the other, forgotten ones included.
func TestNetworksAgree(t *testing.T) {
	var results [2][2][]leg.Result
	for i, f := range []*storetest.Fixture{storetest.Postgres(t), storetest.SQLite(t)} {
		config := graph.Config{}
		config.Embedder = embed.NewHashed()
		following := openWith(f, config)
		records := world(1, 200)
		for batch := range slices.Chunk(records, 40) {
			f.Insert(t, batch...)
			f.Drain(t, "graph", following)
			put(t, following, graph.Fact{Memory: batch[0].ID, Subject: "Name1x", Relation: "knows", Object: fmt.Sprintf("Name%dx", len(batch[0].Content)%9+2)})
			search(t, following, ranked("Name1x"))
		}
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{records[0].ID, records[70].ID}); err != nil {
			t.Fatal(err)
		}
		for j, s := range []leg.Searcher{following, openWith(f, config)} {
			random := rand.New(rand.NewPCG(3, 4))
			for n := range 40 {
				q := ranked(fmt.Sprintf("where did Name%dx and name%dx go with the boats", random.IntN(60), random.IntN(200)))
				if n%2 == 1 { // names nothing, and is near to facts and names
					q = ranked(fmt.Sprintf("nameless%dx knowing name%dxy", random.IntN(9), random.IntN(60)))
				}
				results[i][j] = append(results[i][j], search(t, s, q))
			}
		}
	}
	hits := 0
	for _, other := range [][]leg.Result{results[0][1], results[1][0], results[1][1]} {
		hits += agree(t, results[0][0], other, 0)
	}
	if hits < 500 {
		t.Errorf("only %d hits compared", hits)
	}
}

// TestTooLargeForMemory: PostgreSQL searches what does not fit by hop decay in SQL, and says so; SQLite has nothing else to
// search and says that.
func TestTooLargeForMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := openIn(f, replica.Config{}, graph.Config{})
		f.Insert(t, storetest.Record(ns, "We saw Teo in Aldermouth with Orsolya.", nil))
		f.Drain(t, "graph", s)
		for range 2 {
			result := search(t, s, ranked("Teo"))
			if f.Engine == schema.SQLite {
				if result.State != triskelev1.LegState_LEG_STATE_TRUNCATED || len(result.Hits) != 0 || !strings.Contains(result.Reason, "--search-memory") {
					t.Errorf("%+v", result)
				}
			} else if result.State != triskelev1.LegState_LEG_STATE_FALLBACK || len(result.Hits) != 1 || result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY {
				t.Errorf("%+v", result)
			}
		}
	})
}

// TestAnotherNamespaceOfTheSameName: a copy in memory is not taken for the graph of a namespace that has got the name since.
func TestAnotherNamespaceOfTheSameName(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		f.Insert(t, storetest.Record("other", "one: yesterday Teo left", nil), storetest.Record(ns, "two: yesterday Teo came", nil))
		f.Drain(t, "graph", s)
		q := ranked("Teo")
		q.Namespace = "other"
		before := search(t, s, q).Hits
		if _, err := f.Memory.DeleteNamespace(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Memory.RenameNamespace(t.Context(), ns, "other"); err != nil {
			t.Fatal(err)
		}
		after := search(t, s, q).Hits
		if len(before) != 1 || len(after) != 1 || before[0].ID == after[0].ID {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if result := search(t, s, ranked("Teo")); result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
			t.Errorf("the old name still finds: %+v", result)
		}
	})
}

// TestOrdinaryWords has a word that only began a sentence, which a query means as a word.
func TestOrdinaryWords(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		board := storetest.Record(ns, "board: it was said that Teo came", func(r *record.Record) { r.Title = "Kittiwake Board" })
		other := storetest.Record(ns, "other: we know. Attended with Maren.", nil)
		f.Insert(t, board, other)
		f.Drain(t, "graph", s)
		for text, want := range map[string]string{
			"who attended Kittiwake Board": "board:", "kittiwake board, attended by teo": "board:",
			"attended": "other:", "Attended, and Kittiwake Board": "other: board:",
		} {
			if got := find(t, f, s, ranked(text)); got != want {
				t.Errorf("%q found %q, want %q", text, got, want)
			}
		}
	})
}

func TestCoverage(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		page := storetest.Record(ns, "page: Teo sails her", func(r *record.Record) { r.Title = "Lord of the Gulls" })
		fact := storetest.Record(ns, "fact: he owns it", nil)
		subject := storetest.Record(ns, "page: what runs on it", func(r *record.Record) { r.Title = "Steam Power" })
		f.Insert(t, page, fact, subject)
		for range 3 {
			f.Insert(t, storetest.Record(ns, "again about Steam Power", nil))
		}
		f.Drain(t, "graph", s)
		put(t, s, graph.Fact{Memory: fact.ID, Subject: "Maren", Relation: "owns", Object: "Aldermouth Mill"})
		for text, want := range map[string]float64{
			"Steam Power works":                2. / 3 * math.Log(math.E+1) / math.Log(math.E+4), // mentioned by four memories, not by one
			"Lord of the Gulls":                1,
			"who sails the Lord of the Gulls?": 4. / 5, // stop words count only in a name
			"did Maren sell Aldermouth Mill":   0,      // only part of a fact
			"Teo":                              0,      // only mentioned
		} {
			if got := search(t, s, ranked(text)); len(got.Hits) == 0 || math.Abs(got.Coverage-want) > 1e-9 {
				t.Errorf("%q: %d hits, coverage %v, want %v", text, len(got.Hits), got.Coverage, want)
			}
		}
	})
}

// TestPagesOfOneName: whatever else they mention, the newest of the pages of one name comes first, after what matters more.
func TestPagesOfOneName(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		page := func(content string, importance float64, age time.Duration) record.Record {
			return storetest.Record(ns, content, func(r *record.Record) {
				r.Title, r.Importance, r.CreatedAt = "Kestrel", importance, record.Now().Add(-age)
			})
		}
		old := page("old: sails with Teo and with Orsolya", 0.5, 3*time.Hour)
		middle := page("middle: sails alone", 0.5, 2*time.Hour)
		newest := page("newest: sails with Maren", 0.5, time.Hour)
		matters := page("matters: is sold", 0.9, 4*time.Hour)
		crew := storetest.Record(ns, "crew: Teo and Orsolya and Maren meet on the Kestrel", nil)
		index(t, f, s, old, middle, newest, matters, crew)
		if got := find(t, f, s, leg.Query{Text: "Kestrel", Depth: 5, Traversal: triskelev1.Traversal_TRAVERSAL_PAGERANK}); got != "matters: newest: middle: old: crew:" {
			t.Errorf("found %s", got)
		}
	})
}

func TestHubsSayNothing(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		var crowd []record.Record
		for i := range 60 {
			crowd = append(crowd, storetest.Record(ns, fmt.Sprintf("we note that Maren saw Gull%d", i), nil))
		}
		f.Insert(t, crowd...)
		f.Drain(t, "graph", s)
		if result := search(t, s, ranked("Maren")); result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
			t.Errorf("every memory mentions her: %+v", result)
		}
		if got := search(t, s, ranked("Maren and Gull7")).Hits; len(got) != 1 || got[0].ID != crowd[7].ID {
			t.Errorf("beside something specific she leads nowhere: %+v", got)
		}
		page := storetest.Record(ns, "page: her story", func(r *record.Record) { r.Title = "Maren" })
		f.Insert(t, page)
		f.Drain(t, "graph", s)
		if got := search(t, s, ranked("Maren")).Hits; len(got) != 50 || got[0].ID != page.ID {
			t.Errorf("a page of her own: %d hits", len(got))
		}
	})
}

// TestNamesOfSkippedFacts: a concept is not spelled as in a fact that is skipped, since its memory is sensitive or gone.
func TestNamesOfSkippedFacts(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		plain, secret := storetest.Record(ns, "plain", nil), storetest.Record(ns, "secret", func(r *record.Record) { r.Sensitive = true })
		f.Insert(t, plain, secret)
		stored, err := s.PutFacts(t.Context(), ns, []graph.Fact{
			{Memory: secret.ID, Subject: "CANARY Wharf", Relation: "opens", Object: "Gate"},
			{Memory: uuid.New(), Subject: "CANARY wharf", Relation: "opens", Object: "CANARY wharf"},
			{Memory: plain.ID, Subject: "Canary Wharf", Relation: "opens", Object: "gate"},
		})
		if err != nil || stored != 1 {
			t.Fatalf("stored %d, %v, want 1", stored, err)
		}
		if left := f.Holding(t, "CANARY"); len(left) != 0 {
			t.Errorf("the spelling of a skipped fact is in %v", left)
		}
	})
}
