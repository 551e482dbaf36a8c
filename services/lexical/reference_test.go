package lexical_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// reference computes BM25F by its definition over all documents. Words are separated by spaces and are their own terms.
type reference struct {
	k1, b     float64
	documents map[uuid.UUID]map[string]float64 // weighted frequency by term
	lengths   map[uuid.UUID]float64
}

func newReference(k1, b float64, records map[uuid.UUID]record.Record) reference {
	ref := reference{k1, b, map[uuid.UUID]map[string]float64{}, map[uuid.UUID]float64{}}
	for id, r := range records {
		frequencies := map[string]float64{}
		add := func(text string, weight float64) {
			for _, w := range strings.Fields(text) {
				frequencies[w] += weight
				ref.lengths[id] += weight
			}
		}
		add(r.Content+" "+r.Title, 1)
		add(strings.Join(r.Keywords, " "), 0.4)
		add(strings.Join(r.Tags, " "), 0.2)
		add(r.Category, 0.1)
		ref.documents[id] = frequencies
	}
	return ref
}

// scores returns the score of every document with any term of the query.
func (ref reference) scores(query string) map[uuid.UUID]float64 {
	var total float64
	for _, length := range ref.lengths {
		total += length
	}
	n := float64(len(ref.documents))
	found := map[uuid.UUID]float64{}
	for _, term := range strings.Fields(query) { // a repeated term counts again
		var df float64
		for _, document := range ref.documents {
			if document[term] > 0 {
				df++
			}
		}
		idf := math.Log(1 + (n-df+0.5)/(df+0.5))
		for id, document := range ref.documents {
			if tf := document[term]; tf > 0 {
				found[id] += idf * (ref.k1 + 1) * tf / (tf + ref.k1*(1-ref.b+ref.b*ref.lengths[id]/(total/n)))
			}
		}
	}
	return found
}

// TestReference compares searches with the definition after several writers at once have inserted, updated and forgotten
// at random while postings were folded.
func TestReference(t *testing.T) {
	for i, corpus := range []struct {
		name     string
		settings lexical.Settings
		words    int // vocabulary
		record   func(zipf *rand.Zipf, random *rand.Rand, r *record.Record)
	}{
		{"short notes", lexical.DefaultSettings(), 300, func(zipf *rand.Zipf, random *rand.Rand, r *record.Record) {
			r.Content = text(zipf, 1+random.IntN(12))
		}},
		{"all fields", lexical.Settings{Language: "simple", K1: 1.6, B: 0.9}, 400, func(zipf *rand.Zipf, random *rand.Rand, r *record.Record) {
			r.Content, r.Title, r.Category = text(zipf, 5+random.IntN(20)), text(zipf, random.IntN(4)), text(zipf, random.IntN(2))
			for range random.IntN(4) {
				r.Keywords, r.Tags = append(r.Keywords, text(zipf, 2)), append(r.Tags, text(zipf, 1))
			}
		}},
		{"long texts", lexical.Settings{Language: "english", K1: 0.4, B: 1}, 3000, func(zipf *rand.Zipf, random *rand.Rand, r *record.Record) {
			r.Content = text(zipf, 20+random.IntN(200))
		}},
	} {
		t.Run(corpus.name, func(t *testing.T) {
			t.Parallel()
			f := storetest.Postgres(t)
			if err := searcher(f).Set(t.Context(), "ns", corpus.settings); err != nil {
				t.Fatal(err)
			}
			records := write(t, f, uint64(i), corpus.words, corpus.record)
			ref := newReference(corpus.settings.K1, corpus.settings.B, records)
			random := rand.New(rand.NewPCG(uint64(i), 9))
			zipf := rand.NewZipf(random, 1.1, 10, uint64(corpus.words-1))
			for range 334 {
				compare(t, f, ref, text(zipf, 1+random.IntN(8)))
			}
		})
	}
}

// write has four writers change memories of namespace "ns" and returns those that are left.
func write(t *testing.T, f *storetest.Fixture, seed uint64, vocabulary int, fill func(*rand.Zipf, *rand.Rand, *record.Record)) map[uuid.UUID]record.Record {
	const writers, changes = 4, 150
	var (
		mu    sync.Mutex
		all   = map[uuid.UUID]record.Record{}
		group sync.WaitGroup
	)
	ctx, stop := context.WithCancel(t.Context())
	var folding sync.WaitGroup
	folding.Go(func() {
		for ctx.Err() == nil {
			fold(t, f, "ns")
		}
	})
	for writer := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(writer)))
			zipf := rand.NewZipf(random, 1.1, 10, uint64(vocabulary-1))
			mine := map[uuid.UUID]record.Record{}
			var ids []uuid.UUID
			for range changes {
				switch action := random.IntN(10); {
				case action < 5 || len(ids) < 5:
					batch := make([]record.Record, 1+random.IntN(5))
					for i := range batch {
						batch[i] = storetest.Record("ns", "x", func(r *record.Record) { fill(zipf, random, r) })
						ids, mine[batch[i].ID] = append(ids, batch[i].ID), batch[i]
					}
					if _, err := f.Memory.Insert(t.Context(), batch); err != nil {
						t.Error(err)
					}
				case action < 8:
					id := ids[random.IntN(len(ids))]
					r, err := f.Memory.Update(t.Context(), "ns", id, 0, func(r *record.Record) error { fill(zipf, random, r); return nil })
					if err != nil {
						t.Error(err)
					}
					mine[id] = r
				default:
					i := random.IntN(len(ids))
					if _, err := f.Memory.Forget(t.Context(), "ns", ids[i:i+1]); err != nil {
						t.Error(err)
					}
					delete(mine, ids[i])
					ids = slices.Delete(ids, i, i+1)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for id, r := range mine {
				all[id] = r
			}
		})
	}
	group.Wait()
	stop()
	folding.Wait()
	return all
}

// compare searches and checks the best twenty and their scores; equal scores may come in any order.
func compare(t *testing.T, f *storetest.Fixture, ref reference, query string) {
	t.Helper()
	const depth = 20
	result, err := searcher(f).Search(t.Context(), leg.Query{Namespace: "ns", Text: query, Depth: depth})
	if err != nil {
		t.Fatal(err)
	}
	want := ref.scores(query)
	best := make([]float64, 0, len(want))
	for _, score := range want {
		best = append(best, score)
	}
	slices.SortFunc(best, func(a, b float64) int { return cmp.Compare(b, a) })
	best = best[:min(depth, len(best))]
	if len(result.Hits) != len(best) {
		t.Fatalf("%q: %d hits, want %d", query, len(result.Hits), len(best))
	}
	for i, hit := range result.Hits {
		if math.Abs(hit.Score-want[hit.ID]) > 1e-9 || math.Abs(hit.Score-best[i]) > 1e-9 {
			t.Fatalf("%q: hit %d scores %v, by the definition it has %v and the rank %v", query, i+1, hit.Score, want[hit.ID], best[i])
		}
	}
}
