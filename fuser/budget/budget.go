// Package budget divides the time of one recall. It computes with durations only, so no two clocks have to agree.
//
// The general process for a recall is:
//
//  1. Total bounds the whole call by the caller's deadline, the request's budget and the configured maximum.
//  2. Plan subtracts a reserve, in which the gateway merges, fetches contents and writes the answer. Of the rest it keeps
//     a share for reranking. The legs have what remains.
//  3. Each leg gets a part of that (Leg.Allot).
//
// Check refuses at start a configuration in which a limit does not fit into the one around it.
package budget

import (
	"errors"
	"fmt"
	"time"
)

// MinLeg is the least time with which a search or the reranking is started. A leg may be configured to need more.
const MinLeg = 2 * time.Millisecond

const (
	// reserveShare of the budget is kept in reserve, within two bounds.
	reserveShare = 0.2
	leastReserve = 2 * time.Millisecond
	mostReserve  = 50 * time.Millisecond
	// rerankShare is for the reranker and for fetching the texts that it reads, if there is one.
	rerankShare = 0.3
)

// Config bounds the budget of a recall.
type Config struct {
	Default time.Duration // for a caller that sets no deadline
	Max     time.Duration // of every recall
}

// DefaultConfig suits an agent that asks before every turn.
func DefaultConfig() Config { return Config{Default: 500 * time.Millisecond, Max: 10 * time.Second} }

// Leg bounds one leg's part of the legs' time.
type Leg struct {
	Cap   time.Duration // the most it gets; 0 for no cap
	Share float64       // the most it gets of that time, above 0 and up to 1
	Min   time.Duration // with less it is not started; 0 for MinLeg
}

// ErrTooSmall means that the budget does not suffice for one leg.
var ErrTooSmall = errors.New("the budget is too small to search with")

// Total returns the time for the whole call: the least of the time until the caller's deadline, the request's budget and the
// maximum. Without a deadline and a request's budget, both 0, it is the default.
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

// Plan says when each stage must end, counted from the start of the recall: the legs, reranking, and fetching the contents,
// which comes before reranking. A stage begins when the one before ends, and so also has the time that one left. Without
// reranking, it ends with the legs.
type Plan struct {
	Legs, Rerank, Contents time.Duration
	Total                  time.Duration // after Contents there is time to write the answer
}

// Plan divides total. Nothing is kept for reranking if that would get less than MinLeg. It returns ErrTooSmall if the legs get
// less.
func (Config) Plan(total time.Duration, rerank bool) (Plan, error) {
	reserve := reserveOf(total)
	plan := Plan{Total: total, Contents: total - min(reserve/2, leastReserve), Rerank: total - reserve}
	plan.Legs = plan.Rerank
	if part := time.Duration(float64(plan.Rerank) * rerankShare); rerank && part >= MinLeg {
		plan.Legs -= part
	}
	if plan.Legs < MinLeg {
		return plan, ErrTooSmall
	}
	return plan, nil
}

func reserveOf(total time.Duration) time.Duration {
	return max(min(time.Duration(float64(total)*reserveShare), mostReserve), leastReserve)
}

// Allot returns the leg's part of the legs' time. The request's limit for the leg, if not 0, bounds it too. The reason is
// empty unless the part is too little to start the leg.
func (l Leg) Allot(legs, requested time.Duration) (budget time.Duration, tooLittle string) {
	budget = time.Duration(float64(legs) * l.Share)
	if l.Cap > 0 {
		budget = min(budget, l.Cap)
	}
	if requested > 0 {
		budget = min(budget, requested)
	}
	if least := l.least(); budget < least {
		return max(budget, 0), fmt.Sprintf("its share of the budget would be %v, but it needs %v", max(budget, 0).Round(10*time.Microsecond), least)
	}
	return budget, ""
}

func (l Leg) least() time.Duration { return max(l.Min, MinLeg) }

// Check returns an error that shows the arithmetic unless every inner limit fits into its outer one. rerank bounds the
// reranker, nil if there is none.
func (c Config) Check(legs map[string]Leg, rerank *Leg) error {
	switch {
	case c.Default <= 0:
		return fmt.Errorf("budget: default %v must be above 0", c.Default)
	case c.Default > c.Max:
		return fmt.Errorf("budget: default %v exceeds maximum %v", c.Default, c.Max)
	}
	plan, err := c.Plan(c.Default, rerank != nil)
	if err != nil || rerank != nil && plan.Rerank == plan.Legs {
		return fmt.Errorf("budget: default %v - reserve %v leaves %v; the legs and reranking need %v each; reranking's share would be %g",
			c.Default, reserveOf(c.Default), plan.Rerank, MinLeg, rerankShare)
	}
	for name, leg := range legs {
		if err := c.checkLeg("leg "+name, leg, plan.Legs, "the legs have"); err != nil {
			return err
		}
	}
	if rerank != nil {
		return c.checkLeg("reranker", *rerank, plan.Rerank-plan.Legs, "are kept for it")
	}
	return nil
}

// checkLeg checks a leg whose stage has so long of the default budget. which is how an error names the stage.
func (c Config) checkLeg(name string, leg Leg, stage time.Duration, which string) error {
	most := c.Max - reserveOf(c.Max) // what the legs have of the maximum without reranking
	switch {
	case !(leg.Share > 0 && leg.Share <= 1):
		return fmt.Errorf("%s: share %g must be above 0 and at most 1", name, leg.Share)
	case leg.Cap < 0 || leg.Min < 0:
		return fmt.Errorf("%s: cap %v and least time %v must not be negative", name, leg.Cap, leg.Min)
	case leg.Cap > most:
		return fmt.Errorf("%s: cap %v exceeds the %v that maximum %v - reserve %v leaves", name, leg.Cap, most, c.Max, reserveOf(c.Max))
	}
	if got, tooLittle := leg.Allot(stage, 0); tooLittle != "" {
		return fmt.Errorf("%s: of the %v that %s of the default budget, share %g and cap %v leave it %v, less than the %v it needs",
			name, stage, which, leg.Share, leg.Cap, got, leg.least())
	}
	return nil
}
