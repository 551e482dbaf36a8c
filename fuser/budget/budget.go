// Package budget splits the time of one recall: what the gateway keeps for itself, and what each leg may spend. It only
// computes with durations; no clock is read and none has to agree with another.
package budget

import (
	"errors"
	"fmt"
	"time"
)

// MinLeg is the least time a leg is started with.
const MinLeg = 2 * time.Millisecond

// Config bounds the budget of a recall. The reserve is what the gateway keeps for fusing and for fetching the contents:
// a share of the budget, but no less and no more than its bounds.
type Config struct {
	Default      time.Duration // for a caller that sets no deadline
	Max          time.Duration // nobody gets more
	ReserveShare float64       // 0 to 1
	ReserveMin   time.Duration
	ReserveMax   time.Duration
}

// DefaultConfig suits an agent that asks before every turn.
func DefaultConfig() Config {
	return Config{
		Default: 500 * time.Millisecond, Max: 10 * time.Second,
		ReserveShare: 0.2, ReserveMin: 2 * time.Millisecond, ReserveMax: 50 * time.Millisecond,
	}
}

// Leg bounds one leg's part of what the reserve leaves.
type Leg struct {
	Cap   time.Duration // at most this long; 0 means no cap
	Share float64       // at most this part, above 0 and up to 1
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

// Search is what the legs may spend of total. ErrTooSmall if that is less than MinLeg.
func (c Config) Search(total time.Duration) (time.Duration, error) {
	left := total - c.reserve(total)
	if left < MinLeg {
		return 0, ErrTooSmall
	}
	return left, nil
}

func (c Config) reserve(total time.Duration) time.Duration {
	return max(min(time.Duration(float64(total)*c.ReserveShare), c.ReserveMax), c.ReserveMin)
}

// Of is the leg's budget when all legs together may spend search; a request's own limit, if not 0, narrows it further.
func (l Leg) Of(search, requested time.Duration) time.Duration {
	budget := time.Duration(float64(search) * l.Share)
	if l.Cap > 0 {
		budget = min(budget, l.Cap)
	}
	if requested > 0 {
		budget = min(budget, requested)
	}
	return budget
}

// Check returns an error that shows the arithmetic unless every inner limit fits into its outer one.
func (c Config) Check(legs map[string]Leg) error {
	switch {
	case c.Default <= 0 || c.Max <= 0 || c.ReserveMin < 0:
		return fmt.Errorf("budget: default %v and maximum %v must be above 0, the least reserve %v not below", c.Default, c.Max, c.ReserveMin)
	case c.Default > c.Max:
		return fmt.Errorf("budget: default %v exceeds maximum %v", c.Default, c.Max)
	case c.ReserveShare < 0 || c.ReserveShare >= 1:
		return fmt.Errorf("budget: reserve share %g must be at least 0 and below 1", c.ReserveShare)
	case c.ReserveMin > c.ReserveMax:
		return fmt.Errorf("budget: least reserve %v exceeds greatest %v", c.ReserveMin, c.ReserveMax)
	}
	search, err := c.Search(c.Default)
	if err != nil {
		return fmt.Errorf("budget: default %v - reserve %v leaves %v for the legs, less than the %v one needs",
			c.Default, c.reserve(c.Default), c.Default-c.reserve(c.Default), MinLeg)
	}
	most := c.Max - c.reserve(c.Max)
	for name, leg := range legs {
		switch {
		case leg.Share <= 0 || leg.Share > 1:
			return fmt.Errorf("leg %s: share %g must be above 0 and at most 1", name, leg.Share)
		case leg.Cap < 0:
			return fmt.Errorf("leg %s: cap %v must not be negative", name, leg.Cap)
		case leg.Cap > most:
			return fmt.Errorf("leg %s: cap %v exceeds the %v that maximum %v - reserve %v leaves", name, leg.Cap, most, c.Max, c.reserve(c.Max))
		case leg.Of(search, 0) < MinLeg:
			return fmt.Errorf("leg %s: of the default budget it gets %v, less than the %v it needs", name, leg.Of(search, 0), MinLeg)
		}
	}
	return nil
}
