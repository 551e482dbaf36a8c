package gateway_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/shingles"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	rrf    = triskelev1.FusionMethod_FUSION_METHOD_RRF
	convex = triskelev1.FusionMethod_FUSION_METHOD_CONVEX
	dbsf   = triskelev1.FusionMethod_FUSION_METHOD_DBSF
)

func merged(method triskelev1.FusionMethod) func(*triskelev1.RecallRequest) {
	return func(r *triskelev1.RecallRequest) { r.Fusion = &triskelev1.Fusion{Method: method} }
}

// scores makes a leg that answers ScoreByIds, after a while, with what it knows of the ids.
func (l leg) scores(after time.Duration, kind triskelev1.ScoreKind, known map[string]float64) leg {
	l.score = func(ctx context.Context, req *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error) {
		if after > 0 { // see after
			select {
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			case <-time.After(after):
			}
		}
		resp := &triskelev1.ScoreByIdsResponse{ScoreKind: kind}
		for _, id := range req.GetIds() {
			if score, ok := known[id]; ok {
				resp.Scores = append(resp.Scores, &triskelev1.ScoreByIdsResponse_Score{Id: id, Score: score})
			}
		}
		return resp, nil
	}
	return l
}

// TestAnswersCanBeRecomputed works every answer out again from what it prints: the contributions from ranks and raw scores,
// the score from these, the fused order from the scores, and from that, who was left out, and the reranker's scores, the
// order that is returned.
func TestAnswersCanBeRecomputed(t *testing.T) {
	memory := memories{sensitive: []string{"b"}, texts: map[string]string{"c": "the same, a", "a": "the same, a"}}
	legs := []leg{
		finds(bm25, "a", "b", "x", "d"),
		finds(cosine, "b", "c", "d").scores(0, cosine, map[string]float64{"a": .5}),
		finds(hops, "c", "y", "a"),
	}
	mark := func(l leg, mark func(*triskelev1.LegHit)) leg {
		search := l.search
		l.search = func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			resp, err := search(ctx, req)
			for _, h := range resp.GetHits() {
				mark(h)
			}
			return resp, err
		}
		return l
	}
	legs[0] = mark(legs[0], func(h *triskelev1.LegHit) { h.Exact = h.GetId() == "x" })
	legs[2] = mark(legs[2], func(h *triskelev1.LegHit) { h.Concepts = 4 - h.GetRank() })
	year := &triskelev1.Recency{Weight: .4, HalfLife: durationpb.New(365 * 24 * time.Hour)}
	boost := &triskelev1.EntityBoost{Weight: .25, MaxTerms: new(int32(2))}
	for _, method := range []triskelev1.FusionMethod{rrf, convex, dbsf} {
		for name, edit := range map[string]func(*triskelev1.RecallRequest){
			"plain":       func(*triskelev1.RecallRequest) {},
			"recency":     func(r *triskelev1.RecallRequest) { r.Recency = year },
			"diversity":   func(r *triskelev1.RecallRequest) { r.Diversity = &triskelev1.Diversity{Resemblance: 1} },
			"reranked":    reranked,
			"exact match": func(r *triskelev1.RecallRequest) { r.Fusion.ExactBonus = new(.5) },
			"entities":    func(r *triskelev1.RecallRequest) { r.EntityBoost = boost },
			"weights": func(r *triskelev1.RecallRequest) {
				r.Fusion.K, r.Fusion.Alpha = new(3.), new(.3)
				r.Legs = map[string]*triskelev1.LegOptions{"lexical": {Weight: new(.5)}, "graph": {Weight: new(2.)}}
			},
			"quota": func(r *triskelev1.RecallRequest) {
				r.Legs, r.Limit = map[string]*triskelev1.LegOptions{"graph": {Quota: new(int32(3))}}, new(int32(3))
			},
			"all of them": func(r *triskelev1.RecallRequest) {
				reranked(r)
				r.Fusion.ExactBonus, r.EntityBoost = new(.5), boost
				r.Recency, r.Diversity, r.Limit = year, &triskelev1.Diversity{Resemblance: 1}, new(int32(4))
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				req := request(merged(method))
				edit(req)
				resp, err := configured(t, judged(last(0)), memory, legs...).Recall(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%v, %s", method, name)
				for _, h := range resp.GetHits() {
					prior := .7 + .3*h.GetImportance()
					if name == "recency" || name == "all of them" {
						age := time.Since(h.GetCreatedAt().AsTime())
						prior *= 1 - year.GetWeight() + year.GetWeight()*math.Exp2(-float64(age)/float64(year.GetHalfLife().AsDuration()))
					}
					if h.GetExact() {
						prior *= 1 + resp.GetFusion().GetExactBonus()
					}
					entities := 1.
					if name == "entities" || name == "all of them" {
						entities += boost.GetWeight() * float64(min(h.GetEntityMatches(), boost.GetMaxTerms()))
					}
					if h.GetEntityBoost() != entities {
						t.Errorf("%s: %v, but its entities are worth %v", what, h, entities)
					}
					recomputeScore(t, what, resp, h, prior)
				}
				recomputeOrder(t, what, resp, req.Limit == nil)
				if name == "quota" && order(resp) != "c a y" {
					t.Errorf("%s: %q, not what the graph leg found", what, order(resp))
				}
				for _, h := range resp.GetHits() {
					for _, d := range h.GetDuplicates() {
						if alike := shingles.Of(h.GetMemory().GetContent()).Similarity(shingles.Of(memory.texts[d.GetId()])); alike != d.GetResemblance() || alike < 1 {
							t.Errorf("%s: %v, but the texts of the two are alike by %v", what, d, alike)
						}
					}
				}
				if resp.GetFusion().GetMethod() != method || strings.TrimPrefix(resp.GetScoreScale().String(), "SCORE_SCALE_") != strings.TrimPrefix(method.String(), "FUSION_METHOD_") {
					t.Errorf("%s: %v, scale %v", what, resp.GetFusion(), resp.GetScoreScale())
				}
			})
		}
	}
}

// recomputeScore works a hit's contributions and score out again.
func recomputeScore(t *testing.T, what string, resp *triskelev1.RecallResponse, h *triskelev1.Hit, prior float64) {
	t.Helper()
	sum := 0.
	for _, c := range h.GetContributions() {
		report := resp.GetLegs()[slices.IndexFunc(resp.GetLegs(), func(l *triskelev1.LegReport) bool { return l.GetLeg() == c.GetLeg() })]
		share := c.GetWeight() / (resp.GetFusion().GetK() + float64(c.GetRank()))
		if n := report.GetNormalization(); resp.GetFusion().GetMethod() != rrf {
			normalized := min(max((c.GetRawScore()-n.GetLow())/(n.GetHigh()-n.GetLow()), 0), 1)
			if n.GetByRank() {
				normalized = 1 - float64(c.GetRank()-1)/float64(report.GetReturned())
			}
			share = c.GetWeight() * normalized
		}
		if want := h.GetPrior() * h.GetEntityBoost() * share; math.Abs(c.GetValue()-want) > 1e-12 {
			t.Errorf("%s, %s: %v contributes %v, the printed numbers give %v", what, h.GetId(), c, c.GetValue(), want)
		}
		sum += c.GetValue()
	}
	if sum != h.GetScore() || math.Abs(h.GetPrior()-prior) > 1e-12 {
		t.Errorf("%s: %v adds up to %v, with a prior of %v", what, h, sum, prior)
	}
}

// recomputeOrder works the order of an answer out again; complete says that the limit has cut nothing off.
func recomputeOrder(t *testing.T, what string, resp *triskelev1.RecallResponse, complete bool) {
	t.Helper()
	fused := slices.Clone(resp.GetHits())
	slices.SortFunc(fused, func(a, b *triskelev1.Hit) int { return cmp.Compare(a.GetFusedRank(), b.GetFusedRank()) })
	for i := range fused[1:] {
		if fused[i].GetScore() < fused[i+1].GetScore() {
			t.Errorf("%s: the fused order is not that of the scores: %v before %v", what, fused[i], fused[i+1])
		}
	}
	absent := map[int32]bool{}
	for _, h := range fused {
		for _, d := range h.GetDuplicates() {
			absent[d.GetFusedRank()] = true
		}
	}
	for rank := int32(1); complete && rank <= 6; rank++ {
		if there := slices.ContainsFunc(fused, func(h *triskelev1.Hit) bool { return h.GetFusedRank() == rank }); there == absent[rank] {
			t.Errorf("%s: fused rank %d is there: %v, left out: %v", what, rank, there, absent[rank])
		}
	}
	for i, h := range resp.GetHits() {
		if h.GetRank() != int32(i+1) {
			t.Errorf("%s: rank %d at %d", what, h.GetRank(), i+1)
		}
		if i == 0 {
			continue
		}
		for _, before := range resp.GetHits()[:i] {
			switch {
			case before.RerankScore != nil && h.RerankScore != nil:
				if before.GetRerankScore() < h.GetRerankScore() {
					t.Errorf("%s: the reranked order is not that of its scores: %v before %v", what, before, h)
				}
			case before.RerankScore == nil && h.RerankScore == nil && before.GetFusedRank() > h.GetFusedRank():
				t.Errorf("%s: what was not reranked changed places: %v before %v", what, before, h)
			}
		}
	}
}

// TestExactBonus is set by a policy and by the request over it.
func TestExactBonus(t *testing.T) {
	found := finds(bm25, "a", "b")
	var marks []bool
	lexical := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		marks = append(marks, req.GetMarkExact())
		resp, err := found.search(ctx, req)
		resp.Hits[1].Exact = req.GetMarkExact()
		return resp, err
	}}
	g := configured(t, func(c *gateway.Config) {
		c.Policies = map[string]*triskelev1.RecallPolicy{"generous": {Fusion: &triskelev1.Fusion{ExactBonus: proto.Float64(.5)}}}
	}, memories{}, lexical, finds(cosine), finds(hops))
	for _, x := range []struct {
		namespace string
		bonus     *float64
		order     string
		used      float64
	}{
		{"n", nil, "a b", 0}, {"generous", nil, "b a", .5}, {"generous/below", proto.Float64(0), "a b", 0}, {"n", proto.Float64(2), "b a", 2},
	} {
		for _, method := range []triskelev1.FusionMethod{rrf, convex, dbsf} {
			resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
				r.Namespaces = []string{x.namespace}
				r.Fusion = &triskelev1.Fusion{Method: method, ExactBonus: x.bonus}
			}))
			if err != nil {
				t.Fatal(err)
			}
			if used := resp.GetFusion().GetExactBonus(); used != x.used || marks[len(marks)-1] != (x.used > 0) {
				t.Errorf("%v in %s: bonus %v, marked %t", x.bonus, x.namespace, used, marks[len(marks)-1])
			}
			if method == rrf && order(resp) != x.order {
				t.Errorf("%v in %s: order %q, want %q", x.bonus, x.namespace, order(resp), x.order)
			}
			for _, h := range resp.GetHits() {
				prior, sum := .85, 0.
				if h.GetExact() {
					prior *= 1 + x.used
				}
				for _, c := range h.GetContributions() {
					sum += c.GetValue()
				}
				if h.GetExact() != (h.GetId() == "b" && x.used > 0) || math.Abs(h.GetPrior()-prior) > 1e-12 || sum != h.GetScore() {
					t.Errorf("%v in %s by %v: %v", x.bonus, x.namespace, method, h)
				}
			}
		}
	}
}

func TestScoresAreCompleted(t *testing.T) {
	const searches, total = 80 * ms, 100 * ms
	known := map[string]float64{"a": .5, "stranger": 1}
	for name, x := range map[string]struct {
		dense  leg
		edit   func(*triskelev1.RecallRequest)
		reason string // why a's score is missing
		takes  time.Duration
		plain  bool // nobody is asked
	}{
		"in time":          {dense: after(20*ms, cosine, "b", "c").scores(30*ms, cosine, known), takes: 50 * ms},
		"late":             {dense: after(20*ms, cosine, "b", "c").scores(time.Hour, cosine, known), reason: "no answer within 60ms", takes: searches},
		"no time left":     {dense: after(79*ms, cosine, "b", "c").scores(0, cosine, known), reason: "only 1ms of the budget were left", takes: 79 * ms},
		"cannot":           {dense: finds(cosine, "b", "c"), reason: "the leg cannot score single memories"},
		"not wanted":       {dense: finds(cosine, "b", "c").scores(0, cosine, known), edit: func(r *triskelev1.RecallRequest) { r.Fusion.CompleteScores = new(bool) }, plain: true},
		"of no use":        {dense: finds(cosine, "b", "c").scores(0, cosine, known), edit: merged(rrf), plain: true},
		"on another scale": {dense: finds(cosine, "b", "c").scores(0, bm25, known), reason: "malformed answer"},
		"not a number":     {dense: finds(cosine, "b", "c").scores(0, cosine, map[string]float64{"a": math.NaN()}), reason: "malformed answer"},
		"panics": {dense: leg{search: finds(cosine, "b", "c").search, score: func(context.Context, *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error) {
			panic("boom")
		}}, reason: "internal error"},
		"everything is known": {dense: finds(cosine, "a", "b"), plain: true},
		"fails": {dense: leg{search: finds(cosine, "b", "c").search, score: func(context.Context, *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error) {
			return nil, status.Error(codes.Unavailable, "secret")
		}}, reason: "cannot be reached"},
		"says why it fails": {dense: leg{search: finds(cosine, "b", "c").search, score: func(context.Context, *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error) {
			return nil, status.Error(codes.FailedPrecondition, "the embedder is away")
		}}, reason: "the embedder is away"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(t, memories{}, finds(bm25, "a", "b"), x.dense, finds(hops))
			start := time.Now()
			resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
				merged(convex)(r)
				if x.edit != nil {
					x.edit(r)
				}
			}))
			if took := time.Since(start); err != nil || took != x.takes {
				t.Fatalf("%s: %v, took %v", name, err, took)
			}
			completion := resp.GetLegs()[1].GetCompletion()
			if x.plain {
				if completion != nil {
					t.Errorf("%s: %v", name, completion)
				}
				return
			}
			if completion.GetAsked() != 1 || completion.GetMissingReason() != x.reason || (completion.GetScored() == 1) != (x.reason == "") {
				t.Errorf("%s: %v", name, completion)
			}
			// With every score known, a cosine counts from -1; without, from the least that was found.
			if low := resp.GetLegs()[1].GetNormalization().GetLow(); (low == -1) != (x.reason == "") {
				t.Errorf("%s: scores count from %v", name, low)
			}
			i := slices.IndexFunc(resp.GetHits(), func(h *triskelev1.Hit) bool { return h.GetId() == "a" })
			if c := resp.GetHits()[i].GetContributions(); (c[0].GetLeg() == "dense" && c[0].GetRank() == 0 && c[0].GetRawScore() == .5) != (x.reason == "") {
				t.Errorf("%s: a gets %v", name, c)
			}
			if resp.GetDegraded() {
				t.Errorf("%s: degraded: %s", name, resp.GetDegradedReason())
			}
		})
	}
}

// Two legs are asked at once, each for what only the other found.
func TestScoresOfTwoLegs(t *testing.T) {
	full := make([]string, 50)
	for i := range full {
		full[i] = fmt.Sprintf("x%02d", i)
	}
	for range 20 { // for the race detector
		synctest.Test(t, func(t *testing.T) { // a busy machine takes no time from the budget
			lexical := finds(bm25, full...).scores(0, bm25, map[string]float64{"b": 3})
			g := newGateway(t, memories{}, lexical, finds(cosine, "b").scores(0, cosine, map[string]float64{"x00": .5}), finds(hops))
			resp, err := g.Recall(t.Context(), request(merged(convex)))
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.GetLegs()[0].GetCompletion(); got.GetScored() != 1 {
				t.Errorf("lexical: got %v, want 1 scored", got)
			}
			if got := resp.GetLegs()[1].GetCompletion(); got.GetAsked() != 50 {
				t.Errorf("dense: got %v, want 50 asked", got)
			}
		})
	}
}

// The vector that the dense leg searched with is used again, so that it need not make it twice.
func TestScoresReuseTheVector(t *testing.T) {
	var asked *triskelev1.ScoreByIdsRequest
	dense := leg{
		search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			resp, err := finds(cosine, "b").search(ctx, req)
			if req.GetReturnVector() {
				resp.Vector = []float32{3, 4}
			}
			return resp, err
		},
		score: func(_ context.Context, req *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error) {
			asked = req
			return &triskelev1.ScoreByIdsResponse{ScoreKind: cosine}, nil
		},
	}
	g := newGateway(t, memories{}, finds(bm25, "a", "b"), dense, finds(hops, "c"))
	if _, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		merged(convex)(r)
		r.Legs = map[string]*triskelev1.LegOptions{"dense": {Scorer: triskelev1.Scorer_SCORER_TS_RANK}}
	})); err != nil {
		t.Fatal(err)
	}
	if asked.GetScorer() != triskelev1.Scorer_SCORER_TS_RANK || asked.GetNamespace() != "n" || !slices.Equal(asked.GetVector(), []float32{3, 4}) || !slices.Equal(asked.GetIds(), []string{"a", "c"}) {
		t.Errorf("asked %v", asked)
	}
}

func TestQuotaOfALeg(t *testing.T) {
	legs := []leg{finds(bm25, "a", "b", "c"), finds(cosine, "a", "b", "c"), finds(hops, "x", "y")}
	three, two := int32(3), int32(2)
	resp, err := newGateway(t, memories{}, legs...).Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.Limit, r.Legs = &three, map[string]*triskelev1.LegOptions{"graph": {Quota: &two}}
	}))
	if err != nil || order(resp) != "a x y" {
		t.Errorf("%v, %v", resp, err)
	}
	g := configured(t, func(c *gateway.Config) { c.Legs[2].Quota = 1 }, memories{}, legs...)
	if resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.Limit = &three })); err != nil || order(resp) != "a b x" {
		t.Errorf("as configured: %v, %v", resp, err)
	}
}

func TestPolicies(t *testing.T) {
	policies, err := gateway.ParsePolicies([]byte(`{
		"": {"fusion": {"k": 10}, "legs": {"graph": {"enabled": false}}},
		"acme": {"fusion": {"method": "dbsf"}, "legs": {"lexical": {"weight": 3, "depth": 7}}},
		"acme/ops": {"legs": {"lexical": {"weight": 4}, "graph": {"enabled": true}}, "required_legs": ["dense"]}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	dense := finds(cosine, "b")
	g := configured(t, func(c *gateway.Config) { c.Policies = policies }, memories{}, finds(bm25, "a"), leg{
		search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			return dense.search(ctx, req)
		},
	}, finds(hops, "c"))
	ask := func(edit func(*triskelev1.RecallRequest), namespaces ...string) (*triskelev1.RecallResponse, error) {
		return g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Namespaces = namespaces
			if edit != nil {
				edit(r)
			}
		}))
	}
	k := 5.
	for name, x := range map[string]struct {
		namespaces []string
		edit       func(*triskelev1.RecallRequest)
		method     triskelev1.FusionMethod
		k          float64
		weight     float64
		states     string
	}{
		"of all":                   {namespaces: []string{"zebra"}, method: rrf, k: 10, weight: 1, states: "OK OK SKIPPED"},
		"of the namespace":         {namespaces: []string{"acme"}, method: dbsf, weight: 3, states: "OK OK SKIPPED"},
		"of a namespace above":     {namespaces: []string{"acme/sales/emea"}, method: dbsf, weight: 3, states: "OK OK SKIPPED"},
		"on top of those above":    {namespaces: []string{"acme/ops"}, method: dbsf, weight: 4, states: "OK OK OK"},
		"a name that starts alike": {namespaces: []string{"acmes"}, method: rrf, k: 10, weight: 1, states: "OK OK SKIPPED"},
		"under the request": {namespaces: []string{"acme/ops"}, edit: func(r *triskelev1.RecallRequest) {
			r.Fusion = &triskelev1.Fusion{Method: rrf, K: &k}
			r.Legs = map[string]*triskelev1.LegOptions{"lexical": {Weight: &k}}
		}, method: rrf, k: 5, weight: 5, states: "OK OK OK"},
		"merged by the first": {namespaces: []string{"zebra", "acme"}, method: rrf, k: 10, weight: 1, states: "OK OK OK OK SKIPPED SKIPPED"},
	} {
		resp, err := ask(x.edit, x.namespaces...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f := resp.GetFusion(); f.GetMethod() != x.method || f.GetK() != x.k || resp.GetLegs()[0].GetWeight() != x.weight || states(resp) != x.states {
			t.Errorf("%s: %v, weight %v, states %s", name, f, resp.GetLegs()[0].GetWeight(), states(resp))
		}
	}
	dense = fails(codes.Unavailable)
	if _, err := ask(nil, "acme/ops"); status.Code(err) != codes.Unavailable {
		t.Errorf("a leg required by policy: %v", err)
	}
	if resp, err := ask(nil, "acme"); err != nil || !strings.Contains(resp.GetDegradedReason(), "dense") {
		t.Errorf("the same leg elsewhere: %v, %v", resp, err)
	}
	for name, x := range map[string]struct{ text, want string }{
		"no JSON":       {`{`, ""},
		"no object":     {`[]`, ""},
		"unknown field": {"{\n  \"acme\": {},\n  \"é\": {\n    \"fusion\": {\"k\": 1}, \"colour\": 1}\n}", `policy of namespace "é": proto: (line 4:25): unknown field "colour"`},
		"twice":         {`{"acme": {}, "acme": {}}`, ""},
	} {
		if _, err := gateway.ParsePolicies([]byte(x.text)); err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "--policies: "+x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
	off := func(legs ...string) *triskelev1.RecallPolicy {
		policy := &triskelev1.RecallPolicy{Legs: map[string]*triskelev1.LegOptions{}}
		for _, leg := range legs {
			policy.Legs[leg] = &triskelev1.LegOptions{Enabled: new(bool)}
		}
		return policy
	}
	lacking := off("dense")
	lacking.RequiredLegs = []string{"dense"}
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for text, policies := range map[string]map[string]*triskelev1.RecallPolicy{
		`"acme/*": is no namespace`:           {"acme/*": {}},
		`"Acme": is no namespace`:             {"Acme": {}},
		`"acme/": is no namespace`:            {"acme/": {}},
		"must leave at least one leg enabled": {"acme": off("lexical", "dense", "graph")},
		"must not have dense, which is disabled by the policy of the namespace": {"acme": lacking},
	} {
		config := gateway.DefaultConfig()
		config.Legs, config.Policies = gateway.DefaultLegs(nil), policies
		if _, err := gateway.New(config, make([]triskelev1.LegServiceClient, 3), memories{}, process.Service("fuser"), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	if _, err := ask(func(r *triskelev1.RecallRequest) { r.Legs = off("dense").GetLegs() }, "acme/ops"); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "must not have dense, which is disabled by the request") {
		t.Errorf("without a required leg: %v", err)
	}
}

func TestEntityBoost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hit := func(id string, rank int32, concepts int32) *triskelev1.LegHit {
			return &triskelev1.LegHit{Id: id, Rank: rank, Importance: 1, Score: 1, Concepts: concepts}
		}
		graph := answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: hops, Hits: []*triskelev1.LegHit{hit("b", 1, 1), hit("c", 2, 5)}})
		g := configured(t, func(c *gateway.Config) {
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {EntityBoost: &triskelev1.EntityBoost{Weight: .5}}}
		}, memories{}, finds(bm25, "a", "b", "c"), finds(cosine), graph)
		for name, x := range map[string]struct {
			boost *triskelev1.EntityBoost
			want  string
			of    map[string]float64
		}{
			"by policy":               {nil, "c b a", map[string]float64{"a": 1, "b": 1.5, "c": 2.5}}, // three terms count
			"one term by request":     {&triskelev1.EntityBoost{Weight: .5, MaxTerms: new(int32(1))}, "b c a", map[string]float64{"a": 1, "b": 1.5, "c": 1.5}},
			"switched off by request": {&triskelev1.EntityBoost{}, "b c a", map[string]float64{"a": 1, "b": 1, "c": 1}},
		} {
			resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.EntityBoost, r.Explain = x.boost, true }))
			if err != nil || order(resp) != x.want {
				t.Errorf("%s: %v, %v", name, resp, err)
			}
			for _, h := range resp.GetHits() {
				sum := 0.
				for _, c := range h.GetContributions() {
					if want := h.GetPrior() * h.GetEntityBoost() * c.GetWeight() / (60 + float64(c.GetRank())); math.Abs(c.GetValue()-want) > 1e-12 {
						t.Errorf("%s: %s of %s is %v, its printed parts give %v", name, c.GetLeg(), h.GetId(), c.GetValue(), want)
					}
					sum += c.GetValue()
				}
				if sum != h.GetScore() || h.GetEntityBoost() != x.of[h.GetId()] {
					t.Errorf("%s: %v", name, h)
				}
			}
		}
	})
}

func TestTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := func(coverage float64) leg {
			return answers(&triskelev1.SearchResponse{
				State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: hops, Coverage: coverage, Hits: []*triskelev1.LegHit{{Id: "c", Rank: 1, Importance: 1}},
			})
		}
		for name, x := range map[string]struct {
			coverage float64
			trust    *float64
			want     string
			weight   float64 // of the leg
			counted  float64 // of that for c
		}{
			"nothing understood": {0, nil, "a b c", 1, 1},
			"some of it":         {.25, nil, "c a b", 1.75, 1.75},
			"most of it":         {.75, nil, "c a b", 3.25, 2}, // as much as the others together
			"more by request":    {.125, new(6.), "c a b", 1.75, 1.75},
			"not trusted":        {1, new(0.), "a b c", 1, 1},
		} {
			g := configured(t, func(c *gateway.Config) { c.Legs[2].Trust = 3 }, memories{}, finds(bm25, "a", "b"), finds(cosine, "a", "b"), graph(x.coverage))
			resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
				r.Legs, r.Explain = map[string]*triskelev1.LegOptions{"graph": {Trust: x.trust}}, true
			}))
			if err != nil || order(resp) != x.want {
				t.Errorf("%s: %v, %v", name, resp, err)
			}
			if report := resp.GetLegs()[2]; report.GetWeight() != x.weight || report.GetCoverage() != x.coverage {
				t.Errorf("%s: %v", name, report)
			}
			c := resp.GetHits()[strings.Index(x.want, "c")/2]
			if got := c.GetContributions()[0]; got.GetWeight() != x.counted || got.GetValue() != c.GetPrior()*x.counted/61 {
				t.Errorf("%s: %v", name, c)
			}
		}
	})
}

func TestRecencyIsPartOfThePrior(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		aged := func(id string, age time.Duration) *triskelev1.LegHit {
			return &triskelev1.LegHit{Id: id, Importance: .5, Score: 1, CreatedAt: timestamppb.New(time.Now().Add(-age))}
		}
		hits := []*triskelev1.LegHit{aged("old", 48*time.Hour), aged("new", 0)}
		for i, h := range hits {
			h.Rank = int32(i + 1)
		}
		g := configured(t, func(c *gateway.Config) {
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {Recency: &triskelev1.Recency{Weight: .5, HalfLife: durationpb.New(24 * time.Hour)}}}
		}, memories{}, answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: bm25, Hits: hits}), finds(cosine), finds(hops))
		resp, err := g.Recall(t.Context(), request(nil))
		if err != nil || order(resp) != "new old" || math.Abs(resp.GetHits()[1].GetPrior()-.85*.625) > 1e-9 {
			t.Errorf("by policy: %v, %v", resp, err)
		}
		resp, err = g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Recency = &triskelev1.Recency{HalfLife: durationpb.New(time.Hour)}
		}))
		if err != nil || order(resp) != "old new" {
			t.Errorf("switched off by the request: %v, %v", resp, err)
		}
	})
}

func TestMinScore(t *testing.T) {
	least := func(scale triskelev1.ScoreScale) func(*triskelev1.RecallRequest) {
		return func(r *triskelev1.RecallRequest) { r.MinScore = &triskelev1.MinScore{Scale: scale, Value: .02} }
	}
	const onRRF = triskelev1.ScoreScale_SCORE_SCALE_RRF
	for name, x := range map[string]struct {
		dense   leg
		scale   triskelev1.ScoreScale
		order   string
		ignored string
	}{
		"applied":        {finds(cosine, "a", "c"), onRRF, "a", ""},
		"another scale":  {finds(cosine, "a", "c"), triskelev1.ScoreScale_SCORE_SCALE_CONVEX, "a b c", "the scores are on another scale"},
		"a leg is gone":  {fails(codes.Unavailable), onRRF, "a b", "a leg is missing, without which scores are lower"},
		"nothing found":  {finds(cosine), onRRF, "", ""},
		"nothing to say": {answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_ABSTAINED}), onRRF, "", ""},
	} {
		resp, err := newGateway(t, memories{}, finds(bm25, "a", "b"), x.dense, finds(hops)).Recall(t.Context(), request(least(x.scale)))
		if err != nil || order(resp) != x.order || resp.GetMinScoreIgnored() != x.ignored {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
}

// What a quota brings in takes no place from others if min_score leaves it out.
func TestMinScoreAndQuota(t *testing.T) {
	legs := []leg{finds(bm25, "a", "b", "c", "d"), finds(cosine, "a", "b", "c"), finds(hops, "x", "y")}
	for sort, prior := range map[triskelev1.SortBy]float64{triskelev1.SortBy_SORT_BY_RELEVANCE: .85, triskelev1.SortBy_SORT_BY_RECENCY: 1} {
		for least, want := range map[float64]string{.02: "a b c", 1 / 61.5: "a b x", 1 / 62.5: "a x y"} {
			resp, err := newGateway(t, memories{}, legs...).Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
				r.SortBy, r.Limit, r.Legs = sort, new(int32(3)), map[string]*triskelev1.LegOptions{"graph": {Quota: new(int32(2))}}
				r.MinScore = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_RRF, Value: prior * least}
			}))
			if err != nil || order(resp) != want {
				t.Errorf("%v, at least %.4f: got %s, %v; want %s", sort, least, order(resp), err, want)
			}
		}
	}
}

// TestMinScoreByTime: a newer memory that scores too little does not take the place of an older one that is relevant.
func TestMinScoreByTime(t *testing.T) {
	hit := func(id string, rank int32, created int64) *triskelev1.LegHit {
		return &triskelev1.LegHit{Id: id, Rank: rank, Score: 9 - float64(rank), CreatedAt: timestamppb.New(time.Unix(created, 0))}
	}
	lexical := answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: bm25, Hits: []*triskelev1.LegHit{
		hit("old", 1, 10), hit("older", 2, 5), hit("new", 3, 30), hit("newer", 4, 40),
	}})
	resp, err := newGateway(t, memories{}, lexical, finds(cosine), finds(hops)).Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.SortBy, r.Limit, r.ReturnLeftOut = triskelev1.SortBy_SORT_BY_RECENCY, new(int32(2)), 9
		r.MinScore = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_RRF, Value: 1. / 62}
	}))
	if err != nil || order(resp) != "old older" || resp.GetNothingRelevant() || len(resp.GetLeftOut()) != 2 {
		t.Errorf("got %v, %v; want old, older and two left out", resp, err)
	}
}

// TestGraphOptionsAndPaths: what only the graph leg heeds reaches it, and the paths it gives reach the caller.
func TestGraphOptionsAndPaths(t *testing.T) {
	graph := finds(hops, "c")
	var asked *triskelev1.SearchRequest
	search := graph.search
	graph.search = func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
		asked = req
		resp, err := search(ctx, req)
		resp.Hits[0].Path = []*triskelev1.PathStep{{Concept: "Kestrel"}, {Relation: "mentions", Memory: "c"}}
		return resp, err
	}
	g := newGateway(t, memories{}, finds(bm25, "a"), finds(cosine, "c"), graph)
	then := timestamppb.New(time.Unix(1e9, 0))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.AsOf = then
		r.Legs = map[string]*triskelev1.LegOptions{"graph": {Traversal: triskelev1.Traversal_TRAVERSAL_PAGERANK}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if asked.GetTraversal() != triskelev1.Traversal_TRAVERSAL_PAGERANK || !asked.GetAsOf().AsTime().Equal(then.AsTime()) || !asked.GetExplain() {
		t.Errorf("the graph leg was asked %v", asked)
	}
	for _, h := range resp.GetHits() {
		for _, c := range h.GetContributions() {
			want := 0
			if h.GetId() == "c" && c.GetLeg() == "graph" {
				want = 2
			}
			if len(c.GetPath()) != want {
				t.Errorf("%s of %s: the path is %v", c.GetLeg(), h.GetId(), c.GetPath())
			}
		}
	}
}
