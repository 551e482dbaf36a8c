package chat

import (
	"context"
	"time"
)

// RateLimiter is rateLimiter.
type RateLimiter = rateLimiter

// NewRateLimiter returns a limiter that allows one request per interval.
func NewRateLimiter(every time.Duration) *RateLimiter { return &rateLimiter{every: every} }

// Wait and Delay are wait and delay.
func (l *rateLimiter) Wait(ctx context.Context) error { return l.wait(ctx) }
func (l *rateLimiter) Delay(d time.Duration)          { l.delay(d) }
