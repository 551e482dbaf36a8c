package lexical_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/record"
	"github.com/triskele/triskele/services/storetest"
)

// TestTextsearchIsOptional: without the extension, or the namespace's index, a search ranks by bm25 and says so; who wants
// the index or configures the scorer is told what to do.
func TestTextsearchIsOptional(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	c := newCorpus(f)
	c.add(t, "owl", "the owl", nil)
	postgres := lexical.NewPostgres(f.Pool, lexical.Config{Scorer: triskelev1.Scorer_SCORER_TEXTSEARCH})
	find := func() leg.Result {
		t.Helper()
		result, err := postgres.Search(t.Context(), leg.Query{Namespace: "ns", Text: "owl", Depth: 10})
		if err != nil || len(result.Hits) != 1 || result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_BM25 {
			t.Fatalf("%+v, %v", result, err)
		}
		return result
	}
	if result := find(); result.State != triskelev1.LegState_LEG_STATE_FALLBACK || !strings.Contains(result.Reason, "pg_textsearch") {
		t.Errorf("without an index: %v, %q", result.State, result.Reason)
	}
	if err := postgres.Textsearch(t.Context(), "ns", false); err != nil {
		t.Errorf("dropping an index that is not there: %v", err)
	}
	if !*byTextsearch {
		for name, err := range map[string]error{"an index": postgres.Textsearch(t.Context(), "ns", true), "the scorer": postgres.Check(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), "shared_preload_libraries") {
				t.Errorf("asked for %s: %v", name, err)
			}
		}
		return
	}
	if err := postgres.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "CREATE EXTENSION") {
		t.Errorf("before the extension is created: %v", err)
	}
	for range 2 {
		if err := postgres.Textsearch(t.Context(), "ns", true); err != nil {
			t.Fatal(err)
		}
	}
	if err := postgres.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if result := find(); result.State == triskelev1.LegState_LEG_STATE_FALLBACK {
		t.Errorf("with an index: %q", result.Reason)
	}
	// What follows the records does so in this index, too, and another namespace's rows are not in it.
	c.add(t, "later", "an owl of an owl", nil)
	f.Insert(t, storetest.Record("other", "owl", nil))
	if result := found(t, postgres, "owl"); len(result.Hits) != 2 {
		t.Errorf("%d hits, want 2", len(result.Hits))
	}
	if err := postgres.Set(t.Context(), "ns", lexical.Settings{Language: "english", K1: 5, B: 0}); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Textsearch(t.Context(), "ns", true); err == nil || !strings.Contains(err.Error(), "k1") {
		t.Errorf("with a k1 it cannot have: %v", err)
	}
	if err := postgres.Textsearch(t.Context(), "ns", false); err != nil {
		t.Fatal(err)
	}
	if result := found(t, postgres, "owl"); result.State != triskelev1.LegState_LEG_STATE_FALLBACK {
		t.Errorf("after the index is dropped: %v", result.State)
	}
}

func found(t *testing.T, searcher leg.Searcher, text string) leg.Result {
	t.Helper()
	result, err := searcher.Search(t.Context(), leg.Query{Namespace: "ns", Text: text, Depth: 10})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestScorersAgree: by pg_textsearch a search finds what bm25 does, with the same scores but where its rounding of lengths lets one through.
func TestScorersAgree(t *testing.T) {
	if !*byTextsearch {
		return // there is one scorer only
	}
	f := storetest.Postgres(t)
	s := lexical.Settings{Language: "simple", K1: 1.2, B: 0.6}
	if err := searcher(f).Set(t.Context(), "ns", s); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 8))
	zipf := rand.NewZipf(random, 1.1, 10, 400)
	records := make([]record.Record, 600)
	for i := range records {
		records[i] = storetest.Record("ns", text(zipf, 1+random.IntN(40)), func(r *record.Record) {
			r.Title, r.Keywords, r.Tags = text(zipf, random.IntN(4)), []string{text(zipf, 2)}, []string{text(zipf, 1)}
		})
	}
	f.Insert(t, records...)
	fold(t, f, "ns")
	for range 100 {
		query := text(zipf, 1+random.IntN(8))
		deep := func(scorer triskelev1.Scorer) leg.Result {
			return search(t, f, query, func(q *leg.Query) { q.Depth, q.Scorer = 20, scorer })
		}
		bm25, textsearch := deep(triskelev1.Scorer_SCORER_BM25), deep(triskelev1.Scorer_SCORER_TEXTSEARCH)
		if textsearch.State != triskelev1.LegState_LEG_STATE_UNSPECIFIED || len(bm25.Hits) != len(textsearch.Hits) {
			t.Fatalf("%q: %d hits and %d, %v", query, len(bm25.Hits), len(textsearch.Hits), textsearch.State)
		}
		for i := range bm25.Hits {
			if a, b := bm25.Hits[i].Score, textsearch.Hits[i].Score; math.Abs(a-b) > 0.01*a {
				t.Fatalf("%q: hit %d scores %v by bm25, %v by textsearch", query, i+1, a, b)
			}
		}
	}
}
