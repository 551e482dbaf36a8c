package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

var scoreScale = map[triskelev1.FusionMethod]triskelev1.ScoreScale{
	triskelev1.FusionMethod_FUSION_METHOD_RRF:    triskelev1.ScoreScale_SCORE_SCALE_RRF,
	triskelev1.FusionMethod_FUSION_METHOD_CONVEX: triskelev1.ScoreScale_SCORE_SCALE_CONVEX,
	triskelev1.FusionMethod_FUSION_METHOD_DBSF:   triskelev1.ScoreScale_SCORE_SCALE_DBSF,
	calibrated: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY,
}

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

// reports returns a report for each search. scales has an element for each outcome, or none.
func reports(outcomes []outcome, method triskelev1.FusionMethod, scales []fusion.Scale) []*triskelev1.LegReport {
	out := make([]*triskelev1.LegReport, len(outcomes))
	merged := lists(outcomes)
	for i, o := range outcomes {
		weight, a := o.weight, o.answer
		if method != calibrated && fusion.TrustApplies(merged, i) {
			weight *= 1 + merged[i].Trust
		}
		out[i] = &triskelev1.LegReport{
			Leg: o.name, Namespace: o.namespace, State: o.state, Reason: o.reason, Returned: int32(len(o.hits)),
			Budget: durationpb.New(o.budget), Spent: durationpb.New(o.spent), Weight: weight, Coverage: a.GetCoverage(), ScoreKind: a.GetScoreKind(),
			Behind: a.GetBehind(), Stale: a.GetStale(), Age: a.GetAge(), Away: a.GetAway(), Completion: o.completion, Queued: durationpb.New(o.queued), Hedged: o.hedged,
		}
		if len(o.hits) > 0 && len(scales) > 0 {
			out[i].Normalization = &triskelev1.Normalization{Low: scales[i].Low, High: scales[i].High, ByRank: scales[i].ByRank}
		}
	}
	return out
}

func (r *recall) hit(w winner, rank int, outcomes []outcome) *triskelev1.Hit {
	h := &triskelev1.Hit{
		Id: w.ID, Namespace: w.Namespace, Rank: int32(rank), Score: w.Score, Importance: w.Importance,
		CreatedAt: timestamppb.New(w.CreatedAt), Memory: w.memory, Prior: w.Prior, Matches: w.matches,
		Exact: w.Exact, EntityBoost: w.Boost, EntityMatches: int32(w.Entities), BaseLogOdds: w.Base,
		FusedRank: int32(w.rank), RerankScore: w.reranked, Duplicates: w.duplicates, MatchedTime: w.matchedTime,
	}
	if r.req.GetIdsOnly() {
		h.Memory = nil
	}
	if r.req.GetExplain() {
		h.Contributions = contributions(w.Fused, outcomes)
		h.Why = why(h, lenders(w.Fused, outcomes))
	}
	return h
}

// lenders returns the legs whose score for a memory is partly its neighbours'.
func lenders(f fusion.Fused, outcomes []outcome) (legs []string) {
	for _, o := range outcomes {
		if o.namespace == f.Namespace && slices.ContainsFunc(o.hits, func(h fusion.Hit) bool { return h.ID == f.ID && h.Lent }) {
			legs = append(legs, o.name)
		}
	}
	return legs
}

func contributions(f fusion.Fused, outcomes []outcome) []*triskelev1.Contribution {
	out := make([]*triskelev1.Contribution, len(f.Contributions))
	for i, c := range f.Contributions {
		out[i] = &triskelev1.Contribution{
			Leg: c.Leg, Rank: int32(c.Rank), RawScore: c.Raw, ScoreKind: c.Kind, NormalizedScore: c.Normalized, Weight: c.Weight, Value: c.Value,
		}
		for _, o := range outcomes {
			if o.name == c.Leg && o.namespace == f.Namespace && c.Rank > 0 {
				out[i].Path = o.answer.GetHits()[c.Rank-1].GetPath()
			}
		}
	}
	return out
}

// missed describes the states in which a part of the recall is missing.
var missed = map[triskelev1.LegState]string{
	triskelev1.LegState_LEG_STATE_TIMED_OUT: "timed out",
	triskelev1.LegState_LEG_STATE_FAILED:    "failed",
	triskelev1.LegState_LEG_STATE_TRUNCATED: "was cut short",
	triskelev1.LegState_LEG_STATE_SKIPPED:   "was skipped",
}

// degradation is a sentence for models about the parts that are missing, "" if there are none.
func degradation(outcomes []outcome, more []string) string {
	var parts []string
	if old := remembered(outcomes); old != "" {
		parts = append(parts, old)
	}
	for _, o := range outcomes {
		if o.answer.GetStale() {
			part := fmt.Sprintf("the %s leg does not know of the latest writes to %s yet", o.name, o.namespace)
			if behind := o.answer.GetBehind(); behind > 0 {
				part += fmt.Sprintf(" (%d behind)", behind)
			}
			parts = append(parts, part)
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

// remembered says which legs searched what they had in memory, since their databases do not answer. It returns "" if none did.
func remembered(outcomes []outcome) string {
	var legs []string
	var oldest time.Duration
	searches := 0
	for _, o := range outcomes {
		if !o.answer.GetAway() {
			continue
		}
		searches++
		oldest = max(oldest, o.answer.GetAge().AsDuration().Round(100*time.Millisecond))
		if !slices.Contains(legs, o.name) {
			legs = append(legs, o.name)
		}
	}
	switch last := len(legs) - 1; {
	case searches == 0:
		return ""
	case searches == 1:
		return fmt.Sprintf("the %s leg searched what it had in memory %v ago (its database does not answer)", legs[0], oldest)
	case last == 0:
		return fmt.Sprintf("the %s leg searched what it had in memory up to %v ago (its database does not answer)", legs[0], oldest)
	default:
		return fmt.Sprintf("the %s and %s legs searched what they had in memory up to %v ago (their databases do not answer)", strings.Join(legs[:last], ", "), legs[last], oldest)
	}
}

// stateName is a state without its prefix: "TIMED_OUT".
func stateName(s triskelev1.LegState) string { return strings.TrimPrefix(s.String(), "LEG_STATE_") }
