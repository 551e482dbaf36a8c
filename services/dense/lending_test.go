package dense_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestNeighboursLend checks that a memory moves towards the neighbour that lifts it most, and who lends nothing.
func TestNeighboursLend(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		turn := func(position int64, edit func(*record.Record)) func(*record.Record) {
			return func(r *record.Record) {
				if r.Thread, r.Position = "talk", &position; edit != nil {
					edit(r)
				}
			}
		}
		c.add(t, f, s, "far", "garden frost and winter recipes", turn(1, nil))
		c.add(t, f, s, "hidden", "who plays the cello on Thursdays", turn(2, func(r *record.Record) { r.Sensitive = true }))
		c.add(t, f, s, "question", "who plays the cello", turn(3, nil))
		c.add(t, f, s, "answer", "Ottilie does, each Thursday", turn(4, nil))
		c.add(t, f, s, "alone", "Ottilie does each Friday", nil)
		const text = "who plays the cello on Thursdays"
		own := map[uuid.UUID]float64{}
		for _, hit := range search(t, s, text, nil).Hits {
			if own[hit.ID] = hit.Score; hit.Own != hit.Score {
				t.Errorf("without lending: got %+v", hit)
			}
		}
		of := func(name string) float64 { return own[c[name].ID] }
		want := map[uuid.UUID]float64{
			c["far"].ID: of("far") + .294*(of("question")-of("far")), c["question"].ID: of("question"),
			c["answer"].ID: of("answer") + .6*(of("question")-of("answer")), c["alone"].ID: of("alone"),
		}
		found := search(t, s, text, func(q *leg.Query) { q.Borrow = 1 })
		if len(found.Hits) != len(want) || !slices.IsSortedFunc(found.Hits, leg.CompareHits) {
			t.Fatalf("got %+v, want %d hits in order", found.Hits, len(want))
		}
		for _, hit := range found.Hits {
			if math.Abs(hit.Score-want[hit.ID]) > 2e-6 || hit.Own != own[hit.ID] {
				t.Errorf("%v: got %v, of its own %v, want %v, of its own %v", c.names(leg.Result{Hits: []leg.Hit{hit}}), hit.Score, hit.Own, want[hit.ID], own[hit.ID])
			}
		}
		scores, _, err := s.(leg.Scorer).Scores(t.Context(), leg.Query{Namespace: "ns", Text: text, Borrow: 1}, []uuid.UUID{c["answer"].ID, c["alone"].ID, c["hidden"].ID})
		if err != nil || len(scores) != 2 {
			t.Fatalf("scores: got %v, %v, want two", scores, err)
		}
		for _, score := range scores {
			if math.Abs(score.Score-want[score.ID]) > 2e-6 || score.Own != own[score.ID] {
				t.Errorf("score alone: got %+v, want %v", score, want[score.ID])
			}
		}
		filtered := search(t, s, text, func(q *leg.Query) { q.Borrow, q.Filter.TagsAny = 1, []string{"none"} })
		if len(filtered.Hits) != 0 {
			t.Errorf("filtered out: got %+v", filtered.Hits)
		}
	})
}
