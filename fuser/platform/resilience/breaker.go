// Package isolation keeps the trouble of one dependency from becoming that of its callers: a circuit breaker, a limit on
// calls at a time, shedding by load, and a second request when the first is unusually slow. It knows neither legs nor gRPC.
package resilience

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerConfig says when a breaker opens and for how long.
type BreakerConfig struct {
	Failures int           // so many in a row open it, 1 or more; so does half of at least four times as many within Window
	Window   time.Duration // over which calls are counted
	Open     time.Duration // how long before it lets one call through to see
}

// DefaultBreaker notices a dead peer within a few calls and its return within a second.
func DefaultBreaker() BreakerConfig {
	return BreakerConfig{Failures: 5, Window: 10 * time.Second, Open: time.Second}
}

// Breaker stops calls to what keeps failing. It is safe for concurrent use.
type Breaker struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
}

var (
	errFailed    = errors.New("failed")
	errUndecided = errors.New("undecided")
)

// Verdict is what a call says about the health of what was called.
type Verdict int

// A call that was given up, or had too little time to judge by, is Undecided.
const (
	Healthy Verdict = iota
	Unhealthy
	Undecided
)

// NewBreaker returns a closed breaker. changed, if not nil, is told when it opens and when it closes
// again; it must not call the breaker.
func NewBreaker(config BreakerConfig, changed func(open bool)) *Breaker {
	failures := uint32(config.Failures)
	return &Breaker{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: config.Window, BucketPeriod: config.Window / 10, Timeout: config.Open,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= failures || c.Requests >= 4*failures && 2*c.TotalFailures >= c.Requests
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errUndecided) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if changed != nil && (from == gobreaker.StateClosed || to == gobreaker.StateClosed) { // half-open is still open
				changed(to != gobreaker.StateClosed)
			}
		},
	})}
}

// Allow says whether a call may be made. If so, done must be called once with what came of it.
func (b *Breaker) Allow() (done func(Verdict), ok bool) {
	tell, err := b.breaker.Allow()
	if err != nil {
		return nil, false
	}
	return func(v Verdict) {
		switch v {
		case Unhealthy:
			tell(errFailed)
		case Undecided:
			tell(errUndecided)
		default:
			tell(nil)
		}
	}, true
}
