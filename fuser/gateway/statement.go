package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// maxStatement is how many hits one statement returns at most.
const maxStatement = 1000

// inOneStatement says whether the configured statement can answer a recall: it searches one namespace, ranks words by ts_rank,
// compares all vectors, walks the graph by hop decay, merges by ranks, waits for no index, and answers as a whole or not at
// all. A leg that is required is asked itself: it may be one that the statement lacks. The text of a memory is for legs alone,
// who look after it.
func (g *Gateway) inOneStatement(r *recall) bool {
	o := r.fusion
	if g.config.Statement == nil || len(r.settings) != 1 || o.Method != triskelev1.FusionMethod_FUSION_METHOD_RRF ||
		o.Recency.Weight > 0 || o.ExactBonus > 0 || o.Boost.Weight > 0 || len(o.Quotas) > 0 || len(r.tokens) > 0 || r.req.GetAsOf() != nil ||
		r.req.GetTextOf() != "" {
		return false
	}
	return !slices.ContainsFunc(r.settings[0].legs, func(l legSettings) bool {
		return l.required || l.minScore != nil || l.deadline > 0 ||
			l.traversal != triskelev1.Traversal_TRAVERSAL_UNSPECIFIED && l.traversal != triskelev1.Traversal_TRAVERSAL_HOP_DECAY ||
			l.scorer != triskelev1.Scorer_SCORER_UNSPECIFIED && l.scorer != triskelev1.Scorer_SCORER_TS_RANK
	})
}

// askStatement searches with one statement. Its legs end as the statement does; the others are not asked.
func (g *Gateway) askStatement(ctx context.Context, r *recall) (outcomes []outcome, result fusion.Result) {
	settings, namespace := r.settings[0], r.req.GetNamespaces()[0]
	limit := min(r.fusion.Limit+r.fusion.Spare, maxStatement)
	req := &triskelev1.RecallRequest{
		Namespaces: r.req.GetNamespaces(), Query: r.req.GetQuery(), Vector: r.req.GetVector(), Filter: r.req.GetFilter(),
		SortBy: r.req.GetSortBy(), Fusion: &triskelev1.Fusion{Method: r.fusion.Method, K: &r.fusion.K}, Limit: new(int32(limit)),
		Explain: r.req.GetExplain(), Legs: map[string]*triskelev1.LegOptions{},
	}
	for i, l := range settings.legs {
		if l.off == "" {
			req.Legs[g.config.Legs[i].Name] = &triskelev1.LegOptions{Weight: &l.weight, Depth: new(int32(l.depth))}
		}
	}
	start := time.Now()
	budget := r.plan.Second - r.looked
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	resp, err := g.config.Statement.Recall(ctx, req)
	spent := time.Since(start)
	for i, l := range settings.legs {
		o := outcome{
			search: search{leg: i, name: g.config.Legs[i].Name, namespace: namespace, legSettings: l},
			state:  triskelev1.LegState_LEG_STATE_SKIPPED, reason: l.off,
		}
		at := slices.IndexFunc(resp.GetLegs(), func(report *triskelev1.LegReport) bool { return report.GetLeg() == o.name })
		switch {
		case l.off != "":
		case err != nil:
			o.budget, o.spent = budget, spent
			o.state, o.reason, o.err = g.failure(ctx, o.name, err, budget)
		case at < 0:
			o.off = "not part of the one statement that answers"
			o.reason = o.off
		default:
			report := resp.GetLegs()[at]
			o.budget, o.spent = budget, spent
			o.state, o.reason, o.kind, o.returned = report.GetState(), report.GetReason(), report.GetScoreKind(), int(report.GetReturned())
		}
		outcomes = append(outcomes, o)
	}
	paths := map[string]map[string][]*triskelev1.PathStep{} // by leg and memory
	found := fetched{memories: make(map[string]*triskelev1.Memory, len(resp.GetHits()))}
	hits := make([]fusion.Fused, len(resp.GetHits()))
	for i, h := range resp.GetHits() {
		found.memories[h.GetId()] = h.GetMemory()
		hits[i] = fusion.Fused{
			Namespace: namespace, ID: h.GetId(), Importance: h.GetImportance(), CreatedAt: h.GetCreatedAt().AsTime(),
			Score: h.GetScore(), Prior: h.GetPrior(), Boost: 1, Contributions: make([]fusion.Contribution, len(h.GetContributions())),
		}
		for j, c := range h.GetContributions() {
			hits[i].Contributions[j] = fusion.Contribution{
				Leg: c.GetLeg(), Rank: int(c.GetRank()), Raw: c.GetRawScore(), Kind: c.GetScoreKind(), Weight: c.GetWeight(), Value: c.GetValue(),
			}
			if len(c.GetPath()) > 0 {
				if paths[c.GetLeg()] == nil {
					paths[c.GetLeg()] = map[string][]*triskelev1.PathStep{}
				}
				paths[c.GetLeg()][h.GetId()] = c.GetPath()
			}
		}
	}
	for i := range outcomes {
		outcomes[i].paths = paths[outcomes[i].name]
	}
	r.contents = map[string]fetched{namespace: found}
	first := min(r.fusion.Limit, len(hits))
	return outcomes, fusion.Result{Hits: hits[:first:first], Spare: hits[first:]}
}
