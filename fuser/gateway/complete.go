package gateway

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// complete asks the legs in parallel for the scores of the hits that only other legs found in the namespace. Afterwards a
// memory without a score has none, where before its score was unknown. Lack of time, or a leg that cannot score, costs the
// completeness only.
func (g *Gateway) complete(ctx context.Context, r *recall, outcomes []outcome) {
	left := r.plan.Legs - time.Since(r.start)
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	missing := make([][]string, len(outcomes)) // computed before the first outcome changes
	for i := range outcomes {
		if o := &outcomes[i]; o.comparable() && !o.exhausted() && (o.answer.GetScoreKind() == triskelev1.ScoreKind_SCORE_KIND_COSINE || r.fusion.Method != calibrated) {
			missing[i] = elsewhere(outcomes, i)
		}
	}
	var scoring []func()
	for i, ids := range missing {
		o := &outcomes[i]
		switch {
		case !o.comparable():
		case len(ids) == 0:
			o.complete = o.exhausted() || r.fusion.Method != calibrated || o.answer.GetScoreKind() == triskelev1.ScoreKind_SCORE_KIND_COSINE
		case left < budget.MinLeg:
			o.completion = &triskelev1.ScoreCompletion{Asked: int32(len(ids)), MissingReason: fmt.Sprintf("only %v of the budget were left", max(left, 0))}
		default:
			scoring = append(scoring, func() { g.scoreByIDs(ctx, r.req, o, ids) })
		}
	}
	g.workers.All(scoring)
}

// comparable says whether more than the order of a leg's scores is meaningful.
func (o *outcome) comparable() bool {
	switch o.answer.GetScoreKind() {
	case triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_TS_RANK, triskelev1.ScoreKind_SCORE_KIND_COSINE:
		return len(o.hits) > 0 && o.weight > 0
	}
	return false
}

// exhausted says whether a leg returned every memory that has a score. A text that doesn't match has none.
func (o *outcome) exhausted() bool {
	return o.answer.GetScoreKind() != triskelev1.ScoreKind_SCORE_KIND_COSINE && len(o.hits) < o.depth && o.minScore == nil &&
		o.state != triskelev1.LegState_LEG_STATE_TRUNCATED
}

// elsewhere returns the ids of the hits that only other legs found in the namespace.
func elsewhere(outcomes []outcome, of int) []string {
	seen := make(map[string]bool, 3*len(outcomes[of].hits))
	for _, hit := range outcomes[of].hits {
		seen[hit.ID] = true
	}
	var ids []string
	for i, o := range outcomes {
		if i == of || o.namespace != outcomes[of].namespace {
			continue
		}
		for _, hit := range o.hits {
			if !seen[hit.ID] {
				seen[hit.ID] = true
				ids = append(ids, hit.ID)
			}
		}
	}
	return ids
}

// scoreByIDs asks a leg for the scores of memories and adds them to its answer.
func (g *Gateway) scoreByIDs(ctx context.Context, req *triskelev1.RecallRequest, o *outcome, ids []string) {
	start := time.Now()
	completion := &triskelev1.ScoreCompletion{Asked: int32(len(ids))}
	o.completion = completion
	query := &triskelev1.ScoreByIdsRequest{Namespace: o.namespace, Query: req.GetQuery(), Vector: req.GetVector(), Ids: ids, Scorer: o.scorer, TextOf: req.GetTextOf(), Filter: req.GetFilter(), Borrow: o.borrow}
	if vector := o.answer.GetVector(); len(vector) > 0 {
		query.Vector = vector
	}
	var err error
	o.others, err = call(ctx, g.legs[o.leg].dependency, func(ctx context.Context) ([]fusion.Scored, error) {
		resp, err := g.legs[o.leg].ScoreByIds(ctx, query)
		if err != nil {
			return nil, err
		}
		return readScores(resp, o.answer.GetScoreKind(), ids)
	})
	switch {
	case status.Code(err) == codes.Unimplemented:
		completion.MissingReason = "the leg cannot score single memories"
	case err != nil:
		_, completion.MissingReason = g.failure(ctx, o.name, err, time.Since(start))
	}
	o.complete = err == nil
	completion.Scored, completion.Spent = int32(len(o.others)), durationpb.New(time.Since(start))
}

// readScores checks a leg's scores: finite, of the search's kind, and one at most for each of the ids.
func readScores(resp *triskelev1.ScoreByIdsResponse, kind triskelev1.ScoreKind, ids []string) ([]fusion.Scored, error) {
	if resp.GetScoreKind() != kind {
		return nil, malformed("scores of kind %v, the search's were %v", resp.GetScoreKind(), kind)
	}
	asked := slice.Set(ids)
	scores := make([]fusion.Scored, len(resp.GetScores()))
	for i, s := range resp.GetScores() {
		if !asked[s.GetId()] || !finite(s.GetScore()) {
			return nil, malformed("score %d is not finite, or not of one of the memories asked for, or its second", i+1)
		}
		asked[s.GetId()] = false
		scores[i] = fusion.Scored{ID: s.GetId(), Score: s.GetScore()}
	}
	return scores, nil
}
