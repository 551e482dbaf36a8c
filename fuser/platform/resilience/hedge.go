package resilience

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/triskele/triskele/fuser/platform/panics"
)

const (
	samples    = 256 // latencies that the quantiles are taken of
	fewSamples = 32  // with fewer the quantiles are unknown; they are computed again after so many new ones
	// outdated is how long after the last call the quantiles are unknown again.
	outdated = 10 * time.Second
)

// Latency keeps the durations of recent calls. The zero value is ready to use, and is safe for concurrent use.
type Latency struct {
	mu          sync.Mutex
	recent      [samples]time.Duration
	n           int // calls seen
	last        time.Time
	median, p95 time.Duration
}

// Add records a call.
func (l *Latency) Add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent[l.n%samples], l.last = took, time.Now()
	if l.n++; l.n%fewSamples == 0 {
		sorted := slices.Clone(l.recent[:min(l.n, samples)])
		slices.Sort(sorted)
		l.median, l.p95 = sorted[len(sorted)/2], sorted[len(sorted)*95/100]
	}
}

// Median is the median of recent calls. It is 0 if fewer than 32 calls are known, or the last one is more than ten seconds ago.
func (l *Latency) Median() time.Duration { return l.known(&l.median) }

// P95 is the 95th percentile of recent calls, known as the median is.
func (l *Latency) P95() time.Duration { return l.known(&l.p95) }

func (l *Latency) known(quantile *time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.last) > outdated {
		return 0
	}
	return *quantile
}

// Hedge makes a call, and the same call once more if the first has not ended after a while. The first success counts, and
// the other call is cancelled. If both fail, it returns the error that came first. A panic becomes a *panics.Error.
func Hedge[T any](ctx context.Context, log *slog.Logger, after time.Duration, call func(context.Context) (T, error)) (result T, hedged bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, 2)
	run := func() {
		var a answer
		a.err = panics.Catch(ctx, log, "hedged call", func() (err error) {
			a.result, err = call(ctx)
			return err
		})
		answers <- a
	}
	go run()
	timer := time.NewTimer(after)
	defer timer.Stop()
	for running := 1; running > 0; {
		select {
		case <-timer.C:
			hedged = true
			running++
			go run()
		case a := <-answers:
			if running--; a.err == nil {
				return a.result, hedged, nil
			}
			if err == nil {
				err = a.err
			}
		}
	}
	return result, hedged, err
}
