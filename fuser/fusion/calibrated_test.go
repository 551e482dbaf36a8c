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

const calibrated = triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED

// legs returns the lists of three legs that answered about the same memories.
func legs(words, meaning, graph []string) []fusion.List {
	lists := []fusion.List{list("lexical", 1, bm25, words...), list("dense", 1, cosine, meaning...), list("graph", 1, hops, graph...)}
	for i := range lists {
		lists[i].Answered, lists[i].Memories, lists[i].Terms, lists[i].Attainable = true, 100, 3, 10
		for h := range lists[i].Hits {
			lists[i].Hits[h].Matched = 1 / float64(h+1)
			if lists[i].Kind == cosine {
				lists[i].Hits[h].Score /= 10
			}
		}
	}
	return lists
}

func logOdds(p float64) float64 { return math.Log(p / (1 - p)) }

func TestProbabilitiesAndTheirContributions(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 23))
		lists := random(r)
		for i := range lists {
			lists[i].Answered = true
			lists[i].Weight = float64(r.IntN(4)) / 2
		}
		options := fusion.Options{Method: calibrated, Sort: relevance, Limit: 1000, Boost: fusion.EntityBoost{Weight: .2, MaxTerms: 2}}
		fused := fuse(lists, options)
		for _, f := range fused {
			if !(f.Score > 0 && f.Score < 1) {
				t.Fatalf("seed %d: %s has probability %v, want one between 0 and 1", seed, f.ID, f.Score)
			}
			sum := f.Base
			for _, c := range f.Contributions {
				sum += c.Value
			}
			if math.Abs(sum-logOdds(f.Score)) > 1e-9 {
				t.Fatalf("seed %d: base and contributions of %s add up to %v, want the log-odds %v", seed, f.ID, sum, logOdds(f.Score))
			}
		}
		shuffled := slices.Clone(lists)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got := fuse(shuffled, options); !reflect.DeepEqual(ids(got), ids(fused)) {
			t.Fatalf("seed %d: the order of the lists changed the answer from %v to %v", seed, ids(fused), ids(got))
		}
		lists = append(lists, fusion.List{Leg: "dead", Namespace: "n", Weight: 1, Kind: cosine})
		if got := fuse(lists, options); !reflect.DeepEqual(ids(got), ids(fused)) {
			t.Fatalf("seed %d: a leg that did not answer changed the answer from %v to %v", seed, ids(fused), ids(got))
		}
	}
}

// With one leg alive the order is its own, whatever the features say.
func TestOneLegKeepsItsOrder(t *testing.T) {
	for _, kind := range []triskelev1.ScoreKind{bm25, cosine, hops, triskelev1.ScoreKind_SCORE_KIND_TS_RANK, triskelev1.ScoreKind_SCORE_KIND_UNSPECIFIED} {
		l := list("leg", 1, kind, "a", "b", "c", "d", "e")
		l.Answered, l.Attainable, l.Memories = true, 4, 20
		for h := range l.Hits {
			l.Hits[h].Matched = float64(h) / 4 // the last has the most words
		}
		got := fuse([]fusion.List{l, {Leg: "other", Namespace: "n", Weight: 1, Answered: true}}, fusion.Options{Method: calibrated, Sort: importance, Limit: 10})
		if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(ids(got), want) {
			t.Errorf("%v: order %v, want %v", kind, ids(got), want)
		}
		for i := 1; i < len(got); i++ {
			if !(got[i].Score < got[i-1].Score) {
				t.Errorf("%v: %s has %v, want less than %v", kind, got[i].ID, got[i].Score, got[i-1].Score)
			}
		}
	}
}

func TestBadInputOfTheCalibratedFusion(t *testing.T) {
	options := fusion.Options{Method: calibrated, Sort: relevance, Limit: 10}
	for _, lists := range [][]fusion.List{nil, {}, legs(nil, nil, nil)} {
		if got := fuse(lists, options); len(got) != 0 {
			t.Errorf("%d hits of nothing, want none", len(got))
		}
	}
	one := fuse(legs([]string{"a"}, nil, nil), options)
	if len(one) != 1 || !(one[0].Score > 0 && one[0].Score < 1) {
		t.Errorf("one hit became %+v, want it with a probability", one)
	}
	lists := legs([]string{"a", "b", "c"}, []string{"a", "b", "c"}, nil)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64} {
		lists[1].Hits[1].Score = bad
		for _, f := range fuse(lists, options) {
			if math.IsNaN(f.Score) || math.IsInf(f.Score, 0) {
				t.Errorf("a score of %v made %s %v, want a probability", bad, f.ID, f.Score)
			}
		}
	}
	lists = legs([]string{"a", "b"}, []string{"b", "a"}, nil)
	for i := range lists {
		for h := range lists[i].Hits {
			lists[i].Hits[h].Score, lists[i].Hits[h].Matched = 1, 1
		}
	}
	for range 20 {
		if got := ids(fuse(lists, options)); len(got) != 2 || got[0] != ids(fuse(lists, options))[0] {
			t.Errorf("ties are ordered %v, want the same order each time", got)
		}
	}
}

// A leg that the model has never seen raises the odds by its rank: those of its first by e, times its weight.
func TestUnseenLeg(t *testing.T) {
	lists := legs([]string{"a", "b", "c"}, []string{"b", "a", "c"}, nil)
	options := fusion.Options{Method: calibrated, Sort: importance, Limit: 10}
	before := fuse(lists, options)
	fourth := list("temporal", 2, triskelev1.ScoreKind_SCORE_KIND_UNSPECIFIED, "c", "new")
	fourth.Answered = true
	after := fuse(append(lists, fourth), options)
	for id, want := range map[string]float64{"a": 0, "b": 0, "c": 2} {
		if got := logOdds(score(after, id)) - logOdds(score(before, id)); math.Abs(got-want) > 1e-9 {
			t.Errorf("the log-odds of %s rose by %v, want %v", id, got, want)
		}
	}
	if !slices.Contains(ids(after), "new") {
		t.Error("what the unseen leg alone found is missing")
	}
}

// A memory without a vector is judged as if only the words could be asked about it.
func TestSensitiveMemoryIsJudgedByItsWords(t *testing.T) {
	options := fusion.Options{Method: calibrated, Sort: importance, Limit: 10}
	lists := legs([]string{"secret", "a", "b"}, []string{"a", "b"}, []string{"b"})
	lists[1].Complete = true
	alone := legs([]string{"secret", "a", "b"}, nil, nil)[:1]
	got, want := fusion.Candidates(lists), fusion.Candidates(alone)
	at := func(all []fusion.Candidate) fusion.Candidate {
		return all[slices.IndexFunc(all, func(c fusion.Candidate) bool { return c.ID == "secret" })]
	}
	if g, w := fmt.Sprint(at(got).Features), fmt.Sprint(at(want).Features); g != w {
		t.Errorf("features %v, want those of the lexical leg alone, %v", g, w)
	}
	lists[1].Complete = false
	if p, complete := score(fuse(lists, options), "secret"), score(fuse(alone, options), "secret"); p == complete {
		t.Errorf("probability %v, want another if it may be in the dense leg's index", p)
	}
}

// A better score never lowers a memory beside the same others.
func TestMonotoneInScores(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 31))
		lists := legs([]string{"a", "b", "c", "d"}, []string{"d", "b", "a", "c"}, []string{"c", "a"})
		l := r.IntN(2)
		h := 1 + r.IntN(3)
		id := lists[l].Hits[h].ID
		options := fusion.Options{Method: calibrated, Sort: importance, Limit: 10}
		place := func() int { return slices.Index(ids(fuse(lists, options)), id) }
		before := place()
		high, low := lists[l].Hits[h-1].Score, lists[l].Hits[h].Score
		lists[l].Hits[h].Score = low + (high-low)*r.Float64()
		if after := place(); after > before {
			t.Fatalf("seed %d: %s rose from %v to %v in a list and fell from place %d to %d", seed, id, low, lists[l].Hits[h].Score, before, after)
		}
	}
}

func TestImportanceActsOnTheOdds(t *testing.T) {
	lists := legs([]string{"a", "b"}, []string{"a", "b"}, nil)
	plain := fuse(lists, fusion.Options{Method: calibrated, Sort: importance, Limit: 10})
	for i := range lists[:2] {
		lists[i].Hits[0].Importance, lists[i].Hits[1].Importance = 1, 0
	}
	prior := fuse(lists, fusion.Options{Method: calibrated, Sort: relevance, Limit: 10})
	for id, want := range map[string]float64{"a": math.Log(1 / .85), "b": math.Log(.7 / .85)} {
		if got := logOdds(score(prior, id)) - logOdds(score(plain, id)); math.Abs(got-want) > 1e-9 {
			t.Errorf("importance changed the log-odds of %s by %v, want %v", id, got, want)
		}
	}
}

// All of a query's rare words in one memory, and a leg that is sure of it, beat agreement of the others.
func TestSureWordsBeatWeakAgreement(t *testing.T) {
	lists := legs([]string{"pin", "x", "y"}, []string{"log", "x", "y"}, nil)
	lists[0].Hits[0].Score, lists[0].Hits[0].Matched = 12, 1
	for _, h := range []int{1, 2} {
		lists[0].Hits[h].Score, lists[0].Hits[h].Matched = 1, .1
	}
	for h := range lists[1].Hits {
		lists[1].Hits[h].Score = .107 - float64(h)/100
	}
	got := fuse(lists, fusion.Options{Method: calibrated, Sort: importance, Limit: 10})
	if got[0].ID != "pin" {
		t.Errorf("order %v, want pin first", ids(got))
	}
}

// TestTwins: a memory that says the same does not make the first one less likely, as a rival does.
func TestTwins(t *testing.T) {
	first := func(second float64) float64 { // by the cosine of the second
		lists := legs([]string{"a", "b", "x"}, []string{"a", "b", "x"}, nil)
		for l, scores := range [][]float64{{8, 8, 1}, {.6, second, .1}} {
			for h := range lists[l].Hits {
				lists[l].Hits[h].Score, lists[l].Hits[h].Matched = scores[h], scores[h]/8
			}
		}
		return fuse(lists, fusion.Options{Method: calibrated, Sort: relevance, Limit: 10})[0].Score
	}
	if twin, rival := first(.6), first(.599); twin < rival+.03 {
		t.Errorf("got %.3f beside a twin, %.3f beside a rival", twin, rival)
	}
}

func TestReadModelRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":            "x",
		"no terms":           `{"bias": 1}`,
		"an unknown feature": `{"terms": [{"feature": "colour", "low": 0, "high": 1, "weight": 1}]}`,
		"an unknown partner": `{"terms": [{"feature": "exact", "with": "colour", "low": 0, "high": 1, "weight": 1}]}`,
		"an empty piece":     `{"terms": [{"feature": "exact", "low": 1, "high": 1, "weight": 1}]}`,
	} {
		if _, err := fusion.ReadModel([]byte(text)); err == nil {
			t.Errorf("%s: no error, want one", name)
		}
	}
}

// BenchmarkModel evaluates the model for 150 candidates.
func BenchmarkModel(b *testing.B) {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprint(i))
	}
	candidates := fusion.Candidates(legs(names, append(names[25:50:50], names[:25]...), names[10:40]))
	model := fusion.BuiltIn()
	b.ReportAllocs()
	for b.Loop() {
		for i := range 150 {
			model.LogOdds(&candidates[i%len(candidates)])
		}
	}
}

// Where a memory borrows from its neighbours, scores count and votes do not. Other namespaces of the same recall are not concerned.
func TestThreadsAreJudgedByScores(t *testing.T) {
	t.Parallel()
	of := func(lent bool) []fusion.List {
		lists := legs([]string{"a", "b"}, []string{"b", "a"}, nil)
		lists[0].Hits[1].Lent = lent
		other := list("lexical", 1, bm25, "x")
		other.Namespace, other.Answered = "other", true
		return append(lists, other)
	}
	threaded, unthreaded := slices.Index(fusion.FeatureNames[:], "threaded"), slices.Index(fusion.FeatureNames[:], "unthreaded")
	for _, lent := range []bool{false, true} {
		for _, c := range fusion.Candidates(of(lent)) {
			want := float32(0)
			if lent && c.Namespace != "other" {
				want = 1
			}
			if c.Features[threaded] != want || c.Features[unthreaded] != 1-want {
				t.Errorf("lent %v: %s in %q has threaded %v, want %v", lent, c.ID, c.Namespace, c.Features[threaded], want)
			}
		}
	}
	options := fusion.Options{Method: calibrated, Sort: relevance, Limit: 10}
	scores := map[string]float64{}
	for _, f := range fuse(of(false), options) {
		scores[f.ID] = f.Score
	}
	for _, f := range fuse(of(true), options) {
		if same := f.Score == scores[f.ID]; same != (f.Namespace == "other") {
			t.Errorf("%s in %q has %v without threads and %v with them", f.ID, f.Namespace, scores[f.ID], f.Score)
		}
	}
}

// TestGreatWeights: a leg of a great weight makes all probabilities 1, and yet the order is that of its evidence, not of the importance.
func TestGreatWeights(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for _, weight := range []float64{1, 10, 100} {
		lists := legs(names, names, names)
		for l := range lists {
			for h := range lists[l].Hits {
				lists[l].Hits[h].Importance = float64(h) / 10
			}
		}
		lists[0].Weight = weight
		fused := fuse(lists, fusion.Options{Method: calibrated, Sort: relevance, Limit: 10})
		if got := ids(fused); !slices.Equal(got, names) {
			t.Errorf("weight %v: got %v, want %v", weight, got, names)
		}
	}
}

// TestVeryOldMemories: memories of which recency leaves next to nothing still have the order of their evidence.
func TestVeryOldMemories(t *testing.T) {
	names := []string{"a", "b", "c"}
	lists := legs(names, names, nil)
	for l := range lists {
		for h := range lists[l].Hits {
			lists[l].Hits[h].Importance = float64(h) / 10
		}
	}
	recency := fusion.Recency{Weight: 1, HalfLife: time.Hour, Now: day(2000)}
	for _, method := range append([]triskelev1.FusionMethod{calibrated}, methods...) {
		fused := fuse(lists, fusion.Options{Method: method, Sort: relevance, Limit: 10, Recency: recency})
		if got := ids(fused); !slices.Equal(got, names) {
			t.Errorf("%v: got %v, want %v", method, got, names)
		}
		for _, f := range fused {
			if math.IsInf(f.Base, 0) || math.IsNaN(f.Base) {
				t.Errorf("%v: %s: got the base %v, want a number", method, f.ID, f.Base)
			}
		}
	}
}

// TestLeastIsAProbability: in an order by time, what is less likely than Options.Least comes last.
func TestLeastIsAProbability(t *testing.T) {
	lists := legs([]string{"a", "b", "c"}, []string{"a", "b", "c"}, nil)
	for l := range lists[:2] {
		for h := range lists[l].Hits {
			lists[l].Hits[h].Score, lists[l].Hits[h].Matched = .3/float64(h+1), .3/float64(h+1)
			lists[l].Hits[h].CreatedAt = day(2000 + h)
		}
	}
	likely := fuse(lists, fusion.Options{Method: calibrated, Sort: relevance, Limit: 10})
	if likely[1].Score >= .5 || likely[1].Score == likely[2].Score {
		t.Fatalf("got probabilities %v and %v, want different ones below one half", likely[1].Score, likely[2].Score)
	}
	least := (likely[1].Score + likely[2].Score) / 2
	got := fuse(lists, fusion.Options{Method: calibrated, Sort: triskelev1.SortBy_SORT_BY_RECENCY, Limit: 10, Least: least})
	if want := []string{"b", "a", "c"}; !slices.Equal(ids(got), want) {
		t.Errorf("got %v, want %v", ids(got), want)
	}
}
