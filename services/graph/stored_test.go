package graph_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// A graph that is written in the transaction which stores memories has the same mentions, counts and vectors as one that is
// indexed afterwards.
func TestInTheTransactionThatStores(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		config := graph.Config{}
		config.Embedder = embed.NewHashed()
		s := openWith(f, config)
		f.Memory.Derive("graph", s)
		var ids []uuid.UUID
		var all []record.Record
		for range 3 { // batches: later ones mention concepts of earlier ones
			var batch []record.Record
			for range 120 {
				i := len(all)
				r := storetest.Record(ns, fmt.Sprintf("Teo met Host%d and the kestrel%d in Aldermouth.", i/7, i%5), func(r *record.Record) {
					r.Tags = []string{fmt.Sprintf("kestrel%d", i%11), "harbour"}
				})
				batch, all, ids = append(batch, r), append(all, r), append(ids, r.ID)
			}
			f.Insert(t, batch...)
		}
		if status, err := f.Queue.Status(t.Context(), "graph", ns); err != nil || status.Pending != 0 {
			t.Fatalf("%+v, %v: want no memory that waits to be indexed", status, err)
		}
		consistent(t, f)
		before := sizes(t, f)
		few := storetest.Record(ns, "down at the harbour", nil) // fewer phrases than there are concepts, so each is looked up
		f.Insert(t, few)
		all, ids = append(all, few), append(ids, few.ID)
		consistent(t, f)
		stored := sizes(t, f)
		if want := [2]int{before[0], before[1] + 1}; stored != want {
			t.Errorf("%v concepts and mentions after a text with a known name, want %v", stored, want)
		}
		if n := count(t, f, "concepts", "vector_model IS NULL"); n != 0 {
			t.Errorf("%d concepts have no vector, want none", n)
		}
		if err := s.Index(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		consistent(t, f)
		if got := sizes(t, f); got[0] != stored[0] || got[1] < stored[1] {
			t.Errorf("%v concepts and mentions after indexing again, %v before", got, stored)
		}
		if _, err := f.Memory.Forget(t.Context(), ns, ids[:200]); err != nil {
			t.Fatal(err)
		}
		consistent(t, f)
		if _, err := f.Memory.Forget(t.Context(), ns, ids[200:]); err != nil {
			t.Fatal(err)
		}
		if got, want := sizes(t, f), [2]int{0, 0}; got != want {
			t.Errorf("%v rows after all is forgotten, want %v", got, want)
		}
	})
}
