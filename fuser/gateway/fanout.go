package gateway

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/resilience"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// search is one leg's part in one recall: one namespace, with the request's overrides applied.
type search struct {
	leg       int // into config.Legs
	name      string
	namespace string
	legSettings
	budget       time.Duration
	pressure     resilience.Pressure
	seeds        []*triskelev1.Seed // what the first wave found, for a leg of the second
	vector       []float32          // to search with, if there is one
	vectorModel  string             // whose it is, if known
	atLeast      string             // the token of the write that the leg is to wait for, or ""
	returnVector bool               // the query's, if the leg makes one
	markExact    bool               // say which hits are exact matches
}

// outcome is how a search ended.
type outcome struct {
	search
	state    triskelev1.LegState
	reason   string
	began    time.Time     // zero if it was not asked
	queued   time.Duration // waiting for a slot, part of spent
	spent    time.Duration
	hedged   bool // asked twice
	kind     triskelev1.ScoreKind
	hits     []fusion.Hit
	returned int                               // hits
	paths    map[string][]*triskelev1.PathStep // to hits, by id; nil if the leg gave none
	used     []float32                         // the vector it searched with, if asked for
	usedOf   string                            // the model of that vector
	coverage float64                           // how much of the query the leg has understood, 0 to 1
	spans    []*triskelev1.Span
	behind   int64 // memories that the leg's index has yet to catch up with
	stale    bool  // the leg's index did not know of the write asked for
	err      error // the leg refused the request itself
	late     bool  // skipped for want of time
	spare    bool  // skipped because it could not have changed the answer

	others     []fusion.Scored // what other legs found, scored by this one
	complete   bool            // every memory that another leg found has its score, if there is one
	completion *triskelev1.ScoreCompletion
}

// answered says whether the leg searched.
func (o outcome) answered() bool {
	switch o.state {
	case triskelev1.LegState_LEG_STATE_OK, triskelev1.LegState_LEG_STATE_FALLBACK, triskelev1.LegState_LEG_STATE_TRUNCATED:
		return true
	}
	return false
}

// lost says whether the leg should have contributed and did not, or not all it could have.
func (o outcome) lost() bool {
	switch o.state {
	case triskelev1.LegState_LEG_STATE_TIMED_OUT, triskelev1.LegState_LEG_STATE_FAILED, triskelev1.LegState_LEG_STATE_TRUNCATED:
		return true
	case triskelev1.LegState_LEG_STATE_SKIPPED:
		return o.off == "" && !o.spare
	}
	return false
}

// fatal says whether the call has to fail because of it, and why. A leg that is switched off misses nothing unless it is
// required.
func (o outcome) fatal() (why string) {
	missing := !o.answered() && o.state != triskelev1.LegState_LEG_STATE_ABSTAINED && !o.spare
	timedOut := o.state == triskelev1.LegState_LEG_STATE_TIMED_OUT || o.late
	switch {
	case !missing:
		return ""
	case o.required:
		return "required leg"
	case o.off == "" && timedOut && o.failLate:
		return "with on_timeout set to fail, leg"
	case o.off == "" && !timedOut && o.failError:
		return "with on_error set to fail, leg"
	}
	return ""
}

// fanOut runs every leg in every namespace: first the legs of the first wave, all at once, then with what those found the
// second. It returns an outcome for each, in the order of the configuration.
func (g *Gateway) fanOut(ctx context.Context, r *recall) []outcome {
	outcomes := make([]outcome, 0, len(g.config.Legs)*len(r.req.GetNamespaces()))
	var waves [2][]int // into outcomes
	for i, leg := range g.config.Legs {
		for n, namespace := range r.req.GetNamespaces() {
			s := search{
				leg: i, name: leg.Name, namespace: namespace, legSettings: r.settings[n].legs[i], vector: r.req.GetVector(), pressure: r.pressure,
				atLeast: r.tokens[namespace], returnVector: r.settings[0].completing() || r.plan.Second > r.plan.First, markExact: r.fusion.ExactBonus > 0,
			}
			wave := 0
			if leg.Budget.Second {
				wave, s.returnVector = 1, false
			}
			waves[wave] = append(waves[wave], len(outcomes))
			outcomes = append(outcomes, outcome{search: s, state: triskelev1.LegState_LEG_STATE_SKIPPED, reason: s.off})
		}
	}
	if over := g.wave(ctx, r, outcomes, waves[0], waves[1], r.plan.First-r.looked); !over && len(waves[1]) > 0 {
		seed(r, outcomes, waves[1])
		g.wave(ctx, r, outcomes, waves[1], nil, r.plan.Second-time.Since(r.start))
	}
	for _, o := range outcomes {
		if g.config.Legs[o.leg].Shed == 0 && o.spent > 0 && o.state != triskelev1.LegState_LEG_STATE_FAILED && o.state != triskelev1.LegState_LEG_STATE_SKIPPED {
			g.load.Answered(o.slow())
		}
	}
	return outcomes
}

// wave runs searches in parallel. It returns when all have ended, and none outlives its budget, because gRPC ends a call
// with its context whatever the peer does; or sooner, if the call is over: because it has to fail, or because what is
// outstanding, later searches included, makes no difference any more.
func (g *Gateway) wave(ctx context.Context, r *recall, outcomes []outcome, now, later []int, left time.Duration) (over bool) {
	searching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type ended struct {
		at int
		outcome
	}
	results := make(chan ended, len(now)) // nobody who is not waited for blocks
	running := map[int]bool{}
	for _, i := range now {
		o := &outcomes[i]
		if o.off != "" {
			continue
		}
		var tooLittle string
		if o.budget, tooLittle = g.config.Legs[o.leg].Budget.Of(left, o.deadline); tooLittle != "" {
			o.reason, o.late = tooLittle, true
			g.notAsked(ctx, *o)
			continue
		}
		s := o.search
		running[i] = true
		go func() { results <- ended{i, g.ask(searching, r.req, s)} }()
	}
	for len(running) > 0 {
		result := <-results
		outcomes[result.at] = result.outcome
		delete(running, result.at)
		outstanding := slices.Collect(maps.Keys(running))
		for _, i := range later {
			if outcomes[i].off == "" {
				outstanding = append(outstanding, i)
			}
		}
		var why string
		switch {
		case result.fatal() != "":
			why = "not waited for: the call fails without it" // and not for want of it
		case len(outstanding) > 0 && r.settled(outcomes, outstanding):
			why = "not waited for: it cannot change which memories are returned"
		default:
			continue
		}
		cancel(spareError(why))
		for _, i := range outstanding {
			o := &outcomes[i]
			o.spare, o.reason = true, why
			if running[i] {
				o.spent = time.Since(r.start)
			} else {
				g.notAsked(ctx, *o)
			}
		}
		return true
	}
	return false
}

// settled says whether enough legs have answered for those outstanding to make no difference to what is returned.
func (r *recall) settled(outcomes []outcome, outstanding []int) bool {
	if r.settings[0].quorum == 0 || r.settings[0].completing() || r.fusion.Spare > 0 || r.req.GetMinScore() != nil {
		return false
	}
	waiting := map[string]bool{}
	lacking := make([]fusion.List, len(outstanding))
	for i, at := range outstanding {
		o := &outcomes[at]
		if o.required {
			return false
		}
		waiting[o.name] = true
		lacking[i] = fusion.List{Namespace: o.namespace, Weight: o.weight, Trust: o.trust} // it may understand all of the query
	}
	answered := map[string]bool{}
	for _, o := range outcomes {
		if o.answered() && !waiting[o.name] {
			answered[o.name] = true
		}
	}
	return len(answered) >= r.settings[0].quorum && fusion.Settled(lists(outcomes), lacking, r.fusion)
}

// maxSeeds is how many memories of a namespace a leg of the second wave starts from at most.
const maxSeeds = 100

// seed gives the searches of the second wave what the first found in their namespace, and the vector it searched with.
func seed(r *recall, outcomes []outcome, second []int) {
	seeds, vectors := map[string][]*triskelev1.Seed{}, map[string]outcome{}
	for _, o := range outcomes {
		if len(o.used) > 0 {
			vectors[o.namespace] = o
		}
	}
	for _, namespace := range r.req.GetNamespaces() {
		var found []fusion.List
		for _, list := range lists(outcomes) {
			if list.Namespace == namespace {
				found = append(found, list)
			}
		}
		options := r.fusion
		options.Limit, options.Spare, options.Sort, options.Quotas = maxSeeds, 0, triskelev1.SortBy_SORT_BY_IMPORTANCE, nil // without the prior
		hits := fusion.Fuse(found, options).Hits
		for _, hit := range hits {
			score := 1.
			if hits[0].Score > 0 {
				score = hit.Score / hits[0].Score
			}
			seeds[namespace] = append(seeds[namespace], &triskelev1.Seed{Id: hit.ID, Score: score})
		}
	}
	for _, i := range second {
		o := &outcomes[i]
		o.seeds = seeds[o.namespace]
		if len(o.vector) == 0 {
			o.vector, o.vectorModel = vectors[o.namespace].used, vectors[o.namespace].usedOf
		}
	}
}
