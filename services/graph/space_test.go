package graph

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/triskele/triskele/services/store/replica"
)

// TestNearest holds the shortened search among many vectors against a full one. Some have been replaced, some removed.
func TestNearest(t *testing.T) {
	const dims, rows = 96, 4000
	r := rand.New(rand.NewPCG(1, 2))
	random := func() []float32 {
		v := make([]float32, dims)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	s := space{dims: dims}
	vectors := make([]code, rows)
	for range 2 {
		for row := range vectors {
			vectors[row] = encode(random())
			if !s.set(uint32(row), vectors[row]) {
				t.Fatalf("row %d was not taken in", row)
			}
		}
	}
	for row := 0; row < rows; row += 7 {
		s.clear(uint32(row))
	}
	order := func(a, b uint32) int { return cmp.Compare(a, b) }
	odd := func(row uint32) bool { return row%2 == 1 }
	hits, agreed := 0, 0
	for range 50 {
		of := r.IntN(rows)
		query := random()
		for i := range query { // near to one of them
			query[i] = query[i]/2 + float32(int8(vectors[of][i]))/64
		}
		asked := encode(query)
		var want []near
		for row, v := range vectors {
			if c := cosine(asked, v); row%7 != 0 && row%2 == 1 && c >= .2 {
				want = append(want, near{uint32(row), c})
			}
		}
		slices.SortFunc(want, func(a, b near) int { return cmp.Or(cmp.Compare(b.cosine, a.cosine), cmp.Compare(a.row, b.row)) })
		want = want[:min(len(want), 5)]
		got := s.nearest(asked, 5, .2, odd, order)
		if of%2 == 1 && of%7 != 0 && (len(got) == 0 || got[0].row != uint32(of)) {
			t.Errorf("the nearest of all, %d, is missing from %v", of, got)
		}
		hits += len(want)
		for _, n := range want {
			if slices.ContainsFunc(got, func(m near) bool { return m.row == n.row }) {
				agreed++
			}
		}
	}
	if hits < 100 || agreed < hits*9/10 {
		t.Errorf("%d of %d found", agreed, hits)
	}
	if s.set(0, encode(make([]float32, dims))) || s.set(0, code{1, 2}) || s.has(0) {
		t.Error("a vector without direction, or of another model, was taken in")
	}
	for _, asked := range []code{nil, {}, {1}} {
		if got := s.nearest(asked, 5, -1, odd, order); len(got) != 0 {
			t.Errorf("%v is near to %v", asked, got)
		}
	}
}

// Names are found by their spelling while the size of the graph is asked for.
func TestBytesBesideSearches(t *testing.T) {
	n, _ := generated(1, 200)
	var searching sync.WaitGroup
	searching.Go(func() { n.nearly(t.Context(), words("who saw nome1x", maxQueryWords)) })
	n.Bytes()
	searching.Wait()
	if n.fuzzy.entries == 0 {
		t.Error("no name is indexed by its spelling")
	}
}

// TestNearlyEndsWithItsSearch: names that are spelled like words of a long query are looked for no longer than their search has time.
func TestNearlyEndsWithItsSearch(t *testing.T) {
	t.Parallel()
	const concepts, syllables = 10_000, "con pro res der man ver sta com per tra"
	n, random := newNetwork(replica.NewRows(), "", 0), rand.New(rand.NewPCG(1, 2))
	name := func() (of string) {
		for range 4 {
			of += strings.Fields(syllables)[random.IntN(10)]
		}
		return of
	}
	for i := range concepts {
		row, key := n.rows.Put(replica.Memory{ID: memoryID(i)}), name()+" "+name()
		n.put(row, memoryRows{Mentions: []mention{{conceptID(key), salienceName}}})
		n.name(conceptID(key), key, nil)
	}
	var query []string
	for range maxQueryWords {
		query = append(query, name()+"x")
	}
	text := words(strings.Join(query, " "), maxQueryWords)
	ended, end := context.WithCancel(t.Context())
	end()
	if n.nearly(ended, text[:1]); n.fuzzy.next > indexAtOnce {
		t.Errorf("a search whose time had ended indexed %d names", n.fuzzy.next)
	}
	n.nearly(t.Context(), text[:1]) // builds the index
	start := time.Now()
	n.nearly(t.Context(), text)
	whole := time.Since(start)
	ctx, cancel := context.WithTimeout(t.Context(), whole/20)
	defer cancel()
	start = time.Now()
	n.nearly(ctx, text)
	if took := time.Since(start); took > whole/2 {
		t.Errorf("the search went on for %v of %v, though its time ended after %v", took, whole, whole/20)
	}
}
