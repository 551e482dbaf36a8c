package querypath

import (
	"sync"
	"time"
)

const (
	// smoothing is the weight of a new observation in the moving average.
	smoothing = 0.2
	// maxAge is how long an estimate holds without a new observation. After that, queries run and observe again. Otherwise
	// one slow minute would refuse all later queries.
	maxAge = 5 * time.Second
)

// latency estimates the time of an embedding by an exponential moving average.
type latency struct {
	mu   sync.Mutex
	mean float64 // nanoseconds
	at   time.Time
}

// observe records the time of an embedding. A cancelled embedding would have taken at least d, so it counts only if d exceeds
// the estimate.
func (l *latency) observe(d time.Duration, cutOff bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cutOff && float64(d) < l.mean {
		return
	}
	if l.at.IsZero() {
		l.mean = float64(d)
	}
	l.mean += smoothing * (float64(d) - l.mean)
	l.at = now
}

// expected returns the estimate, or 0 if there is no recent observation.
func (l *latency) expected(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.at) > maxAge {
		return 0
	}
	return time.Duration(l.mean)
}
