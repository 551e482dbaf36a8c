package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// ask runs one search. Whatever goes wrong with it, a panic included, ends in the outcome's state.
func (g *Gateway) ask(ctx context.Context, req *triskelev1.RecallRequest, s search) (out outcome) {
	start := time.Now()
	out.search, out.state, out.began = s, triskelev1.LegState_LEG_STATE_SKIPPED, start
	guard := g.guards[s.leg]
	ctx, span := g.startLeg(ctx, s)
	defer func() {
		out.spent, out.returned = time.Since(start), len(out.hits)
		endLeg(span, out)
	}()
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	if s.pressure.Excess(guard.leg.Shed) {
		out.reason = overload(s.pressure)
		return out
	}
	query := &triskelev1.SearchRequest{
		Namespace:    s.namespace,
		Query:        req.GetQuery(),
		Vector:       s.vector,
		VectorModel:  s.vectorModel,
		Seeds:        s.seeds,
		Filter:       req.GetFilter(),
		Depth:        int32(s.depth),
		MinScore:     s.minScore,
		Scorer:       s.scorer,
		Traversal:    s.traversal,
		AsOf:         req.GetAsOf(),
		Explain:      req.GetExplain(),
		AtLeast:      s.atLeast,
		ReturnSpans:  req.GetReturnSpans(),
		ReturnVector: s.returnVector,
		MarkExact:    s.markExact,
		TextOf:       req.GetTextOf(),
	}
	resp, err := pass(ctx, guard, func(ctx context.Context) (resp *triskelev1.SearchResponse, err error) {
		out.queued = time.Since(start)
		if resp, out.hedged, err = guard.search(ctx, g.legs[s.leg], query, guard.leg.Hedge && s.pressure.Limit == 0); err == nil {
			out.hits, err = readHits(resp, s.depth)
		}
		return resp, err
	})
	var notCalled *notCalledError
	if errors.As(err, &notCalled) {
		out.queued, out.late = time.Since(start), notCalled.late
	}
	if why, spare := spared(ctx); err != nil && spare {
		out.reason, out.spare = why, true
		return out
	}
	if err != nil {
		if why, spare := spared(ctx); spare {
			out.reason, out.spare = why, true
			return out
		}
		out.state, out.reason, out.err = g.failure(ctx, s.name, err, s.budget)
		return out
	}
	out.state, out.reason, out.kind, out.spans = resp.GetState(), resp.GetReason(), resp.GetScoreKind(), resp.GetSpans()
	out.paths, out.coverage = readPaths(resp), resp.GetCoverage()
	out.used, out.usedOf, out.behind, out.stale = resp.GetVector(), resp.GetVectorModel(), resp.GetBehind(), resp.GetStale()
	return out
}

// malformedError is what is wrong with an answer.
type malformedError string

func (e malformedError) Error() string { return string(e) }

func malformed(format string, args ...any) error { return malformedError(fmt.Sprintf(format, args...)) }

// failure says what an error from behind the guard of a leg means for the recall. The leg's own text stays out of the reason,
// unless the contract says that it may be shown.
func (g *Gateway) failure(ctx context.Context, name string, err error, budget time.Duration) (triskelev1.LegState, string, error) {
	var notCalled *notCalledError
	var wrong malformedError
	switch {
	case errors.As(err, &notCalled):
		return triskelev1.LegState_LEG_STATE_SKIPPED, notCalled.reason, nil
	case errors.Is(err, errPanicked):
		return triskelev1.LegState_LEG_STATE_FAILED, err.Error(), nil
	case errors.As(err, &wrong):
		g.log.DebugContext(ctx, "malformed answer", "leg", name, "error", err.Error())
		return triskelev1.LegState_LEG_STATE_FAILED, "malformed answer", nil
	}
	switch code := status.Code(err); code {
	case codes.DeadlineExceeded:
		return triskelev1.LegState_LEG_STATE_TIMED_OUT, fmt.Sprintf("no answer within %v", budget.Round(100*time.Microsecond)), nil
	case codes.InvalidArgument:
		return triskelev1.LegState_LEG_STATE_FAILED, "refused the request", err
	case codes.FailedPrecondition: // the one text of a leg's that is meant for callers
		return triskelev1.LegState_LEG_STATE_FAILED, status.Convert(err).Message(), nil
	case codes.Unavailable:
		return triskelev1.LegState_LEG_STATE_FAILED, "cannot be reached", nil
	default:
		return triskelev1.LegState_LEG_STATE_FAILED, "failed with " + code.String(), nil
	}
}

// seenIDs are the working memory of readHits.
var seenIDs = sync.Pool{New: func() any { return map[string]bool{} }}

// readHits checks a leg's list before it is trusted: a leg is another process, perhaps of another version.
func readHits(resp *triskelev1.SearchResponse, depth int) ([]fusion.Hit, error) {
	switch resp.GetState() {
	case triskelev1.LegState_LEG_STATE_OK, triskelev1.LegState_LEG_STATE_FALLBACK, triskelev1.LegState_LEG_STATE_TRUNCATED:
	case triskelev1.LegState_LEG_STATE_ABSTAINED:
		return nil, nil
	default:
		return nil, malformed("state %v cannot come with an answer", resp.GetState())
	}
	if len(resp.GetHits()) > depth {
		return nil, malformed("%d hits for a depth of %d", len(resp.GetHits()), depth)
	}
	if !(resp.GetCoverage() >= 0 && resp.GetCoverage() <= 1) {
		return nil, malformed("coverage %v", resp.GetCoverage())
	}
	seen := seenIDs.Get().(map[string]bool)
	defer func() {
		clear(seen)
		seenIDs.Put(seen)
	}()
	hits := make([]fusion.Hit, len(resp.GetHits()))
	for i, h := range resp.GetHits() {
		switch {
		case h.GetRank() != int32(i+1):
			return nil, malformed("rank %d at position %d", h.GetRank(), i+1)
		case h.GetId() == "" || seen[h.GetId()]:
			return nil, malformed("hit %d has no id or one seen before", i+1)
		case math.IsNaN(h.GetScore()) || math.IsInf(h.GetScore(), 0) || !(h.GetImportance() >= 0 && h.GetImportance() <= 1):
			return nil, malformed("hit %d has a score or importance out of range", i+1)
		}
		seen[h.GetId()] = true
		hits[i] = fusion.Hit{
			ID: h.GetId(), Score: h.GetScore(), Importance: h.GetImportance(), CreatedAt: h.GetCreatedAt().AsTime(),
			Exact: h.GetExact(), Entities: int(max(h.GetConcepts(), 0)),
		}
	}
	return hits, nil
}

// readPaths returns how the leg came to each of its hits, by id, as far as it says so.
func readPaths(resp *triskelev1.SearchResponse) map[string][]*triskelev1.PathStep {
	var paths map[string][]*triskelev1.PathStep
	for _, h := range resp.GetHits() {
		if len(h.GetPath()) > 0 {
			if paths == nil {
				paths = make(map[string][]*triskelev1.PathStep, len(resp.GetHits()))
			}
			paths[h.GetId()] = h.GetPath()
		}
	}
	return paths
}
