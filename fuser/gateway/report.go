package gateway

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// scoreScale names the scale of the scores that a method gives.
var scoreScale = map[triskelev1.FusionMethod]triskelev1.ScoreScale{
	triskelev1.FusionMethod_FUSION_METHOD_RRF:    triskelev1.ScoreScale_SCORE_SCALE_RRF,
	triskelev1.FusionMethod_FUSION_METHOD_CONVEX: triskelev1.ScoreScale_SCORE_SCALE_CONVEX,
	triskelev1.FusionMethod_FUSION_METHOD_DBSF:   triskelev1.ScoreScale_SCORE_SCALE_DBSF,
}

// fusionUsed is how the answer was merged, with what the request left open filled in.
func (r *recall) fusionUsed() *triskelev1.Fusion {
	used := &triskelev1.Fusion{Method: r.fusion.Method, ExactBonus: &r.fusion.ExactBonus}
	switch r.fusion.Method {
	case triskelev1.FusionMethod_FUSION_METHOD_RRF:
		used.K = &r.fusion.K
	case triskelev1.FusionMethod_FUSION_METHOD_CONVEX:
		used.Alpha, used.CompleteScores = r.fusion.Alpha, &r.settings[0].complete
	}
	return used
}

// reports says what each search did. scales are as the outcomes, or empty.
func reports(outcomes []outcome, scales []fusion.Scale) []*triskelev1.LegReport {
	out := make([]*triskelev1.LegReport, len(outcomes))
	merged := lists(outcomes)
	for i, o := range outcomes {
		weight := o.weight
		if fusion.Trusted(merged, i) {
			weight *= 1 + merged[i].Trust
		}
		out[i] = &triskelev1.LegReport{
			Leg: o.name, Namespace: o.namespace, State: o.state, Reason: o.reason, Returned: int32(o.returned),
			Budget: durationpb.New(o.budget), Spent: durationpb.New(o.spent), Weight: weight, Coverage: o.coverage, ScoreKind: o.kind,
			Behind: o.behind, Stale: o.stale, Completion: o.completion, Queued: durationpb.New(o.queued), Hedged: o.hedged,
		}
		if len(o.hits) > 0 && len(scales) > 0 {
			out[i].Normalization = &triskelev1.Normalization{Low: scales[i].Low, High: scales[i].High, ByRank: scales[i].ByRank}
		}
	}
	return out
}

// hit writes a winner out.
func (r *recall) hit(w winner, rank int, outcomes []outcome) *triskelev1.Hit {
	h := &triskelev1.Hit{
		Id: w.ID, Namespace: w.Namespace, Rank: int32(rank), Score: w.Score, Importance: w.Importance,
		CreatedAt: timestamppb.New(w.CreatedAt), Memory: w.memory, Prior: w.Prior, Matches: w.matches,
		Exact: w.Exact, EntityBoost: w.Boost, EntityMatches: int32(w.Entities),
		FusedRank: int32(w.rank), RerankScore: w.reranked, Duplicates: w.duplicates,
	}
	if r.req.GetIdsOnly() {
		h.Memory = nil
	}
	if r.req.GetExplain() {
		h.Contributions = contributions(w.Fused, outcomes)
	}
	return h
}

// contributions says what each leg added to a hit's score, and how it came to the hit.
func contributions(f fusion.Fused, outcomes []outcome) []*triskelev1.Contribution {
	out := make([]*triskelev1.Contribution, len(f.Contributions))
	for i, c := range f.Contributions {
		out[i] = &triskelev1.Contribution{
			Leg: c.Leg, Rank: int32(c.Rank), RawScore: c.Raw, ScoreKind: c.Kind, NormalizedScore: c.Normalized, Weight: c.Weight, Value: c.Value,
		}
		for _, o := range outcomes {
			if o.name == c.Leg && o.namespace == f.Namespace {
				out[i].Path = o.paths[f.ID]
			}
		}
	}
	return out
}

// missed is what happened to a part of the recall, in words.
var missed = map[triskelev1.LegState]string{
	triskelev1.LegState_LEG_STATE_TIMED_OUT: "timed out",
	triskelev1.LegState_LEG_STATE_FAILED:    "failed",
	triskelev1.LegState_LEG_STATE_TRUNCATED: "was cut short",
	triskelev1.LegState_LEG_STATE_SKIPPED:   "was skipped",
}

// legStates names each leg with its state, for the log.
func legStates(reports []*triskelev1.LegReport) string {
	texts := make([]string, len(reports))
	for i, l := range reports {
		texts[i] = l.GetLeg() + " " + stateName(l.GetState())
	}
	return strings.Join(texts, ", ")
}

// degradation is one sentence that a model can read, or "" if nothing is missing.
func degradation(outcomes []outcome, more []string) string {
	var parts []string
	for _, o := range outcomes {
		if o.stale {
			parts = append(parts, staleness(o))
		}
		if !o.lost() {
			continue
		}
		part := fmt.Sprintf("the %s leg %s (%s)", o.name, missed[o.state], o.reason)
		if !slices.Contains(parts, part) { // the same in several namespaces
			parts = append(parts, part)
		}
	}
	if parts = append(parts, more...); len(parts) == 0 {
		return ""
	}
	return "This recall is incomplete: " + strings.Join(parts, "; ") + "."
}

// staleness says that a leg searched an index that did not know of the write it was to wait for.
func staleness(o outcome) string {
	sentence := fmt.Sprintf("the %s leg does not know of the latest writes to %s yet", o.name, o.namespace)
	if o.behind > 0 {
		sentence += fmt.Sprintf(" (%d behind)", o.behind)
	}
	return sentence
}

// stateName is a state as people read it: "TIMED_OUT".
func stateName(s triskelev1.LegState) string { return strings.TrimPrefix(s.String(), "LEG_STATE_") }
