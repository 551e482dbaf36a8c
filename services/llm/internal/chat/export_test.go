package chat

import (
	"context"
	"time"
)

// Pace is what keeps requests apart.
type Pace = pace

// NewPace returns a pace of one request every so long.
func NewPace(every time.Duration) *Pace { return &pace{every: every} }

// Wait and Hold are wait and hold.
func (p *pace) Wait(ctx context.Context) error { return p.wait(ctx) }
func (p *pace) Hold(d time.Duration)           { p.hold(d) }
