package graph_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// The service's own role may do all that it does, under row security, in batches of several namespaces.
func TestByItsOwnRole(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	pool, err := postgres.Open(t.Context(), pgtest.Login(t, f.Pool.Config().ConnString(), "graph"), f.Tel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store := sqldb.Store{Pool: pool}
	images := replica.New(t.Context(), store, replica.Config{Memory: 64}, f.Tel.MeterProvider.Meter("test"), storetest.Log())
	s := graph.New(store, images, f.Queue, graph.Config{Embedder: embed.NewHashed()})
	mill := storetest.Record(ns, "We met Teo at the Harbour Defence Union (HDU).", func(r *record.Record) { r.Title = "Aldermouth Mill" })
	owner := storetest.Record(ns, "owner", func(r *record.Record) { r.Links = []record.Link{{Target: mill.ID, Relation: "cites"}} })
	other := storetest.Record("other", "We saw Teo in Brackwater.", nil)
	f.Insert(t, mill, owner, other)
	for range 2 {
		if err := s.Index(t.Context(), []record.Record{other, mill, owner}); err != nil {
			t.Fatal(err)
		}
		put(t, s, graph.Fact{Memory: owner.ID, Subject: "Maren", Relation: "owns", Object: "Aldermouth Mill", Single: true})
		read := graph.Extraction{Model: "m", Facts: []graph.Fact{{Subject: "Teo", Relation: "works at", Object: "Aldermouth Mill"}}}
		if err := s.PutExtraction(t.Context(), mill, read); err != nil {
			t.Fatal(err)
		}
	}
	s.Refresh(t.Context(), storetest.Log())
	consistent(t, f)
	if n := count(t, f, "facts", "true"); n != 3 {
		t.Errorf("%d facts, want an import's, a model's and an alias", n)
	}
	for _, searcher := range []leg.Searcher{s, inSQL{s}} {
		for namespace, want := range map[string][]uuid.UUID{ns: {mill.ID, owner.ID}, "other": {other.ID}} {
			hits := search(t, searcher, leg.Query{Namespace: namespace, Text: "Teo", Explain: true}).Hits
			if len(hits) != len(want) || hits[0].ID != want[0] {
				t.Errorf("%T found %v in %s, want %v", searcher, hits, namespace, want)
			}
		}
	}
	view, err := s.View(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	if path := view.Path("HDU", "maren"); len(path) == 0 || path[0].Concept != "HDU" || path[len(path)-1].Concept != "Maren" {
		t.Errorf("path %v", path)
	}
}
