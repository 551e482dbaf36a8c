package backend_test

import (
	"path/filepath"
	"testing"

	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// With an immediate embedder, whoever stores a memory finds it in all indexes, and no worker runs.
func TestMemoriesAreIndexedWhenStored(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (url, path string){
		"sqlite":   func(t *testing.T) (string, string) { return "", filepath.Join(t.TempDir(), "t.db") },
		"postgres": func(t *testing.T) (string, string) { return pgtest.New(t), "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, path := open(t)
			b := migrated(t, url, path)
			embedder, err := static.Builtin()
			if err != nil {
				t.Fatal(err)
			}
			images := b.Images(t.Context(), storetest.Strict(), storetest.Log())
			dense, err := b.Dense(t.Context(), images, embedder)
			if err != nil {
				t.Fatal(err)
			}
			config := graph.Config{}
			config.Embedder = embedder
			linked := b.Graph(images, config)
			stored, err := b.Memory().Insert(t.Context(), []record.Record{
				storetest.Record("birds", "The kestrel nests on the tower of Elm Street.", func(r *record.Record) { r.Title = "Kestrel" }),
				storetest.Record("reptiles", "The adder basks beside Elm Street.", func(r *record.Record) { r.Title = "Adder" }),
				storetest.Record("birds", "The heron is private.", func(r *record.Record) { r.Sensitive = true }),
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, index := range map[string]leg.Searcher{"dense": dense, "graph": linked} {
				s, err := index.Status(t.Context(), "birds")
				if err != nil || s.Indexed != 1 || s.Pending != 0 || s.Excluded != 1 {
					t.Errorf("%s: got %+v, %v; want one memory indexed, one excluded and none pending", name, s, err)
				}
				found, err := index.Search(t.Context(), leg.Query{Namespace: "birds", Text: "kestrel", Depth: 10})
				if err != nil || len(found.Hits) != 1 || found.Hits[0].ID != stored[0].Record.ID {
					t.Errorf("%s found %+v, %v; want %s", name, found, err, stored[0].Record.ID)
				}
			}
			for name, index := range map[string]leg.AsyncIndex{"dense": dense, "graph": linked} {
				if known, _, err := index.Knows(t.Context(), "reptiles", stored[1].Record.Sequence); err != nil || !known {
					t.Errorf("%s knows the write: %v, %v", name, known, err)
				}
			}
		})
	}
}
