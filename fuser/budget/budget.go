// Package budget splits the time of one recall: what the gateway keeps for itself, what each wave of legs may spend, each
// leg of it, and reranking. It only computes with durations; no clock is read and none has to agree with another.
package budget

import (
	"errors"
	"fmt"
	"time"
)

// MinLeg is the least time that anything is started with, unless a leg is configured to need more.
const MinLeg = 2 * time.Millisecond

// Config bounds the budget of a recall. The reserve is what the gateway keeps for fusing, fetching the contents and writing
// the answer: a share of the budget, but no less and no more than its bounds. Of what the reserve leaves, a share is kept back from the
// legs if there is reranking, and of the rest one from the first wave of legs if there is a second.
type Config struct {
	Default      time.Duration // for a caller that sets no deadline
	Max          time.Duration // nobody gets more
	ReserveShare float64       // 0 to 1
	ReserveMin   time.Duration
	ReserveMax   time.Duration
	SecondShare  float64 // for the legs of the second wave
	RerankShare  float64 // for the reranker and for fetching the texts it reads
}

// DefaultConfig suits an agent that asks before every turn.
func DefaultConfig() Config {
	return Config{
		Default: 500 * time.Millisecond, Max: 10 * time.Second,
		ReserveShare: 0.2, ReserveMin: 2 * time.Millisecond, ReserveMax: 50 * time.Millisecond,
		SecondShare: 0.3, RerankShare: 0.3,
	}
}

// Leg bounds one leg's part of what its wave has.
type Leg struct {
	Cap    time.Duration // at most this long; 0 means no cap
	Share  float64       // at most this part, above 0 and up to 1
	Min    time.Duration // with less it is not started; 0 means MinLeg
	Second bool          // it belongs to the second wave
}

// ErrTooSmall means that the budget does not even suffice for one leg.
var ErrTooSmall = errors.New("the budget is too small to search with")

// Total is the time for the whole call: the least of what the caller's deadline leaves, what the request asks for and
// the maximum. Zero stands for "not set".
func (c Config) Total(deadline, requested time.Duration) time.Duration {
	total := c.Default
	if requested > 0 {
		total = requested
	} else if deadline > 0 {
		total = deadline
	}
	if deadline > 0 {
		total = min(total, deadline)
	}
	return min(total, c.Max)
}

// Stages are the parts of a recall that not every one has.
type Stages struct{ Second, Rerank bool }

// Plan says when each stage must be over, counted from the start of the recall: both waves of legs, reranking, and fetching
// the contents, which comes before reranking if there is any. A stage begins as soon as the one before is over, so it also
// has what that left; one that there is not has no time of its own.
type Plan struct {
	First, Second, Rerank, Contents time.Duration
	Total                           time.Duration // the rest is for writing the answer, so that it is with the caller in time
}

// Plan divides total. A stage after the first that would get less than MinLeg has nothing kept for it; ErrTooSmall if the
// first has less.
func (c Config) Plan(total time.Duration, stages Stages) (Plan, error) {
	reserve := c.reserve(total)
	plan := Plan{Total: total, Contents: total - min(reserve/2, c.ReserveMin), Rerank: total - reserve}
	plan.Second = plan.Rerank - kept(plan.Rerank, c.RerankShare, stages.Rerank)
	plan.First = plan.Second - kept(plan.Second, c.SecondShare, stages.Second)
	if plan.First < MinLeg {
		return plan, ErrTooSmall
	}
	return plan, nil
}

// kept is the part of left that is kept for a later stage.
func kept(left time.Duration, share float64, wanted bool) time.Duration {
	if part := time.Duration(float64(left) * share); wanted && part >= MinLeg {
		return part
	}
	return 0
}

func (c Config) reserve(total time.Duration) time.Duration {
	return max(min(time.Duration(float64(total)*c.ReserveShare), c.ReserveMax), c.ReserveMin)
}

// Of is the leg's budget when its wave has this long; a request's own limit, if not 0, narrows it further. The reason is
// empty unless that is too little to start it with.
func (l Leg) Of(wave, requested time.Duration) (budget time.Duration, tooLittle string) {
	budget = time.Duration(float64(wave) * l.Share)
	if l.Cap > 0 {
		budget = min(budget, l.Cap)
	}
	if requested > 0 {
		budget = min(budget, requested)
	}
	if least := l.least(); budget < least {
		return max(budget, 0), fmt.Sprintf("it would have had %v of the budget, and needs %v", max(budget, 0).Round(10*time.Microsecond), least)
	}
	return budget, ""
}

func (l Leg) least() time.Duration { return max(l.Min, MinLeg) }

// Check returns an error that shows the arithmetic unless every inner limit fits into its outer one. rerank bounds the
// reranker, nil if there is none.
func (c Config) Check(legs map[string]Leg, rerank *Leg) error {
	switch {
	case c.Default <= 0 || c.Max <= 0 || c.ReserveMin < 0:
		return fmt.Errorf("budget: default %v and maximum %v must be above 0, the least reserve %v not below", c.Default, c.Max, c.ReserveMin)
	case c.Default > c.Max:
		return fmt.Errorf("budget: default %v exceeds maximum %v", c.Default, c.Max)
	case c.ReserveShare < 0 || c.ReserveShare >= 1:
		return fmt.Errorf("budget: reserve share %g must be at least 0 and below 1", c.ReserveShare)
	case c.ReserveMin > c.ReserveMax:
		return fmt.Errorf("budget: least reserve %v exceeds greatest %v", c.ReserveMin, c.ReserveMax)
	case !(c.SecondShare > 0 && c.SecondShare < 1):
		return fmt.Errorf("budget: share of the second wave %g must be above 0 and below 1", c.SecondShare)
	case !(c.RerankShare > 0 && c.RerankShare < 1):
		return fmt.Errorf("budget: share of reranking %g must be above 0 and below 1", c.RerankShare)
	}
	stages := Stages{Rerank: rerank != nil}
	for _, leg := range legs {
		stages.Second = stages.Second || leg.Second
	}
	plan, err := c.Plan(c.Default, stages)
	if err != nil || stages.Second && plan.Second == plan.First || stages.Rerank && plan.Rerank == plan.Second {
		return fmt.Errorf("budget: default %v - reserve %v is %v, of which each wave needs %v, and the second would get %g, and reranking %g, of it",
			c.Default, c.reserve(c.Default), plan.Rerank, MinLeg, c.SecondShare, c.RerankShare)
	}
	most, err := c.Plan(c.Max, Stages{}) // the first wave has all that the reserve leaves
	if err != nil {
		return fmt.Errorf("budget: maximum %v: %w", c.Max, err)
	}
	check := func(name string, leg Leg, wave time.Duration, which string) error {
		switch {
		case !(leg.Share > 0 && leg.Share <= 1):
			return fmt.Errorf("%s: share %g must be above 0 and at most 1", name, leg.Share)
		case leg.Cap < 0 || leg.Min < 0:
			return fmt.Errorf("%s: cap %v and least time %v must not be negative", name, leg.Cap, leg.Min)
		case leg.Cap > most.First:
			return fmt.Errorf("%s: cap %v exceeds the %v that maximum %v - reserve %v leaves", name, leg.Cap, most.First, c.Max, c.reserve(c.Max))
		}
		if got, tooLittle := leg.Of(wave, 0); tooLittle != "" {
			return fmt.Errorf("%s: of the %v that %s of the default budget, share %g and cap %v leave it %v, less than the %v it needs",
				name, wave, which, leg.Share, leg.Cap, got, leg.least())
		}
		return nil
	}
	for name, leg := range legs {
		wave, which := plan.First, "the first wave has"
		if leg.Second {
			wave, which = plan.Second-plan.First, "the second wave has"
		}
		if err := check("leg "+name, leg, wave, which); err != nil {
			return err
		}
	}
	if rerank != nil {
		return check("reranker", *rerank, plan.Rerank-plan.Second, "are kept for it")
	}
	return nil
}
