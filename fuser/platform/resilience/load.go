package resilience

import (
	"math"
	"sync"
	"time"
)

const (
	// window is how long answers are counted before the limit changes.
	window = 100 * time.Millisecond
	// slowShare is the share of a window's answers that may be slow.
	slowShare = 0.1
	// leastLimit is the lowest limit: with so few calls at a time, their number is not the cause of slowness.
	leastLimit = 4
	// fewAnswers in a window are too few to lower the limit.
	fewAnswers = 10
	// stale is how long a limit lasts without answers.
	stale = time.Second
	// step is the share by which the limit falls and rises.
	step = 0.1
)

// Load finds how many concurrent calls a service keeps up with, for load shedding. The limit falls by a tenth every 100 ms
// while more than a tenth of the answers are slow. It starts from the number of calls that run. Otherwise it rises by a
// tenth until it no longer matters. The zero value has no limit and is ready to use. It is safe for concurrent use.
type Load struct {
	mu            sync.Mutex
	running, peak int
	limit         float64 // 0 for none
	since         time.Time
	answers, slow int
}

// Begin counts a call until end is called.
func (l *Load) Begin() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running++
	l.peak = max(l.peak, l.running)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
	}
}

// Answered counts an answer of work that is never shed.
func (l *Load) Answered(slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	if slow {
		l.slow++
	}
	now := time.Now()
	if l.since.IsZero() {
		l.since = now
	}
	if now.Sub(l.since) < window {
		return
	}
	if l.answers >= fewAnswers && float64(l.slow) > slowShare*float64(l.answers) {
		current := l.limit
		if current == 0 {
			current = math.Inf(1)
		}
		l.limit = max((1-step)*min(current, float64(l.peak)), leastLimit)
	} else if l.limit > 0 {
		l.limit *= 1 + step
		if l.limit > 4*float64(l.peak)+leastLimit { // too high to matter
			l.limit = 0
		}
	}
	l.since, l.answers, l.slow, l.peak = now, 0, 0, l.running
}

// Pressure is the load at a moment: the calls that run, and how many the service keeps up with.
type Pressure struct {
	Running int
	Limit   float64 // 0 if unknown
}

// Pressure returns the load now.
func (l *Load) Pressure() Pressure {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit > 0 && time.Since(l.since) > stale {
		l.limit = 0
	}
	return Pressure{l.running, l.limit}
}

// Sheds says whether to leave out work of the given order. Order 1 is shed as soon as more calls run than the limit, each
// order after it at a quarter more, and order 0 never.
func (p Pressure) Sheds(order int) bool {
	return order > 0 && p.Limit > 0 && float64(p.Running) > p.Limit*(1+float64(order-1)/4)
}
