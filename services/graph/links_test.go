package graph_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// linking returns a record that names a person and links to others.
func linking(content string, to ...record.Record) record.Record {
	return storetest.Record(ns, content, func(r *record.Record) {
		for _, target := range to {
			r.Links = append(r.Links, record.Link{Target: target.ID, Relation: "links_to"})
		}
	})
}

// bare returns a record without any name.
func bare(importance float64) record.Record {
	return storetest.Record(ns, "nothing of note", func(r *record.Record) { r.Importance = importance })
}

// tables are those of the graph.
var tables = map[schema.Engine][]string{
	schema.Postgres: {"concepts", "memory_concepts", "facts", "memory_links", "link_ends"},
	schema.SQLite:   {"concepts", "memories", "facts"},
}

// traces returns the graph tables that tell of a memory.
func traces(t *testing.T, f *storetest.Fixture, id uuid.UUID) []string {
	t.Helper()
	var found []string
	for _, table := range tables[f.Engine] {
		if f.Engine == schema.Postgres {
			if count(t, f, table+" x", fmt.Sprintf("x::text LIKE '%%%s%%'", id)) > 0 {
				found = append(found, table)
			}
			continue
		}
		rows, err := f.DB.Read.QueryContext(t.Context(), "SELECT * FROM graph_"+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(targets...); err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				raw, _ := v.([]byte)
				text, _ := v.(string)
				if bytes.Contains(raw, id[:]) || strings.Contains(text, id.String()) {
					found = append(found, table)
				}
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func TestAuthorLinksAreFollowed(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		target, far := bare(0.9), bare(0.8)
		target.Links = []record.Link{{Target: far.ID, Relation: "links_to"}}
		teo := linking("Yesterday Teo repaired the hull.", target)
		teo.Links = append(teo.Links, record.Link{Target: teo.ID, Relation: "self"}, teo.Links[0])
		f.Insert(t, teo)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, teo)

		source := linking("nothing of note", teo)
		f.Insert(t, target, far, source) // the target comes after the link to it
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, teo, target, source)
		hits := search(t, s, leg.Query{Text: "Teo"}).Hits
		for _, h := range hits[1:] {
			if want := hits[0].Score * graph.HopDecay / 2; math.Abs(h.Score-want) > 1e-12 {
				t.Errorf("score %v over one of two links, want %v", h.Score, want)
			}
		}
		expect(t, s, leg.Query{Text: "Teo", Filter: record.Filter{TagsAny: []string{"none"}}})

		t.Run("a link adds to what names a concept", func(t *testing.T) {
			base := hits[0].Score
			both := linking("It was seen that Teo left.", teo)
			f.Insert(t, both)
			f.Drain(t, "graph", s)
			// Now two mention Teo, with the same score; one has one link, the other three.
			hits := search(t, s, leg.Query{Text: "Teo"}).Hits
			if len(hits) != 4 || hits[0].ID != teo.ID || hits[1].ID != both.ID {
				t.Fatalf("%+v", hits)
			}
			single := hits[0].Score / 1.5
			if single >= base || math.Abs(hits[1].Score-single*(1+0.5/3)) > 1e-12 || math.Abs(hits[2].Score-single*0.5/3) > 1e-12 {
				t.Errorf("%+v", hits)
			}
		})
	})
}

func TestAuthorLinksFollowTheRecord(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		before, after := bare(0.5), bare(0.6)
		teo := linking("Yesterday Teo repaired the hull.", before)
		f.Insert(t, before, after, teo)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, teo, before)
		update := func(change func(*record.Record)) {
			t.Helper()
			if _, err := f.Memory.Update(t.Context(), ns, teo.ID, 0, func(r *record.Record) error { change(r); return nil }); err != nil {
				t.Fatal(err)
			}
			f.Drain(t, "graph", s)
		}
		update(func(r *record.Record) { r.Links[0].Target = after.ID })
		expect(t, s, leg.Query{Text: "Teo"}, teo, after)

		current, _, err := f.Memory.Supersede(t.Context(), teo.ID, 0, linking("Yesterday Teo painted the hull.", before))
		if err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, current, before)
		if hits := search(t, s, leg.Query{Text: "Teo", Filter: record.Filter{IncludeSuperseded: true}}).Hits; len(hits) != 4 {
			t.Errorf("with superseded ones: %+v", hits)
		}
		if _, _, err := f.Memory.Supersede(t.Context(), before.ID, 0, bare(0.5)); err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, current)

		expired := linking("It was seen that Orsolya left.", after)
		expired.ExpiresAt = record.Now().Add(-time.Hour)
		f.Insert(t, expired)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Orsolya"})
	})
}

func TestManyLinksLeadNowhere(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		crowd := make([]record.Record, graph.MaxDegree+1)
		for i := range crowd {
			crowd[i] = bare(0.5)
		}
		most := len(crowd) - 1
		index, page := linking("Here is what Teo wrote.", crowd...), linking("Here is what Orsolya wrote.", crowd[:most-1]...)
		crowd[0].Links = []record.Link{{Target: page.ID, Relation: "part_of"}}
		f.Insert(t, append(crowd, index, page)...)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, index)
		if hits := search(t, s, leg.Query{Text: "Orsolya"}).Hits; len(hits) != most {
			t.Errorf("%d hits over %d links", len(hits), most)
		}
	})
}

func TestForgottenTargetLeavesNothing(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		target := bare(0.5)
		teo := linking("Yesterday Teo repaired the hull.", target)
		f.Insert(t, target, teo)
		f.Drain(t, "graph", s)
		if got := traces(t, f, target.ID); len(got) == 0 {
			t.Fatal("nothing to be left behind")
		}
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{target.ID}); err != nil {
			t.Fatal(err)
		}
		if got := traces(t, f, target.ID); len(got) != 0 {
			t.Errorf("left in %v", got)
		}
		if _, err := f.Memory.Update(t.Context(), ns, teo.ID, 0, func(r *record.Record) error { r.Importance = 0.7; return nil }); err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "graph", s)
		if got := traces(t, f, target.ID); len(got) != 0 {
			t.Errorf("back in %v", got)
		}
		expect(t, s, leg.Query{Text: "Teo"}, teo)
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{teo.ID}); err != nil {
			t.Fatal(err)
		}
		for _, table := range tables[f.Engine] {
			if n := count(t, f, table, "true"); n != 0 {
				t.Errorf("%d rows in %s", n, table)
			}
		}
	})
}

func TestSensitiveIsNoEndOfALink(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		secret, turning := bare(0.5), bare(0.6)
		secret.Sensitive = true
		secret.Links = []record.Link{{Target: turning.ID, Relation: "opens"}}
		teo := linking("Yesterday Teo repaired the hull.", secret, turning)
		turning.Links = []record.Link{{Target: teo.ID, Relation: "opens"}}
		f.Insert(t, teo, secret, turning)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, teo, turning)
		if got := traces(t, f, secret.ID); len(got) != 0 {
			t.Errorf("the secret is in %v", got)
		}
		if _, err := f.Memory.Update(t.Context(), ns, turning.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if got := traces(t, f, turning.ID); len(got) != 0 {
			t.Errorf("what turned sensitive is in %v", got)
		}
		expect(t, s, leg.Query{Text: "Teo"}, teo)
		for _, sensitive := range []bool{false, true} {
			if f.Engine == schema.SQLite {
				break // one table, see TestSensitive
			}
			for _, insert := range []string{
				"graph.memory_links (namespace, source_id, target_key, relation, sensitive) VALUES ('" + ns + "', $1, 1, 'x', $2)",
				"graph.link_ends (namespace, memory_id, key, sensitive) VALUES ('" + ns + "', $1, 1, $2)",
			} {
				if _, err := f.Pool.Exec(t.Context(), "INSERT INTO "+insert, secret.ID, sensitive); err == nil {
					t.Errorf("stored: %s", insert)
				}
			}
		}
	})
}
