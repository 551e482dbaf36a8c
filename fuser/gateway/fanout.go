package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/resilience"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// search is one leg's part in one recall: one namespace, with the settings that hold there.
type search struct {
	leg       int // into config.Legs
	name      string
	namespace string
	legSettings
	budget   time.Duration
	pressure resilience.Pressure
	request  *triskelev1.SearchRequest
}

// outcome is a search, how it ended, and the leg's answer.
type outcome struct {
	search
	state    triskelev1.LegState
	reason   string
	began    time.Time     // zero if the leg was not asked
	queued   time.Duration // waiting for the concurrency limit, part of spent
	spent    time.Duration
	hedged   bool  // a second request was sent
	late     bool  // skipped for lack of time
	unneeded bool  // ended or skipped because the recall has to fail
	refusal  error // the leg found the request itself invalid
	// The answer was checked. It is nil if there is none.
	answer *triskelev1.SearchResponse
	hits   []fusion.Hit // as the answer's
	// The following come from complete:
	others     []fusion.Scored // scores of other legs' hits
	complete   bool            // every other leg's hit has its score, if there is one
	completion *triskelev1.ScoreCompletion
}

func (o *outcome) answered() bool {
	switch o.state {
	case triskelev1.LegState_LEG_STATE_OK, triskelev1.LegState_LEG_STATE_FALLBACK, triskelev1.LegState_LEG_STATE_TRUNCATED:
		return true
	}
	return false
}

// lost says whether a contribution of the leg, or a part of it, is missing.
func (o *outcome) lost() bool {
	switch o.state {
	case triskelev1.LegState_LEG_STATE_TIMED_OUT, triskelev1.LegState_LEG_STATE_FAILED, triskelev1.LegState_LEG_STATE_TRUNCATED:
		return true
	case triskelev1.LegState_LEG_STATE_SKIPPED:
		return o.off == "" && !o.unneeded
	}
	return false
}

// fatal returns why the recall has to fail because of the outcome, or "".
func (o *outcome) fatal() (why string) {
	missing := !o.answered() && o.state != triskelev1.LegState_LEG_STATE_ABSTAINED && !o.unneeded && o.off == ""
	timedOut := o.state == triskelev1.LegState_LEG_STATE_TIMED_OUT || o.late
	switch {
	case !missing:
		return ""
	case o.required:
		return "required leg"
	case timedOut && o.failLate:
		return "with on_timeout set to fail, leg"
	case !timedOut && o.failError:
		return "with on_error set to fail, leg"
	}
	return ""
}

// leastSlow is the least duration of a slow answer, whatever its budget.
const leastSlow = 10 * time.Millisecond

// slow says whether a search suggests that the services are overloaded.
func (o *outcome) slow() bool {
	return o.state == triskelev1.LegState_LEG_STATE_TIMED_OUT && o.budget >= leastSlow || o.spent > max(o.budget/2, leastSlow)
}

// fanOut searches every leg in every namespace, in parallel. It returns an outcome for each search, in the order of the
// configuration.
func (g *Gateway) fanOut(ctx context.Context, r *recall) []outcome {
	outcomes := g.searches(r)
	g.search(ctx, r, outcomes)
	for i := range outcomes {
		o := &outcomes[i]
		if g.config.Legs[o.leg].Shed == 0 && o.spent > 0 && o.state != triskelev1.LegState_LEG_STATE_FAILED && o.state != triskelev1.LegState_LEG_STATE_SKIPPED {
			g.load.Answered(o.slow())
		}
	}
	return outcomes
}

// searches returns an outcome for each leg and namespace, none of them asked yet.
func (g *Gateway) searches(r *recall) []outcome {
	outcomes := make([]outcome, 0, len(g.config.Legs)*len(r.req.GetNamespaces()))
	for i, leg := range g.config.Legs {
		for n, namespace := range r.req.GetNamespaces() {
			with := r.settings[n].legs[i]
			if r.req.GetLegs()[leg.Name].GetDepth() == 0 { // enough to fill the limit by one leg
				with.depth = max(with.depth, r.fusion.Limit)
			}
			s := search{leg: i, name: leg.Name, namespace: namespace, legSettings: with, pressure: r.pressure, request: &triskelev1.SearchRequest{
				Namespace: namespace, Query: r.req.GetQuery(), TextOf: r.req.GetTextOf(), Vector: r.req.GetVector(), Filter: r.req.GetFilter(), AsOf: r.req.GetAsOf(),
				Depth: int32(with.depth), MinScore: with.minScore, Scorer: with.scorer, Traversal: with.traversal, Borrow: with.borrow,
				AtLeast: r.tokens[namespace], Explain: r.req.GetExplain(), ReturnSpans: r.req.GetReturnSpans(),
				ReturnVector: r.settings[0].completing(),
				MarkExact:    r.fusion.ExactBonus > 0 || r.fusion.Method == calibrated,
			}}
			outcomes = append(outcomes, outcome{search: s, state: triskelev1.LegState_LEG_STATE_SKIPPED, reason: s.off})
		}
	}
	return outcomes
}

// search runs all searches until they have ended. None outlives its budget: gRPC ends a call with its context. Those that run
// are not waited for if the recall has to fail.
func (g *Gateway) search(ctx context.Context, r *recall, outcomes []outcome) {
	searching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type ended struct {
		at int
		outcome
	}
	results := make(chan ended, len(outcomes)) // has room for all: a search that is not waited for does not block
	running := map[int]bool{}
	for _, i := range g.slowestLast(outcomes) {
		o := &outcomes[i]
		if o.off != "" {
			continue
		}
		var tooLittle string
		if o.budget, tooLittle = g.config.Legs[o.leg].Budget.Allot(r.plan.Legs, o.deadline); tooLittle != "" {
			o.reason, o.late = tooLittle, true
			_, span := g.startLeg(ctx, o.search)
			endLeg(span, *o)
			continue
		}
		running[i] = true
		s := o.search
		g.workers.Go(func() { results <- ended{i, g.ask(searching, s)} })
	}
	for len(running) > 0 {
		result := <-results
		outcomes[result.at] = result.outcome
		delete(running, result.at)
		if result.fatal() == "" {
			continue
		}
		cancel(errUnneeded)
		for i := range running {
			outcomes[i].unneeded, outcomes[i].reason, outcomes[i].spent = true, errUnneeded.Error(), time.Since(r.start)
		}
		return
	}
}

// slowestLast orders searches by what their legs usually take. Of goroutines that become ready, Go's scheduler runs the latest first, on
// the same processor. So the slowest leg in this process does not wait for another one to end.
func (g *Gateway) slowestLast(outcomes []outcome) []int {
	order := make([]int, len(outcomes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(g.legs[outcomes[a].leg].latency.Median(), g.legs[outcomes[b].leg].latency.Median())
	})
	return order
}

// errUnneeded ends the outstanding searches of a recall that has to fail.
var errUnneeded = errors.New("not waited for: the call fails without it")
