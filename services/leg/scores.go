package leg

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres"
)

// Scorer is implemented by a Searcher that can score given memories. The scores compare with those of its searches.
type Scorer interface {
	// Scores returns memories of q.Namespace with their scores for q.Text or q.Vector, in any order. Only ids and scores need be
	// filled. Memories that the index lacks are left out. Neighbours that q.Filter lets pass lend, as in a search.
	Scores(ctx context.Context, q Query, ids []uuid.UUID) ([]Hit, triskelev1.ScoreKind, error)
}

// ScoreByIds implements triskelev1.LegServiceServer.
func (s *Server) ScoreByIds(ctx context.Context, req *triskelev1.ScoreByIdsRequest) (*triskelev1.ScoreByIdsResponse, error) {
	scorer, ok := s.searcher.(Scorer)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "this leg cannot score given memories")
	}
	ids := make([]uuid.UUID, len(req.GetIds()))
	for i, id := range req.GetIds() {
		var err error
		if ids[i], err = uuid.Parse(id); err != nil {
			return nil, rpc.Invalid(fmt.Sprintf("ids[%d]", i), "must be a UUID")
		}
	}
	budget := budgetOf(ctx, time.Now())
	if budget < minBudget {
		return nil, status.Error(codes.DeadlineExceeded, "too little of the deadline was left to score")
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	query, err := question(req, req.Borrow)
	if err != nil {
		return nil, err
	}
	scores, kind, err := scorer.Scores(s.withTextCheck(ctx, query), query, ids)
	switch {
	case err != nil && (ctx.Err() != nil || postgres.IsTimeout(err)):
		return nil, status.Error(codes.DeadlineExceeded, "the memories were not scored within the budget")
	case err != nil:
		return nil, s.public(ctx, err)
	}
	resp := &triskelev1.ScoreByIdsResponse{Scores: make([]*triskelev1.ScoreByIdsResponse_Score, len(scores)), ScoreKind: kind}
	for i, score := range scores {
		resp.Scores[i] = &triskelev1.ScoreByIdsResponse_Score{Id: score.ID.String(), Score: score.Score, OwnScore: score.Own}
	}
	return resp, nil
}
