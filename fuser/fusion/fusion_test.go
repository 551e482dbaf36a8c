package fusion_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	rrf        = triskelev1.FusionMethod_FUSION_METHOD_RRF
	convex     = triskelev1.FusionMethod_FUSION_METHOD_CONVEX
	dbsf       = triskelev1.FusionMethod_FUSION_METHOD_DBSF
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

// fuse is Fuse for tests that only look at the order.
func fuse(lists []fusion.List, options fusion.Options) []fusion.Fused {
	return fusion.Fuse(lists, options).Hits
}

var methods = []triskelev1.FusionMethod{rrf, convex, dbsf}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12 }

func TestRRFByHand(t *testing.T) {
	lists := []fusion.List{
		list("lexical", 1, bm25, "a", "b"),
		list("dense", 1, cosine, "b", "c"),
		list("graph", .35, hops, "d", "c"),
	}
	fused := fuse(lists, fusion.Options{Method: rrf, K: 60, Sort: importance, Limit: 10})
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

// The reserve holds the hits that would come next. A hit that a quota raises is not among them.
func TestReserveComesNext(t *testing.T) {
	lists := []fusion.List{list("lexical", 1, bm25, "a", "b", "c", "d"), list("graph", .35, hops, "x", "y")}
	all := ids(fuse(lists, fusion.Options{K: 60, Limit: 10}))
	for limit := 1; limit < 7; limit++ {
		for reserve := range 7 {
			result := fusion.Fuse(lists, fusion.Options{K: 60, Limit: limit, Reserve: reserve})
			got := append(ids(result.Hits), ids(result.Reserve)...)
			if len(result.Hits) != min(limit, len(all)) || !slices.Equal(got, all[:min(limit+reserve, len(all))]) {
				t.Errorf("%d and %d: %v and %v of %v", limit, reserve, ids(result.Hits), ids(result.Reserve), all)
			}
		}
	}
	result := fusion.Fuse(lists, fusion.Options{K: 60, Limit: 3, Reserve: 2, Quotas: []fusion.Quota{{Leg: "graph", N: 1}}})
	if !slices.Equal(ids(result.Hits), []string{"a", "b", "x"}) || !slices.Equal(ids(result.Reserve), []string{"c", "d"}) {
		t.Errorf("with a quota: %v and %v", ids(result.Hits), ids(result.Reserve))
	}
}

func TestPriorMultipliesRelevanceOnly(t *testing.T) {
	l := list("lexical", 1, bm25, "minor", "major")
	l.Hits[0].Importance, l.Hits[1].Importance = 0, 1
	fused := fuse([]fusion.List{l}, fusion.Options{K: 60, Sort: relevance, Limit: 10})
	if got := ids(fused); !slices.Equal(got, []string{"major", "minor"}) {
		t.Errorf("relevance: %v", got)
	}
	if !near(fused[0].Score, 1./62) || !near(fused[1].Score, .7/61) {
		t.Errorf("scores %v, %v", fused[0].Score, fused[1].Score)
	}
	if got := ids(fuse([]fusion.List{l}, fusion.Options{K: 60, Sort: importance, Limit: 10})); !slices.Equal(got, []string{"minor", "major"}) {
		t.Errorf("importance must only break ties: %v", got)
	}
}

func TestImportanceBreaksTies(t *testing.T) {
	a, b := list("lexical", 1, bm25, "a"), list("dense", 1, cosine, "b")
	b.Hits[0].Importance = .9
	if got := ids(fuse([]fusion.List{a, b}, fusion.Options{K: 60, Sort: importance, Limit: 10})); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("order %v", got)
	}
}

func TestRecencyIgnoresScores(t *testing.T) {
	l := list("lexical", 1, bm25, "old", "new", "middle")
	l.Hits[0].CreatedAt, l.Hits[1].CreatedAt, l.Hits[2].CreatedAt = day(1), day(3), day(2)
	if got := ids(fuse([]fusion.List{l}, fusion.Options{K: 60, Sort: recency, Limit: 10})); !slices.Equal(got, []string{"new", "middle", "old"}) {
		t.Errorf("order %v", got)
	}
}

func TestOnlyOneLegKeepsItsOrder(t *testing.T) {
	want := make([]string, 200)
	for i := range want {
		want[i] = fmt.Sprintf("%03d", rand.New(rand.NewPCG(uint64(i), 1)).IntN(1000)+1000*i)
	}
	for _, method := range methods {
		got := ids(fuse([]fusion.List{list("lexical", 1, bm25, want...)}, fusion.Options{Method: method, K: 60, Sort: importance, Limit: len(want)}))
		if !slices.Equal(got, want) {
			t.Errorf("%v: the order of the only leg changed", method)
		}
		// Equal importance makes the prior a constant.
		got = ids(fuse([]fusion.List{list("lexical", 1, bm25, want...)}, fusion.Options{Method: method, K: 60, Sort: relevance, Limit: len(want)}))
		if !slices.Equal(got, want) {
			t.Errorf("%v: the prior changed the order of equally important memories", method)
		}
	}
}

func TestConvexNormalisers(t *testing.T) {
	text := fusion.List{Leg: "lexical", Namespace: "n", Weight: 1, Kind: bm25, Hits: []fusion.Hit{{ID: "a", Score: 8}, {ID: "b", Score: 4}}}
	// Without the scores of a and e, the least that was found stands for the least there is.
	meaning := fusion.List{Leg: "dense", Namespace: "n", Weight: 1, Kind: cosine, Hits: []fusion.Hit{{ID: "b", Score: .9}, {ID: "c", Score: .6}, {ID: "d", Score: .5}}}
	names := fusion.List{Leg: "graph", Namespace: "n", Weight: .35, Kind: hops, Hits: []fusion.Hit{{ID: "e", Score: 1000}, {ID: "d", Score: 1}}}
	alpha := .75
	fused := fuse([]fusion.List{text, meaning, names}, fusion.Options{Method: convex, Alpha: &alpha, Sort: importance, Limit: 10})
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

// With the scores of all candidates, a cosine counts from -1, and what the list lacks has its own score.
func TestConvexWithCompletedScores(t *testing.T) {
	text := fusion.List{Leg: "lexical", Namespace: "n", Weight: 1, Kind: bm25, Hits: []fusion.Hit{{ID: "a", Score: 8}, {ID: "b", Score: 4}}, Complete: true}
	meaning := fusion.List{
		Leg: "dense", Namespace: "n", Weight: 1, Kind: cosine, Hits: []fusion.Hit{{ID: "b", Score: .8}, {ID: "c", Score: .5}},
		Others: []fusion.Scored{{ID: "a", Score: .35}, {ID: "stranger", Score: .9}}, Complete: true,
	}
	alpha := .5
	result := fusion.Fuse([]fusion.List{text, meaning}, fusion.Options{Method: convex, Alpha: &alpha, Sort: importance, Limit: 10})
	want := map[string]float64{"a": .5 + .5*.75, "b": .25 + .5, "c": .5 * 1.5 / 1.8}
	if got := ids(result.Hits); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("order %v", got)
	}
	for _, f := range result.Hits {
		if !near(f.Score, want[f.ID]) {
			t.Errorf("%s: %v, want %v", f.ID, f.Score, want[f.ID])
		}
	}
	if c := result.Hits[0].Contributions[0]; c.Leg != "dense" || c.Rank != 0 || c.Raw != .35 {
		t.Errorf("a is not in the list, and gets %+v", c)
	}
	if result.Scales[1] != (fusion.Scale{Low: -1, High: .8}) || result.Scales[0] != (fusion.Scale{Low: 0, High: 8}) {
		t.Errorf("scales %+v", result.Scales)
	}
}

func TestDBSFByHand(t *testing.T) {
	// Mean 4, deviation 2: 8/6 is where 3 deviations below the mean become 0 and above it 1.
	l := fusion.List{Leg: "lexical", Namespace: "n", Weight: 2, Kind: bm25, Hits: []fusion.Hit{{ID: "a", Score: 6}, {ID: "b", Score: 2}}}
	result := fusion.Fuse([]fusion.List{l}, fusion.Options{Method: dbsf, Sort: importance, Limit: 10})
	if result.Scales[0] != (fusion.Scale{Low: -2, High: 10}) || !near(result.Hits[0].Score, 2*8./12) || !near(result.Hits[1].Score, 2*4./12) {
		t.Errorf("result %+v", result)
	}
	// An outlier stretches the scale instead of being cut to what another one has.
	l.Hits = []fusion.Hit{{ID: "a", Score: 1000}, {ID: "b", Score: 900}}
	for i := range 50 {
		l.Hits = append(l.Hits, fusion.Hit{ID: fmt.Sprint(i), Score: 1})
	}
	if got := fuse([]fusion.List{l}, fusion.Options{Method: dbsf, Sort: importance, Limit: 2}); !near(got[0].Score, 2) || got[1].Score >= 2 {
		t.Errorf("outliers %+v", got)
	}
}

// Scores that rise within a list, like those of a search in two parts, do not compare throughout it.
func TestPartsOfAListKeepTheirOrder(t *testing.T) {
	l := fusion.List{Leg: "lexical", Namespace: "n", Weight: 1, Kind: triskelev1.ScoreKind_SCORE_KIND_TS_RANK, Hits: []fusion.Hit{
		{ID: "all", Score: .1}, {ID: "any", Score: .9}, {ID: "less", Score: .2},
	}}
	for _, method := range methods {
		if got := ids(fuse([]fusion.List{l}, fusion.Options{Method: method, K: 60, Sort: importance, Limit: 10})); !slices.Equal(got, []string{"all", "any", "less"}) {
			t.Errorf("%v: order %v", method, got)
		}
	}
}

func TestRecencyDecays(t *testing.T) {
	l := list("lexical", 1, bm25, "old", "new")
	l.Hits[0].CreatedAt, l.Hits[1].CreatedAt = day(-20), day(0)
	options := fusion.Options{K: 60, Sort: relevance, Limit: 10, Recency: fusion.Recency{Weight: .5, HalfLife: 240 * time.Hour, Now: day(0)}}
	fused := fuse([]fusion.List{l}, options)
	if !slices.Equal(ids(fused), []string{"new", "old"}) || !near(fused[1].Prior, .85*(.5+.5/4)) || !near(fused[0].Prior, .85) {
		t.Errorf("fused %+v", fused)
	}
	options.Sort = importance
	if fused := fuse([]fusion.List{l}, options); fused[0].ID != "old" {
		t.Errorf("decay belongs to relevance: %+v", fused)
	}
}

func TestQuota(t *testing.T) {
	lists := func() []fusion.List {
		return []fusion.List{
			list("lexical", 1, bm25, "a", "b", "c", "d"),
			list("dense", 1, cosine, "a", "b", "c", "d"),
			list("graph", 0, hops, "x", "b", "y", "z"),
		}
	}
	for name, x := range map[string]struct {
		quotas []fusion.Quota
		want   string
	}{
		"none":                            {nil, "a b c d"},
		"what is there counts":            {[]fusion.Quota{{Leg: "graph", N: 1}}, "a b c d"},
		"the best of the leg come in":     {[]fusion.Quota{{Leg: "graph", N: 2}}, "a b c x"},
		"the worst of the others go":      {[]fusion.Quota{{Leg: "graph", N: 3}}, "a b x y"},
		"as many as there are":            {[]fusion.Quota{{Leg: "graph", N: 9}}, "b x y z"},
		"a leg that did not answer":       {[]fusion.Quota{{Leg: "temporal", N: 2}}, "a b c d"},
		"one quota does not eat anothers": {[]fusion.Quota{{Leg: "lexical", N: 4}, {Leg: "graph", N: 4}}, "a b c d"},
	} {
		for _, method := range []triskelev1.FusionMethod{triskelev1.FusionMethod_FUSION_METHOD_RRF, triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED} {
			fused := fuse(lists(), fusion.Options{Method: method, K: 60, Sort: importance, Limit: 4, Quotas: x.quotas})
			got := ids(fused)
			slices.Sort(got)
			if strings.Join(got, " ") != x.want {
				t.Errorf("%v, %s: %v, want %s", method, name, got, x.want)
			}
			if !slices.IsSortedFunc(fused, func(a, b fusion.Fused) int { return cmp.Compare(b.Score, a.Score) }) {
				t.Errorf("%v, %s: not in the order of scores: %+v", method, name, fused)
			}
		}
	}
}

func TestSameIDInTwoNamespacesStaysTwo(t *testing.T) {
	a, b := list("lexical", 1, bm25, "x"), list("lexical", 1, bm25, "x")
	b.Namespace = "m"
	if fused := fuse([]fusion.List{a, b}, fusion.Options{K: 60, Limit: 10}); len(fused) != 2 || fused[0].Namespace == fused[1].Namespace {
		t.Errorf("fused %+v", fused)
	}
}

// random makes up to four lists over a small set of ids.
func random(r *rand.Rand) []fusion.List {
	kinds := []triskelev1.ScoreKind{bm25, cosine, hops, triskelev1.ScoreKind_SCORE_KIND_TS_RANK}
	lists := make([]fusion.List, 1+r.IntN(4))
	for i := range lists {
		lists[i] = fusion.List{Leg: fmt.Sprint("leg", i), Namespace: "n", Weight: float64(r.IntN(5)) / 2, Trust: float64(r.IntN(3)), Kind: kinds[r.IntN(len(kinds))]}
		for _, id := range r.Perm(30)[:r.IntN(30)] {
			lists[i].Hits = append(lists[i].Hits, fusion.Hit{ID: fmt.Sprint(id), Score: r.NormFloat64(), Importance: float64(id%5) / 4, CreatedAt: day(id % 3), Entities: id % 4})
		}
		slices.SortFunc(lists[i].Hits, func(a, b fusion.Hit) int { return int(math.Copysign(1, b.Score-a.Score)) })
		for id := range 30 {
			other := fusion.Scored{ID: fmt.Sprint(id), Score: r.NormFloat64()}
			if r.IntN(2) == 0 && !slices.ContainsFunc(lists[i].Hits, func(h fusion.Hit) bool { return h.ID == other.ID }) {
				lists[i].Others = append(lists[i].Others, other)
			}
		}
		lists[i].Complete = r.IntN(2) == 0
	}
	return lists
}

func TestProperties(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 7))
		lists := random(r)
		options := fusion.Options{
			Method: methods[r.IntN(len(methods))], K: float64(r.IntN(100)),
			Sort: []triskelev1.SortBy{relevance, importance, recency}[r.IntN(3)], Limit: 1 + r.IntN(40),
		}
		fused := fuse(lists, options)
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
		if !reflect.DeepEqual(fuse(with, options), fused) {
			t.Fatalf("seed %d: a missing leg changed the answer", seed)
		}
		if !reflect.DeepEqual(fuse(lists, options), fused) {
			t.Fatalf("seed %d: the same lists gave another order", seed)
		}
		// Who answered first must not matter.
		shuffled := slices.Clone(lists)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if !reflect.DeepEqual(fuse(shuffled, options), fused) {
			t.Fatalf("seed %d: the order of the lists changed the answer", seed)
		}
		// A higher limit only appends.
		options.Limit = 1000
		if more := fuse(lists, options); !reflect.DeepEqual(more[:len(fused)], fused) {
			t.Fatalf("seed %d: the limit changed the order", seed)
		}
	}
}

// TestContributionsCanBeRecomputed holds every contribution against what its printed parts give.
func TestContributionsCanBeRecomputed(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		lists := random(r)
		method := methods[seed%3]
		exact := map[string]bool{}
		for _, list := range lists {
			for i := range list.Hits {
				if list.Hits[i].Exact = r.IntN(8) == 0; list.Hits[i].Exact {
					exact[list.Hits[i].ID] = true
				}
			}
		}
		bonus := float64(seed%4) / 2
		boost := fusion.EntityBoost{Weight: float64(seed%2) / 4, MaxTerms: 2}
		result := fusion.Fuse(lists, fusion.Options{Method: method, K: 20, Sort: relevance, ExactBonus: bonus, Boost: boost, Limit: 1000})
		for _, f := range result.Hits {
			prior := .7 + .3*f.Importance
			if exact[f.ID] {
				prior *= 1 + bonus
			}
			if f.Exact != exact[f.ID] || !near(f.Prior, prior) {
				t.Fatalf("seed %d: %s is exact %t, prior %v, want %t, %v", seed, f.ID, f.Exact, f.Prior, exact[f.ID], prior)
			}
			if id, _ := strconv.Atoi(f.ID); f.Entities != id%4 || !near(f.Boost, 1+boost.Weight*float64(min(id%4, 2))) {
				t.Fatalf("seed %d: %s has %d entities and is boosted by %v", seed, f.ID, f.Entities, f.Boost)
			}
			for _, c := range f.Contributions {
				i := slices.IndexFunc(lists, func(l fusion.List) bool { return l.Leg == c.Leg })
				want := f.Prior * f.Boost * c.Weight / (20 + float64(c.Rank))
				if method != rrf {
					scale := result.Scales[i]
					normalized := 1.
					if scale.ByRank {
						normalized = 1 - float64(c.Rank-1)/float64(len(lists[i].Hits))
					} else if scale.High != scale.Low {
						normalized = min(max((c.Raw-scale.Low)/(scale.High-scale.Low), 0), 1)
					}
					if !near(normalized, c.Normalized) {
						t.Fatalf("seed %d: %s of %s is normalised to %v, its printed parts give %v", seed, f.ID, c.Leg, c.Normalized, normalized)
					}
					want = f.Prior * f.Boost * c.Weight * normalized
				}
				if !near(c.Value, want) {
					t.Fatalf("seed %d: %s gets %v from %s, its printed parts give %v", seed, f.ID, c.Value, c.Leg, want)
				}
			}
		}
	}
}

func TestMonotoneInRank(t *testing.T) {
	for seed := range uint64(300) {
		lists := random(rand.New(rand.NewPCG(seed, 13)))
		for _, method := range methods {
			of := map[string]map[int]float64{}
			for _, f := range fuse(lists, fusion.Options{Method: method, K: 5, Sort: importance, Limit: 1000}) {
				for _, c := range f.Contributions {
					if of[c.Leg] == nil {
						of[c.Leg] = map[int]float64{}
					}
					of[c.Leg][c.Rank] = c.Value
				}
			}
			for leg, values := range of {
				for rank := 2; values[rank-1] > 0 || values[rank] > 0; rank++ {
					if values[rank] > values[rank-1] {
						t.Fatalf("seed %d, %v: rank %d of %s is worth %v, the one before %v", seed, method, rank, leg, values[rank], values[rank-1])
					}
				}
			}
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
		before := score(fuse(lists, options), id)
		l.Hits[i-1], l.Hits[i] = l.Hits[i], l.Hits[i-1]
		if after := score(fuse(lists, options), id); after < before {
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
		for _, method := range methods {
			for _, fused := range fuse(random(rand.New(rand.NewPCG(seed, 3))), fusion.Options{Method: method, K: k, Alpha: &alpha, Limit: limit}) {
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

// TestQuotasOfLongLists: quotas take no longer than the search with the highest depth in all namespaces of a recall.
func TestQuotasOfLongLists(t *testing.T) {
	const namespaces, depth = 16, 1000
	var lists []fusion.List
	for n := range namespaces {
		for l, name := range []string{"lexical", "dense", "graph"} {
			of := fusion.List{Leg: name, Namespace: fmt.Sprint(n), Weight: 1, Answered: true, Kind: []triskelev1.ScoreKind{bm25, cosine, hops}[l]}
			for h := range depth {
				of.Hits = append(of.Hits, fusion.Hit{ID: fmt.Sprint(name, h), Score: 1 - float64(h)/depth})
			}
			lists = append(lists, of)
		}
		lists[len(lists)-1].Weight = 100
	}
	start := time.Now()
	fused := fuse(lists, fusion.Options{
		Method: triskelev1.FusionMethod_FUSION_METHOD_RRF, K: 2, Limit: depth,
		Quotas: []fusion.Quota{{Leg: "lexical", N: depth / 2}, {Leg: "dense", N: depth / 2}},
	})
	counts := map[string]int{}
	for _, f := range fused {
		counts[f.Contributions[0].Leg]++
	}
	if counts["lexical"] != depth/2 || counts["dense"] != depth/2 {
		t.Errorf("got %v, want %d of each leg with a quota", counts, depth/2)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the quotas took %v", took)
	}
}
