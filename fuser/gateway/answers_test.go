package gateway_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// reading is a gateway whose reranker gives log-odds that a text answers: those of the letter that the text ends with, for the
// first read texts. What it is not told of is hopeless.
func reading(t *testing.T, read int, odds map[string]float64) *gateway.Gateway {
	t.Helper()
	return configured(t, func(c *gateway.Config) {
		judged(func(_ context.Context, _ string, texts []string) ([]float64, error) {
			var scores []float64
			for _, text := range texts[:min(read, len(texts))] {
				score, known := odds[text[len(text)-1:]]
				if !known {
					score = -11
				}
				scores = append(scores, score)
			}
			return scores, nil
		})(c)
		c.Fusion.Method, c.Rerank.Answers, c.Rerank.Local, c.Rerank.Top = "calibrated", true, true, 4
	}, memories{}, finds(bm25, "a", "b", "c", "d", "e"), finds(cosine, "a", "b", "c", "d", "e"), finds(hops))
}

func ask(t *testing.T, g *gateway.Gateway, edit func(*triskelev1.RecallRequest)) *triskelev1.RecallResponse {
	t.Helper()
	resp, err := g.Recall(t.Context(), request(edit))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func scores(resp *triskelev1.RecallResponse) map[string]float64 {
	out := map[string]float64{}
	for _, h := range resp.GetHits() {
		out[h.GetId()] = h.GetScore()
	}
	return out
}

func logOdds(p float64) float64 { return math.Log(p / (1 - p)) }

// checkSum checks that a hit's contributions add up to its score.
func checkSum(t *testing.T, h *triskelev1.Hit) {
	t.Helper()
	sum := h.GetBaseLogOdds()
	for _, c := range h.GetContributions() {
		sum += c.GetValue()
	}
	if math.Abs(sum-logOdds(h.GetScore())) > 1e-6 {
		t.Errorf("%s: the contributions add up to %v, want %v", h.GetId(), sum, logOdds(h.GetScore()))
	}
}

// TestWhatIsReadCounts: the log-odds rise by two for a text that surely answers, by one for one that may, and not at all for one that
// was not read. The contributions still add up.
func TestWhatIsReadCounts(t *testing.T) {
	t.Parallel()
	fused := scores(ask(t, reading(t, 0, nil), nil))
	resp := ask(t, reading(t, 4, map[string]float64{"b": 0, "d": 20}), reranked)
	if report := resp.GetRerank(); report.GetReranked() != 4 || resp.GetDegraded() {
		t.Fatalf("report %v, degraded because %q", report, resp.GetDegradedReason())
	}
	if len(resp.GetHits()) != 5 || !slices.IsSortedFunc(resp.GetHits(), func(a, b *triskelev1.Hit) int {
		if a.GetScore() > b.GetScore() {
			return -1
		}
		return 1
	}) {
		t.Errorf("the hits %q are not in the order of their scores %v", order(resp), scores(resp))
	}
	for _, h := range resp.GetHits() {
		gain := map[string]float64{"b": 1, "d": 2}[h.GetId()]
		if got := logOdds(h.GetScore()) - logOdds(fused[h.GetId()]); math.Abs(got-gain) > 1e-4 {
			t.Errorf("%s: the log-odds rose by %.4f, want %v", h.GetId(), got, gain)
		}
		if read := h.GetId() != "e"; (h.RerankScore != nil) != read {
			t.Errorf("%s: score of the reranker %v, want one: %v", h.GetId(), h.RerankScore, read)
		}
		checkSum(t, h)
	}
}

// TestNothingAnswers: if the first text is hopeless and none that was read may answer, all log-odds fall by two, in the same order.
// Two texts are too few to tell.
func TestNothingAnswers(t *testing.T) {
	t.Parallel()
	before := ask(t, reading(t, 0, nil), nil)
	resp := ask(t, reading(t, 4, nil), reranked)
	if order(resp) != order(before) {
		t.Errorf("order %q, want %q", order(resp), order(before))
	}
	doubtful := scores(ask(t, reading(t, 4, map[string]float64{"d": -0.5}), reranked))
	if got := logOdds(doubtful["a"]) - logOdds(scores(before)["a"]); math.Abs(got+2) > 1e-3 {
		t.Errorf("with a fourth that hardly answers, the log-odds changed by %v, want -2", got)
	}
	for _, h := range resp.GetHits() {
		checkSum(t, h)
	}
	for id, score := range scores(before) {
		if got := logOdds(scores(resp)[id]) - logOdds(score); math.Abs(got+2) > 1e-3 {
			t.Errorf("%s: the log-odds changed by %v, want -2", id, got)
		}
	}
	for name, g := range map[string]*gateway.Gateway{
		"the first is doubtful": reading(t, 4, map[string]float64{"a": -7.9}), "the fourth may answer": reading(t, 4, map[string]float64{"d": 0}),
		"two were read": reading(t, 2, nil),
	} {
		if got := logOdds(scores(ask(t, g, reranked))["a"]) - logOdds(scores(before)["a"]); math.Abs(got) > 1e-2 {
			t.Errorf("%s: the log-odds changed by %v, want 0", name, got)
		}
	}
}

// TestMinScoreAfterReading: min_score is compared with the probabilities after reading, and what is left out may be returned.
func TestMinScoreAfterReading(t *testing.T) {
	t.Parallel()
	fused := scores(ask(t, reading(t, 0, nil), nil))
	least := func(value float64) func(*triskelev1.RecallRequest) {
		return func(r *triskelev1.RecallRequest) {
			reranked(r)
			r.MinScore = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY, Value: value}
			r.ReturnLeftOut = 2
		}
	}
	raised := reading(t, 4, map[string]float64{"d": 20})
	read := 1 / (1 + math.Exp(-logOdds(fused["d"])-2))
	if read <= fused["a"] {
		t.Fatalf("d has %v after reading, and a has %v", read, fused["a"])
	}
	resp := ask(t, raised, least((fused["a"]+read)/2)) // no fused score reaches it
	if order(resp) != "d" || len(resp.GetLeftOut()) != 2 || resp.GetNothingRelevant() {
		t.Fatalf("hits %q, %d left out, nothing relevant: %v; want d alone and two left out", order(resp), len(resp.GetLeftOut()), resp.GetNothingRelevant())
	}
	if first := resp.GetLeftOut()[0]; first.GetId() != "a" || first.GetRank() != 2 || first.GetFusedRank() != 1 || first.GetMemory() == nil {
		t.Errorf("the first that is left out is %v", first)
	}
	// All might have come to the first; to the other one, a alone might have, and so it alone was read.
	other := 1 / (1 + math.Exp(-logOdds((fused["a"]+fused["b"])/2)-2))
	for _, value := range []float64{fused["a"] * 0.3, other} {
		resp = ask(t, reading(t, 4, nil), least(value))
		if len(resp.GetHits()) != 0 || !resp.GetNothingRelevant() || len(resp.GetLeftOut()) != 2 {
			t.Errorf("%v: hits %q, %d left out, nothing relevant: %v; want none, as nothing answers", value, order(resp), len(resp.GetLeftOut()), resp.GetNothingRelevant())
		}
		if second := resp.GetLeftOut()[1]; second.GetFusedRank() != 2 || second.GetRank() != 2 {
			t.Errorf("%v: the second that is left out has rank %d, fused %d", value, second.GetRank(), second.GetFusedRank())
		}
	}
}

// TestQuotaBelowMinScore: a memory that reading cannot lift to min_score takes no place by a quota.
func TestQuotaBelowMinScore(t *testing.T) {
	t.Parallel()
	g := configured(t, func(c *gateway.Config) {
		judged(last(0))(c)
		c.Fusion.Method, c.Rerank.Answers, c.Rerank.Local = "calibrated", true, true
	}, memories{}, finds(bm25, "a", "b", "c"), finds(cosine, "a", "b", "c"), finds(hops, "x"))
	all := scores(ask(t, g, nil))
	resp := ask(t, g, func(r *triskelev1.RecallRequest) {
		reranked(r)
		r.Limit = new(int32(1))
		r.Legs = map[string]*triskelev1.LegOptions{"graph": {Quota: new(int32(1))}}
		least := logOdds(all["x"]) + 2.1
		r.MinScore = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY, Value: 1 / (1 + math.Exp(-least))}
	})
	if order(resp) != "a" {
		t.Errorf("hits %q of %v, want a", order(resp), all)
	}
}

// TestRerankIfLocal: a wish for a model in the process is fulfilled if there is one, and a policy and the request come first. An answer
// that it could not be fulfilled for is complete.
func TestRerankIfLocal(t *testing.T) {
	t.Parallel()
	wish := func(r *triskelev1.RecallRequest) {
		r.Rerank, r.Budget = &triskelev1.Rerank{IfLocal: true}, durationpb.New(time.Second)
	}
	policy := func(enabled bool, local bool) func(*gateway.Config) {
		return func(c *gateway.Config) {
			judged(last(0))(c)
			c.Rerank.Local = local
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {Rerank: &triskelev1.Rerank{Enabled: &enabled}}}
		}
	}
	local := func(c *gateway.Config) {
		judged(last(0))(c)
		c.Rerank.Local = true
	}
	legs := []leg{finds(bm25, "a", "b", "c"), finds(cosine), finds(hops)}
	for name, c := range map[string]struct {
		config   func(*gateway.Config)
		edit     func(*triskelev1.RecallRequest)
		order    string
		reranked int32
	}{
		"none":               {order: "a b c"},
		"remote":             {config: judged(last(0)), order: "a b c"},
		"remote by a policy": {config: policy(true, false), order: "c b a", reranked: 3},
		"local":              {config: local, order: "c b a", reranked: 3},
		"not by a policy":    {config: policy(false, true), order: "a b c"},
		"not by the request": {config: local, edit: func(r *triskelev1.RecallRequest) { r.Rerank.Enabled = new(false) }, order: "a b c"},
		"by the request":     {config: judged(last(0)), edit: func(r *triskelev1.RecallRequest) { r.Rerank.Enabled = new(true) }, order: "c b a", reranked: 3},
		"wished by a policy": {config: func(c *gateway.Config) {
			local(c)
			c.Policies = map[string]*triskelev1.RecallPolicy{"n": {Rerank: &triskelev1.Rerank{IfLocal: true}}}
		}, edit: func(r *triskelev1.RecallRequest) { r.Rerank = nil }, order: "c b a", reranked: 3},
		"late": {config: func(c *gateway.Config) {
			judged(last(time.Hour))(c)
			c.Rerank.Local, c.Rerank.Budget.Cap = true, 5*ms
		}, order: "a b c"},
	} {
		resp := ask(t, configured(t, c.config, memories{}, legs...), func(r *triskelev1.RecallRequest) {
			wish(r)
			if c.edit != nil {
				c.edit(r)
			}
		})
		if order(resp) != c.order || resp.GetRerank().GetReranked() != c.reranked || resp.GetDegraded() {
			t.Errorf("%s: order %q, report %v, degraded because %q", name, order(resp), resp.GetRerank(), resp.GetDegradedReason())
		}
	}
}

// TestTooLittleForTheReranker: the legs have all the time if the reranker's part would not suffice for it.
func TestTooLittleForTheReranker(t *testing.T) {
	t.Parallel()
	g := configured(t, func(c *gateway.Config) {
		judged(last(0))(c)
		c.Rerank.Local, c.Rerank.Answers, c.Rerank.Budget.Min, c.Budget.Default = true, true, 50*ms, 30*ms
	}, memories{}, finds(bm25, "a", "b"), finds(cosine), finds(hops))
	resp := ask(t, g, func(r *triskelev1.RecallRequest) { r.Rerank = &triskelev1.Rerank{IfLocal: true} }) // 100 ms
	if got := resp.GetLegs()[0].GetBudget().AsDuration(); got < 75*ms {
		t.Errorf("a leg has %v of 100 ms", got)
	}
	if resp.GetDegraded() {
		t.Errorf("degraded because %q", resp.GetDegradedReason())
	}
}

// TestSureAnswers: a memory whose text surely answers is likely, however improbable the legs find it. So min_score does not keep it
// from being read.
func TestSureAnswers(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	asked := func(score float64, edit func(*triskelev1.RecallRequest)) map[string]float64 {
		g := configured(t, func(c *gateway.Config) {
			judged(func(_ context.Context, _ string, texts []string) ([]float64, error) {
				scores := make([]float64, len(texts))
				for i, text := range texts {
					if text[len(text)-1:] == "j" {
						scores[i] = score
					}
				}
				return scores, nil
			})(c)
			c.Fusion.Method, c.Rerank.Answers, c.Rerank.Local, c.Rerank.Top = "calibrated", true, true, 10
		}, memories{}, finds(bm25, ids...), finds(cosine), finds(hops))
		resp := ask(t, g, edit)
		for _, h := range resp.GetHits() {
			checkSum(t, h)
		}
		return scores(resp)
	}
	fused := asked(0, nil)["j"]
	if fused > 0.01 {
		t.Fatalf("the legs find j as likely as %v", fused)
	}
	least := func(r *triskelev1.RecallRequest) {
		reranked(r)
		r.MinScore = &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY, Value: 0.08}
	}
	if got := asked(3, least)["j"]; math.Abs(got-0.1) > 1e-6 {
		t.Errorf("j has %v, want 0.1, as its text surely answers", got)
	}
	if got, there := asked(2.9, least)["j"]; there {
		t.Errorf("j has %v, though its text does not surely answer", got)
	}
}
