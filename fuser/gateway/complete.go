package gateway

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// complete asks each leg, all at once, for the scores of what only other legs found in the namespace, so that a score of 0
// means what it says. Time that is not there, or a leg that cannot, costs the completeness only.
func (g *Gateway) complete(ctx context.Context, r *recall, outcomes []outcome) {
	left := r.plan.Second - time.Since(r.start)
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	missing := make([][]string, len(outcomes)) // all of it before the first outcome changes
	for i := range outcomes {
		if o := &outcomes[i]; o.comparable() && !o.exhausted() {
			missing[i] = elsewhere(outcomes, i)
		}
	}
	var wg sync.WaitGroup
	for i, ids := range missing {
		o := &outcomes[i]
		switch {
		case !o.comparable():
		case len(ids) == 0:
			o.complete = true
		case left < budget.MinLeg:
			o.completion = &triskelev1.ScoreCompletion{Asked: int32(len(ids)), MissingReason: fmt.Sprintf("only %v of the budget were left", max(left, 0))}
		default:
			wg.Go(func() { g.scoreByIDs(ctx, r.req, o, ids) })
		}
	}
	wg.Wait()
}

// comparable says whether the scores of a leg mean more than their order.
func (o *outcome) comparable() bool {
	switch o.kind {
	case triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_TS_RANK, triskelev1.ScoreKind_SCORE_KIND_COSINE:
		return len(o.hits) > 0 && o.weight > 0
	}
	return false
}

// exhausted says whether a leg returned every memory that has a score: a text that doesn't match has none.
func (o *outcome) exhausted() bool {
	return o.kind != triskelev1.ScoreKind_SCORE_KIND_COSINE && len(o.hits) < o.depth && o.minScore == nil &&
		o.state != triskelev1.LegState_LEG_STATE_TRUNCATED
}

// elsewhere lists what other legs found in the namespace and this one did not.
func elsewhere(outcomes []outcome, of int) []string {
	seen := map[string]bool{}
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

func (g *Gateway) scoreByIDs(ctx context.Context, req *triskelev1.RecallRequest, o *outcome, ids []string) {
	start := time.Now()
	o.completion = &triskelev1.ScoreCompletion{Asked: int32(len(ids))}
	query := &triskelev1.ScoreByIdsRequest{Namespace: o.namespace, Query: req.GetQuery(), Vector: req.GetVector(), Ids: ids, Scorer: o.scorer, TextOf: req.GetTextOf()}
	if len(o.used) > 0 {
		query.Vector = o.used
	}
	var err error
	o.others, err = pass(ctx, g.guards[o.leg], func(ctx context.Context) ([]fusion.Scored, error) {
		resp, err := g.legs[o.leg].ScoreByIds(ctx, query)
		if err != nil {
			return nil, err
		}
		return readScores(resp, o.kind, ids)
	})
	switch {
	case status.Code(err) == codes.Unimplemented:
		o.completion.MissingReason = "the leg cannot score single memories"
	case err != nil:
		_, o.completion.MissingReason, _ = g.failure(ctx, o.name, err, time.Since(start))
	}
	o.complete = err == nil
	o.completion.Scored, o.completion.Spent = int32(len(o.others)), durationpb.New(time.Since(start))
}

// readScores checks a leg's answer as readHits does.
func readScores(resp *triskelev1.ScoreByIdsResponse, kind triskelev1.ScoreKind, ids []string) ([]fusion.Scored, error) {
	if resp.GetScoreKind() != kind {
		return nil, malformed("scores of kind %v, the search's were %v", resp.GetScoreKind(), kind)
	}
	asked := make(map[string]bool, len(ids))
	for _, id := range ids {
		asked[id] = true
	}
	scores := make([]fusion.Scored, len(resp.GetScores()))
	for i, s := range resp.GetScores() {
		if !asked[s.GetId()] || math.IsNaN(s.GetScore()) || math.IsInf(s.GetScore(), 0) {
			return nil, malformed("score %d is not finite, or of a memory nobody asked for, or asked for once", i+1)
		}
		asked[s.GetId()] = false
		scores[i] = fusion.Scored{ID: s.GetId(), Score: s.GetScore()}
	}
	return scores, nil
}
