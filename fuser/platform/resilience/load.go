package resilience

import (
	"math"
	"sync"
	"time"
)

const (
	// window is how long answers are counted before the limit is looked at again.
	window = 100 * time.Millisecond
	// slowShare is the part of a window's answers that may be slow.
	slowShare = 0.1
	// leastLimit is what the limit does not fall below: with so few calls at a time, it is not their number that hurts.
	leastLimit = 4
	// fewAnswers are too few to lower the limit for.
	fewAnswers = 10
	// stale is how long a limit holds without answers that it could be judged by.
	stale = time.Second
	// step is by how much the limit falls and rises.
	step = 0.1
)

// Load finds out how many calls at a time a service keeps up with, and says what to leave out beyond that. While more
// than a tenth of the answers that must come are slow, the limit falls by a tenth every 100 ms, from the number of calls
// there really are; else it rises by as much until it no longer matters. The zero value has no limit yet and is ready to
// use. It is safe for concurrent use.
type Load struct {
	mu            sync.Mutex
	running, peak int
	limit         float64 // 0 while there is none
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

// Answered counts an answer that must come, slow or not.
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
		l.limit = max((1-step)*min(l.current(), float64(l.peak)), leastLimit)
	} else if l.limit > 0 {
		l.limit *= 1 + step
		if l.limit > 4*float64(l.peak)+leastLimit { // far from mattering
			l.limit = 0
		}
	}
	l.since, l.answers, l.slow, l.peak = now, 0, 0, l.running
}

func (l *Load) current() float64 {
	if l.limit == 0 {
		return math.Inf(1)
	}
	return l.limit
}

// Pressure is how many calls there are, and how many the service keeps up with, at a moment.
type Pressure struct {
	Running int
	Limit   float64 // 0 if none is known
}

// Pressure returns the present one.
func (l *Load) Pressure() Pressure {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit > 0 && time.Since(l.since) > stale {
		l.limit = 0
	}
	return Pressure{l.running, l.limit}
}

// Excess says whether work is to be left out. What has order 1 goes as soon as there are more calls than the limit; each
// order after it at a quarter more; order 0 never.
func (p Pressure) Excess(order int) bool {
	return order > 0 && p.Limit > 0 && float64(p.Running) > p.Limit*(1+float64(order-1)/4)
}
