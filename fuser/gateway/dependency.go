package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/semaphore"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/resilience"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// dependency is a service that recalls call: a leg, the memory service or the reranker. All calls of it share a concurrency
// limit and a circuit breaker.
type dependency struct {
	name    string
	limit   int
	slots   *semaphore.Weighted // the concurrency limit
	breaker *resilience.Breaker
	latency resilience.Latency // of calls that succeeded
	log     *slog.Logger
}

type legClient struct {
	*dependency
	triskelev1.LegServiceClient
}

type memoryClient struct {
	*dependency
	triskelev1.MemoryServiceClient
}

// newDependency returns a dependency with a limit of concurrent calls, 0 for none.
func (g *Gateway) newDependency(name string, limit int) *dependency {
	slots := semaphore.NewWeighted(math.MaxInt64)
	if limit > 0 {
		slots = semaphore.NewWeighted(int64(limit))
	}
	changed := func(open bool) { // logs and counts that the circuit breaker opened or closed
		change := int64(-1)
		if open {
			change = 1
			g.log.Warn("circuit breaker opened after repeated failures", "leg", name)
		} else {
			g.log.Info("circuit breaker closed", "leg", name)
		}
		g.open.Add(context.Background(), change, metric.WithAttributes(attribute.String("leg", name)))
	}
	return &dependency{name: name, limit: limit, slots: slots, breaker: resilience.NewBreaker(changed), log: g.log}
}

type notCalledError struct {
	reason string
	late   bool // for lack of time
}

func (e *notCalledError) Error() string { return e.reason }

// errPanicked is the public text of a panic, which is logged.
var errPanicked = errors.New("internal error")

// caught makes a call of a service. A panic becomes errPanicked.
func caught[T any](ctx context.Context, log *slog.Logger, name string, do func() (T, error)) (out T, err error) {
	err = panics.Catch(ctx, log, "call of "+name, func() (err error) {
		out, err = do()
		return err
	})
	if _, ok := errors.AsType[*panics.Error](err); ok {
		err = errPanicked
	}
	return out, err
}

// call makes a call of a dependency. It waits for the concurrency limit until ctx ends, and respects the circuit breaker: the
// error is then a *notCalledError. A panic of the call becomes errPanicked.
func call[T any](ctx context.Context, d *dependency, do func(context.Context) (T, error)) (out T, err error) {
	if !d.slots.TryAcquire(1) && d.slots.Acquire(ctx, 1) != nil {
		return out, &notCalledError{fmt.Sprintf("its limit of %d concurrent calls was reached", d.limit), true}
	}
	defer d.slots.Release(1)
	done, err := d.breaker.Allow()
	if err != nil {
		return out, &notCalledError{"its circuit breaker is open, because it kept failing", false}
	}
	var given time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		given = time.Until(deadline)
	}
	out, err = caught(ctx, d.log, d.name, func() (T, error) { return do(ctx) })
	done(d.result(err, given))
	return out, err
}

// timedCall is call, and records the latency of a call that succeeds.
func timedCall[T any](ctx context.Context, d *dependency, do func(context.Context) (T, error)) (T, error) {
	return call(ctx, d, func(ctx context.Context) (T, error) {
		start := time.Now()
		out, err := do(ctx)
		if err == nil {
			d.latency.Add(time.Since(start))
		}
		return out, err
	})
}

func overload(p resilience.Pressure) string {
	return fmt.Sprintf("left out under load: %d recalls are running, and the services keep up with %.0f", p.Running, p.Limit)
}

const (
	// patience is the least time after which a timeout counts as a failure while the latency is unknown.
	patience = 100 * time.Millisecond
	// leastPatience and timesP95 bound that time when the latency is known.
	leastPatience = 20 * time.Millisecond
	timesP95      = 4
)

// result tells the circuit breaker how a call ended that was given so much time.
func (d *dependency) result(err error, given time.Duration) error {
	if err == nil || errors.Is(err, ErrRefused) {
		return nil
	}
	if endpoint.NotSent(err) {
		return resilience.ErrIgnored
	}
	patience := patience
	if p95 := d.latency.P95(); p95 > 0 {
		patience = max(timesP95*p95, leastPatience)
	}
	return rpc.Outcome(err, given, patience)
}

// search searches the leg, by the replica that has the namespace in memory. If hedge is set and the answer is unusually slow, it
// sends a second request.
func (c legClient) search(ctx context.Context, req *triskelev1.SearchRequest, hedge bool) (resp *triskelev1.SearchResponse, hedged bool, err error) {
	start := time.Now()
	ctx = rpc.Near(ctx, req.GetNamespace())
	if after := c.latency.P95(); hedge && after > 0 {
		resp, hedged, err = resilience.Hedge(ctx, c.log, after, func(ctx context.Context) (*triskelev1.SearchResponse, error) { return c.Search(ctx, req) })
	} else {
		resp, err = c.Search(ctx, req)
	}
	if err == nil {
		c.latency.Add(time.Since(start))
	}
	return resp, hedged, err
}
