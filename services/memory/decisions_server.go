package memory

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

var actionToProto = map[Action]triskelev1.CurationAction{
	ActionAdd:       triskelev1.CurationAction_CURATION_ACTION_ADD,
	ActionUpdate:    triskelev1.CurationAction_CURATION_ACTION_UPDATE,
	ActionSupersede: triskelev1.CurationAction_CURATION_ACTION_SUPERSEDE,
	ActionNoop:      triskelev1.CurationAction_CURATION_ACTION_NOOP,
}

func decisionToProto(d Decision) *triskelev1.Decision {
	out := &triskelev1.Decision{
		Id: d.ID.String(), Namespace: d.Namespace, MemoryId: d.Memory.ID.String(), MemoryRevision: d.Memory.Revision,
		Action: actionToProto[d.Action], Model: d.Model, DecidedAt: timestamppb.New(d.DecidedAt), PreviousContent: d.Before,
	}
	if d.Target.ID != uuid.Nil {
		out.TargetId = d.Target.ID.String()
	}
	if !d.RevertedAt.IsZero() {
		out.RevertedAt = timestamppb.New(d.RevertedAt)
	}
	return out
}

// ListDecisions implements triskelev1.MemoryServiceServer.
func (s *Server) ListDecisions(ctx context.Context, req *triskelev1.ListDecisionsRequest) (*triskelev1.ListDecisionsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.call)
	defer cancel()
	about, resp, err := uuid.Nil, &triskelev1.ListDecisionsResponse{}, error(nil)
	if req.GetMemoryId() != "" {
		about = uuid.MustParse(req.GetMemoryId())
	}
	resp.Decisions, resp.NextPageToken, err = page(req.GetPageSize(), req.GetPageToken(), func(after Cursor, n int) ([]Decision, error) {
		decisions, err := s.store.ListDecisions(ctx, req.GetNamespace(), about, after, n)
		return decisions, storeError(err)
	}, func(d Decision) (*triskelev1.Decision, Cursor) { return decisionToProto(d), Cursor{d.DecidedAt, d.ID} })
	return resp, err
}

// RevertDecision implements triskelev1.MemoryServiceServer.
func (s *Server) RevertDecision(ctx context.Context, req *triskelev1.RevertDecisionRequest) (*triskelev1.RevertDecisionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.call)
	defer cancel()
	d, records, err := s.store.RevertDecision(ctx, req.GetNamespace(), uuid.MustParse(req.GetId()))
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, status.Error(codes.NotFound, "no such decision in this namespace")
	case errors.Is(err, ErrReverted):
		return nil, status.Error(codes.FailedPrecondition, "id: the decision has been reverted already")
	case errors.Is(err, ErrRevision):
		return nil, status.Error(codes.FailedPrecondition, "id: a memory that the decision changed has been changed since: revert later decisions about it first, or undo the change by hand")
	case err != nil:
		return nil, storeError(err)
	}
	return &triskelev1.RevertDecisionResponse{Decision: decisionToProto(d), RevisionToken: token(records...)}, nil
}
