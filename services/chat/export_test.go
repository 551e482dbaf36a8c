package chat

import (
	"context"
	"time"
)

// RetryAfter is what the tests call of the package's own.
var RetryAfter = retryAfter

// Pace is what keeps requests apart.
type Pace = pace

// NewPace returns a pace of one request every so long.
func NewPace(every time.Duration) *Pace { return &pace{every: every} }

// Wait and Hold are wait and hold.
func (p *pace) Wait(ctx context.Context) error { return p.wait(ctx) }
func (p *pace) Hold(d time.Duration)           { p.hold(d) }
