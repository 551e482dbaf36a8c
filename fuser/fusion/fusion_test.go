package fusion_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	rrf        = triskelev1.FusionMethod_FUSION_METHOD_RRF
	convex     = triskelev1.FusionMethod_FUSION_METHOD_CONVEX
	relevance  = triskelev1.SortBy_SORT_BY_RELEVANCE
	importance = triskelev1.SortBy_SORT_BY_IMPORTANCE
	recency    = triskelev1.SortBy_SORT_BY_RECENCY
	bm25       = triskelev1.ScoreKind_SCORE_KIND_BM25
	cosine     = triskelev1.ScoreKind_SCORE_KIND_COSINE
	hops       = triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY
)

// list makes a list of hits with falling scores, importance .5 and one day between them, the first the newest.
func list(leg string, weight float64, kind triskelev1.ScoreKind, ids ...string) fusion.List {
	l := fusion.List{Leg: leg, Namespace: "n", Weight: weight, Kind: kind}
	for i, id := range ids {
		l.Hits = append(l.Hits, fusion.Hit{ID: id, Score: float64(len(ids) - i), Importance: .5, CreatedAt: day(-i)})
	}
	return l
}

func day(n int) time.Time { return time.Date(2025, 6, 15+n, 0, 0, 0, 0, time.UTC) }

func ids(fused []fusion.Fused) []string {
	out := []string{}
	for _, f := range fused {
		out = append(out, f.ID)
	}
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12 }

func TestRRFByHand(t *testing.T) {
	lists := []fusion.List{
		list("lexical", 1, bm25, "a", "b"),
		list("dense", 1, cosine, "b", "c"),
		list("graph", .35, hops, "d", "c"),
	}
	fused := fusion.Fuse(lists, fusion.Options{Method: rrf, K: 60, Sort: importance, Limit: 10})
	want := map[string]float64{
		"b": 1./62 + 1./61,
		"c": 1./62 + .35/62,
		"a": 1. / 61,
		"d": .35 / 61,
	}
	if got := ids(fused); !slices.Equal(got, []string{"b", "c", "a", "d"}) {
		t.Fatalf("order %v", got)
	}
	for _, f := range fused {
		if !near(f.Score, want[f.ID]) || f.Prior != 1 {
			t.Errorf("%s: score %v, want %v; prior %v", f.ID, f.Score, want[f.ID], f.Prior)
		}
	}
}

func TestPriorMultipliesRelevanceOnly(t *testing.T) {
	l := list("lexical", 1, bm25, "minor", "major")
	l.Hits[0].Importance, l.Hits[1].Importance = 0, 1
	fused := fusion.Fuse([]fusion.List{l}, fusion.Options{K: 60, Sort: relevance, Limit: 10})
	if got := ids(fused); !slices.Equal(got, []string{"major", "minor"}) {
		t.Errorf("relevance: %v", got)
	}
	if !near(fused[0].Score, 1./62) || !near(fused[1].Score, .7/61) {
		t.Errorf("scores %v, %v", fused[0].Score, fused[1].Score)
	}
	if got := ids(fusion.Fuse([]fusion.List{l}, fusion.Options{K: 60, Sort: importance, Limit: 10})); !slices.Equal(got, []string{"minor", "major"}) {
		t.Errorf("importance must only break ties: %v", got)
	}
}

func TestImportanceBreaksTies(t *testing.T) {
	a, b := list("lexical", 1, bm25, "a"), list("dense", 1, cosine, "b")
	b.Hits[0].Importance = .9
	if got := ids(fusion.Fuse([]fusion.List{a, b}, fusion.Options{K: 60, Sort: importance, Limit: 10})); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("order %v", got)
	}
}

func TestRecencyIgnoresScores(t *testing.T) {
	l := list("lexical", 1, bm25, "old", "new", "middle")
	l.Hits[0].CreatedAt, l.Hits[1].CreatedAt, l.Hits[2].CreatedAt = day(1), day(3), day(2)
	if got := ids(fusion.Fuse([]fusion.List{l}, fusion.Options{K: 60, Sort: recency, Limit: 10})); !slices.Equal(got, []string{"new", "middle", "old"}) {
		t.Errorf("order %v", got)
	}
}

func TestOnlyOneLegKeepsItsOrder(t *testing.T) {
	want := make([]string, 200)
	for i := range want {
		want[i] = fmt.Sprintf("%03d", rand.New(rand.NewPCG(uint64(i), 1)).IntN(1000)+1000*i)
	}
	for _, method := range []triskelev1.FusionMethod{rrf, convex} {
		got := ids(fusion.Fuse([]fusion.List{list("lexical", 1, bm25, want...)}, fusion.Options{Method: method, K: 60, Sort: importance, Limit: len(want)}))
		if !slices.Equal(got, want) {
			t.Errorf("%v: the order of the only leg changed", method)
		}
		// Equal importance makes the prior a constant.
		got = ids(fusion.Fuse([]fusion.List{list("lexical", 1, bm25, want...)}, fusion.Options{Method: method, K: 60, Sort: relevance, Limit: len(want)}))
		if !slices.Equal(got, want) {
			t.Errorf("%v: the prior changed the order of equally important memories", method)
		}
	}
}

func TestConvexNormalisers(t *testing.T) {
	text := fusion.List{Leg: "lexical", Namespace: "n", Weight: 1, Kind: bm25, Hits: []fusion.Hit{{ID: "a", Score: 8}, {ID: "b", Score: 4}}}
	meaning := fusion.List{Leg: "dense", Namespace: "n", Weight: 1, Kind: cosine, Hits: []fusion.Hit{{ID: "b", Score: .9}, {ID: "c", Score: .6}, {ID: "d", Score: .5}}}
	names := fusion.List{Leg: "graph", Namespace: "n", Weight: .35, Kind: hops, Hits: []fusion.Hit{{ID: "e", Score: 1000}, {ID: "d", Score: 1}}}
	alpha := .75
	fused := fusion.Fuse([]fusion.List{text, meaning, names}, fusion.Options{Method: convex, Alpha: &alpha, Sort: importance, Limit: 10})
	want := map[string]float64{"a": .25, "b": .25*.5 + .75, "c": .75 * .25, "d": .35 * .5, "e": .35}
	for _, f := range fused {
		if !near(f.Score, want[f.ID]) {
			t.Errorf("%s: %v, want %v", f.ID, f.Score, want[f.ID])
		}
	}
	if got := ids(fused); !slices.Equal(got, []string{"b", "e", "a", "c", "d"}) {
		t.Errorf("order %v", got)
	}
}

func TestSameIDInTwoNamespacesStaysTwo(t *testing.T) {
	a, b := list("lexical", 1, bm25, "x"), list("lexical", 1, bm25, "x")
	b.Namespace = "m"
	if fused := fusion.Fuse([]fusion.List{a, b}, fusion.Options{K: 60, Limit: 10}); len(fused) != 2 || fused[0].Namespace == fused[1].Namespace {
		t.Errorf("fused %+v", fused)
	}
}

// random makes up to four lists over a small set of ids.
func random(r *rand.Rand) []fusion.List {
	kinds := []triskelev1.ScoreKind{bm25, cosine, hops, triskelev1.ScoreKind_SCORE_KIND_TS_RANK}
	lists := make([]fusion.List, 1+r.IntN(4))
	for i := range lists {
		lists[i] = fusion.List{Leg: fmt.Sprint("leg", i), Namespace: "n", Weight: float64(r.IntN(5)) / 2, Kind: kinds[r.IntN(len(kinds))]}
		for _, id := range r.Perm(30)[:r.IntN(30)] {
			lists[i].Hits = append(lists[i].Hits, fusion.Hit{ID: fmt.Sprint(id), Score: r.NormFloat64(), Importance: float64(id%5) / 4, CreatedAt: day(id % 3)})
		}
		slices.SortFunc(lists[i].Hits, func(a, b fusion.Hit) int { return int(math.Copysign(1, b.Score-a.Score)) })
	}
	return lists
}

func TestProperties(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 7))
		lists := random(r)
		options := fusion.Options{
			Method: []triskelev1.FusionMethod{rrf, convex}[r.IntN(2)], K: float64(r.IntN(100)),
			Sort: []triskelev1.SortBy{relevance, importance, recency}[r.IntN(3)], Limit: 1 + r.IntN(40),
		}
		fused := fusion.Fuse(lists, options)
		if len(fused) > options.Limit {
			t.Fatalf("seed %d: %d hits for a limit of %d", seed, len(fused), options.Limit)
		}
		for _, f := range fused {
			sum := 0.
			for _, c := range f.Contributions {
				sum += c.Value
			}
			if sum != f.Score || math.IsNaN(f.Score) || math.IsInf(f.Score, 0) {
				t.Fatalf("seed %d: contributions of %s add up to %v, its score is %v", seed, f.ID, sum, f.Score)
			}
		}
		// An empty list stands for a missing leg: it adds exactly nothing.
		with := append(slices.Clone(lists), fusion.List{Leg: "dead", Namespace: "n", Weight: 1})
		if !reflect.DeepEqual(fusion.Fuse(with, options), fused) {
			t.Fatalf("seed %d: a missing leg changed the answer", seed)
		}
		if !reflect.DeepEqual(fusion.Fuse(lists, options), fused) {
			t.Fatalf("seed %d: the same lists gave another order", seed)
		}
		// A higher limit only appends.
		options.Limit = 1000
		if more := fusion.Fuse(lists, options); !reflect.DeepEqual(more[:len(fused)], fused) {
			t.Fatalf("seed %d: the limit changed the order", seed)
		}
	}
}

func TestBetterRankNeverScoresLess(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		lists := random(r)
		l := &lists[0]
		if len(l.Hits) < 2 {
			continue
		}
		options := fusion.Options{Method: rrf, K: 60, Sort: importance, Limit: 1000}
		i := 1 + r.IntN(len(l.Hits)-1)
		id := l.Hits[i].ID
		before := score(fusion.Fuse(lists, options), id)
		l.Hits[i-1], l.Hits[i] = l.Hits[i], l.Hits[i-1]
		if after := score(fusion.Fuse(lists, options), id); after < before {
			t.Fatalf("seed %d: %s rose by a rank and its score fell from %v to %v", seed, id, before, after)
		}
	}
}

func score(fused []fusion.Fused, id string) float64 {
	for _, f := range fused {
		if f.ID == id {
			return f.Score
		}
	}
	return math.NaN()
}

func FuzzFuse(f *testing.F) {
	f.Add(uint64(1), 60., .5, 10)
	f.Fuzz(func(t *testing.T, seed uint64, k, alpha float64, limit int) {
		if !(k >= 0 && k <= 1000) || !(alpha >= 0 && alpha <= 1) || limit < 1 || limit > 1000 {
			return // outside the declared bounds
		}
		for _, method := range []triskelev1.FusionMethod{rrf, convex} {
			for _, fused := range fusion.Fuse(random(rand.New(rand.NewPCG(seed, 3))), fusion.Options{Method: method, K: k, Alpha: &alpha, Limit: limit}) {
				if math.IsNaN(fused.Score) || math.IsInf(fused.Score, 0) {
					t.Fatalf("score %v", fused.Score)
				}
			}
		}
	})
}

// BenchmarkFuse fuses three lists that share half their ids: the gateway's own work in a recall of depth 100.
func BenchmarkFuse(b *testing.B) {
	const depth = 100
	var lists []fusion.List
	for i, kind := range []triskelev1.ScoreKind{bm25, cosine, hops} {
		names := make([]string, depth)
		for j := range names {
			names[j] = fmt.Sprintf("0190c8a0-0000-7000-8000-%012d", j+i*depth/2)
		}
		lists = append(lists, list(fmt.Sprint("leg", i), 1, kind, names...))
	}
	b.ReportAllocs()
	for b.Loop() {
		fusion.Fuse(lists, fusion.Options{Method: rrf, K: 60, Sort: relevance, Limit: 10})
	}
}
