package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// ask runs one search. Any failure, a panic included, ends in the outcome's state.
func (g *Gateway) ask(ctx context.Context, s search) (out outcome) {
	start := time.Now()
	out.search = s
	out.state, out.began = triskelev1.LegState_LEG_STATE_SKIPPED, start
	ctx, span := g.startLeg(ctx, s)
	defer func() {
		out.spent = time.Since(start)
		endLeg(span, out)
	}()
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	leg, config := g.legs[s.leg], g.config.Legs[s.leg]
	if s.pressure.Sheds(config.Shed) {
		out.reason = overload(s.pressure)
		return out
	}
	resp, err := call(ctx, leg.dependency, func(ctx context.Context) (resp *triskelev1.SearchResponse, err error) {
		out.queued = time.Since(start)
		if resp, out.hedged, err = leg.search(ctx, s.request, config.Hedge && s.pressure.Limit == 0); err == nil {
			if out.hits, err = readAnswer(resp, s.depth); err == nil {
				out.answer = resp
			}
		}
		return resp, err
	})
	if err == nil {
		out.state, out.reason = resp.GetState(), resp.GetReason()
		return out
	}
	if notCalled, ok := errors.AsType[*notCalledError](err); ok {
		out.queued, out.late = time.Since(start), notCalled.late
	}
	if out.unneeded = errors.Is(context.Cause(ctx), errUnneeded); out.unneeded {
		out.reason = errUnneeded.Error()
		return out
	}
	if status.Code(err) == codes.InvalidArgument {
		out.refusal = err
	}
	out.state, out.reason = g.failure(ctx, s.name, err, s.budget)
	return out
}

type malformedError string

func (e malformedError) Error() string { return string(e) }

func malformed(format string, args ...any) error { return malformedError(fmt.Sprintf(format, args...)) }

// failure returns the state and the reason that a recall reports for an error of call. The dependency's own text stays out
// of the reason, except that of FAILED_PRECONDITION, which the contract makes public.
func (g *Gateway) failure(ctx context.Context, name string, err error, budget time.Duration) (triskelev1.LegState, string) {
	var notCalled *notCalledError
	var wrong malformedError
	switch {
	case errors.As(err, &notCalled):
		return triskelev1.LegState_LEG_STATE_SKIPPED, notCalled.reason
	case errors.Is(err, errPanicked):
		return triskelev1.LegState_LEG_STATE_FAILED, err.Error()
	case errors.As(err, &wrong):
		g.log.DebugContext(ctx, "malformed answer", "leg", name, "error", err.Error())
		return triskelev1.LegState_LEG_STATE_FAILED, "malformed answer"
	}
	switch code := status.Code(err); code {
	case codes.DeadlineExceeded:
		return triskelev1.LegState_LEG_STATE_TIMED_OUT, noAnswer(budget)
	case codes.InvalidArgument:
		return triskelev1.LegState_LEG_STATE_FAILED, ErrRefused.Error()
	case codes.FailedPrecondition:
		return triskelev1.LegState_LEG_STATE_FAILED, status.Convert(err).Message()
	case codes.Unavailable:
		return triskelev1.LegState_LEG_STATE_FAILED, "cannot be reached"
	default:
		return triskelev1.LegState_LEG_STATE_FAILED, "failed with " + code.String()
	}
}

func noAnswer(within time.Duration) string {
	unit := 100 * time.Microsecond
	if within < 10*unit {
		unit = time.Microsecond
	}
	if within = within.Round(unit); within <= 0 {
		return "no time was left"
	}
	return fmt.Sprintf("no answer within %v", within)
}

// seenIDs are the working memory of readHits.
var seenIDs = sync.Pool{New: func() any { return map[string]bool{} }}

// readAnswer checks a leg's answer and returns its hits. A leg is another process, perhaps of another version.
func readAnswer(resp *triskelev1.SearchResponse, depth int) ([]fusion.Hit, error) {
	switch resp.GetState() {
	case triskelev1.LegState_LEG_STATE_ABSTAINED:
		return nil, nil
	case triskelev1.LegState_LEG_STATE_OK, triskelev1.LegState_LEG_STATE_FALLBACK, triskelev1.LegState_LEG_STATE_TRUNCATED:
	default:
		return nil, malformed("state %v cannot come with an answer", resp.GetState())
	}
	if !(resp.GetCoverage() >= 0 && resp.GetCoverage() <= 1) {
		return nil, malformed("coverage %v", resp.GetCoverage())
	}
	if !(resp.GetAttainable() >= 0) || !finite(resp.GetAttainable()) || resp.GetMemories() < 0 || resp.GetTerms() < 0 {
		return nil, malformed("attainable %v, memories %d, terms %d", resp.GetAttainable(), resp.GetMemories(), resp.GetTerms())
	}
	return readHits(resp.GetHits(), depth)
}

// readHits checks a leg's hits: at most depth of them, in the order of their ranks, no id twice, all numbers in range.
func readHits(found []*triskelev1.LegHit, depth int) ([]fusion.Hit, error) {
	if len(found) > depth {
		return nil, malformed("%d hits for a depth of %d", len(found), depth)
	}
	seen := seenIDs.Get().(map[string]bool)
	defer func() {
		clear(seen)
		seenIDs.Put(seen)
	}()
	hits := make([]fusion.Hit, len(found))
	// A leg that gives no own scores has no threads.
	threads := slices.ContainsFunc(found, func(h *triskelev1.LegHit) bool { return h.GetOwnScore() != 0 })
	for i, h := range found {
		switch {
		case h.GetRank() != int32(i+1):
			return nil, malformed("rank %d at position %d", h.GetRank(), i+1)
		case h.GetId() == "" || seen[h.GetId()]:
			return nil, malformed("hit %d has no id or one seen before", i+1)
		case !finite(h.GetScore()) || !finite(h.GetOwnScore()) || !(h.GetImportance() >= 0 && h.GetImportance() <= 1) || !(h.GetMatched() >= 0 && h.GetMatched() <= 1):
			return nil, malformed("hit %d has a score, an importance or a match out of range", i+1)
		}
		seen[h.GetId()] = true
		hits[i] = fusion.Hit{
			ID: h.GetId(), Score: h.GetScore(), Lent: threads && h.GetOwnScore() < h.GetScore(), Importance: h.GetImportance(), CreatedAt: h.GetCreatedAt().AsTime(),
			Exact: h.GetExact(), Matched: h.GetMatched(), Entities: int(max(h.GetConcepts(), 0)),
		}
	}
	return hits, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
