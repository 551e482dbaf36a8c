package querypath

import (
	"sync"
	"time"
)

const (
	// smoothing is how much a new observation counts against the older ones.
	smoothing = 0.2
	// memory is how long an estimate holds without a new observation. After that one query is let through to make one:
	// else a slow minute would refuse all queries for ever.
	memory = 5 * time.Second
)

// latency estimates how long an embedding takes.
type latency struct {
	mu   sync.Mutex
	mean float64 // nanoseconds
	at   time.Time
}

// observe notes how long an embedding took. An embedding that was cut off took at least that long, and only counts if
// that is more than the estimate.
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

// expected is the time that an embedding will probably take; 0 if there is no recent observation.
func (l *latency) expected(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.at) > memory {
		return 0
	}
	return time.Duration(l.mean)
}
