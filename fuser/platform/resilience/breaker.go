// Package resilience keeps the failures of a dependency from spreading to its callers. It knows neither legs nor gRPC.
//
// A caller combines its parts around each call:
//
//  1. Load counts the calls that run and how many answers are slow. Under load its Pressure says which optional work to
//     shed.
//  2. Breaker is a circuit breaker. It refuses calls to a dependency that keeps failing, until one probe succeeds.
//  3. Hedge sends a second request when the first is unusually slow. Latency gives the delay: the 95th percentile of
//     recent calls.
//  4. The caller tells the Breaker how the call ended, and the Load whether the answer was slow.
package resilience

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// failures in a row open a circuit breaker. So do half of enough calls within breakerWindow.
	failures      = 5
	enough        = 4 * failures
	breakerWindow = 10 * time.Second
	// probeAfter is how long a circuit breaker is open before it lets one call through.
	probeAfter = time.Second
)

// Breaker is a circuit breaker. It opens within a few calls to a dead peer and closes within a second of its return. It is safe for
// concurrent use. A call may be made unless Allow returns an error. Else what Allow returns must be called once with how the call ended.
type Breaker = gobreaker.TwoStepCircuitBreaker[struct{}]

// How a call ended, as the circuit breaker counts it; nil is success. A call that was cancelled, or had too little time, says nothing about
// the dependency's health.
var (
	ErrFailure = errors.New("failure")
	ErrIgnored = errors.New("ignored")
)

// NewBreaker returns a closed circuit breaker. changed, if not nil, is called when it opens and when it closes again. It
// must not call the breaker.
func NewBreaker(changed func(open bool)) *Breaker {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: breakerWindow, BucketPeriod: breakerWindow / 10, Timeout: probeAfter,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= failures || c.Requests >= enough && 2*c.TotalFailures >= c.Requests
		},
		IsExcluded: func(err error) bool { return errors.Is(err, ErrIgnored) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if changed != nil && (from == gobreaker.StateClosed || to == gobreaker.StateClosed) { // half-open is still open
				changed(to != gobreaker.StateClosed)
			}
		},
	})
}
