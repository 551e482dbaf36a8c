package lexical_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestScores: whatever a deep search finds has the same score when asked for by id, and all else has 0.
func TestScores(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := lexical.DefaultSettings()
		s.Prefix = true
		if err := searcher(t, f).Set(t.Context(), "ns", s); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(5, 6))
		zipf := rand.NewZipf(random, 1.1, 10, 300)
		var ids []uuid.UUID
		fill := func() {
			records := make([]record.Record, 150)
			for i := range records {
				records[i] = storetest.Record("ns", text(zipf, 1+random.IntN(20))+" get.user/by-id", func(r *record.Record) {
					r.Title, r.Category, r.Tags, r.Keywords = text(zipf, random.IntN(3)), text(zipf, random.IntN(2)), []string{text(zipf, 1)}, []string{text(zipf, 2)}
				})
				ids = append(ids, records[i].ID)
			}
			f.Insert(t, records...)
		}
		fill()
		if _, err := f.Memory.Update(t.Context(), "ns", ids[0], 0, func(r *record.Record) error { r.Content = word(1) + " changed"; return nil }); err != nil {
			t.Fatal(err)
		}
		other := storetest.Record("other", word(0), nil)
		f.Insert(t, other)
		asked := append([]uuid.UUID{other.ID, uuid.New()}, ids...)

		queries := []string{word(0), word(1) + " " + word(2) + " " + word(1), word(3) + ` "` + word(0) + " " + word(1) + `"`, "get.user/by-id", "unfindable", word(7) + " w1"}
		for _, query := range queries {
			for _, scorer := range []triskelev1.Scorer{triskelev1.Scorer_SCORER_BM25, triskelev1.Scorer_SCORER_TS_RANK} {
				result := search(t, f, query, func(q *leg.Query) { q.Depth, q.Scorer = 1000, scorer })
				scores, kind, err := searcher(t, f).Scores(t.Context(), leg.Query{Namespace: "ns", Text: query, Scorer: scorer}, asked)
				if err != nil || kind != result.ScoreKind {
					t.Fatalf("%q: %v, scores of kind %v, a search's are %v", query, err, kind, result.ScoreKind)
				}
				if len(scores) != len(ids) {
					t.Errorf("%q: %d scores, want one for each of %d memories", query, len(scores), len(ids))
				}
				found := map[uuid.UUID]float64{}
				for _, hit := range result.Hits {
					found[hit.ID] = hit.Score
				}
				if query != "unfindable" && len(found) == 0 {
					t.Errorf("%q found nothing", query)
				}
				for _, score := range scores {
					if score.Score != found[score.ID] {
						t.Errorf("%q by %v: a memory scores %v, and %v in a search", query, scorer, score.Score, found[score.ID])
					}
				}
			}
		}
		if scores, _, err := searcher(t, f).Scores(t.Context(), leg.Query{Namespace: "ns", Text: "?!"}, ids); err != nil {
			t.Errorf("a query without words: %v, %v", scores, err)
		}
	})
}

// TestNoScoresFromTheFile: SQLite has no search in SQL that could score.
func TestNoScoresFromTheFile(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	c := newCorpus(f)
	c.add(t, "one", "a merlin", nil)
	scores, _, err := lexical.New(f.Store(), f.ImagesWith(t, replica.Config{}), lexical.DefaultConfig()).Scores(t.Context(), leg.Query{Namespace: "ns", Text: "merlin"}, []uuid.UUID{c.records["one"].ID})
	if err != nil {
		t.Fatal(err)
	}
	if len(scores) != 0 {
		t.Errorf("got %v, want no scores", scores)
	}
}

// TestIdentifierWeighsOnce: an identifier is looked for whole and in parts, and counts as the heavier of the two.
func TestIdentifierWeighsOnce(t *testing.T) {
	t.Parallel()
	c := newCorpus(storetest.SQLite(t))
	c.add(t, "whole", "the key-fob of the owl", nil)
	c.add(t, "other", "nothing of the kind", nil)
	score := func(query string) float64 { return search(t, c.f, query, nil).Hits[0].Score }
	if whole, parts := score("key-fob"), score("key fob"); math.Abs(whole-parts) > 1e-9 {
		t.Errorf("an identifier scores %v, its parts %v", whole, parts)
	}
	c.add(t, "parts", "the fob of a key", nil)
	c.expect(t, "key-fob", nil, "whole", "parts")
}
