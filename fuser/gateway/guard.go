package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/resilience"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// guard is what stands between the gateway and one of those it asks: a leg, the reranker, the memory service.
type guard struct {
	leg     Leg
	breaker *resilience.Breaker
	slots   resilience.Slots
	latency resilience.Latency // of calls that were answered
	log     *slog.Logger
}

func (g *Gateway) newGuard(leg Leg) *guard {
	changed := func(open bool) { g.opened(leg.Name, open) }
	return &guard{leg: leg, breaker: resilience.NewBreaker(g.config.Breaker, changed), slots: resilience.NewSlots(leg.Limit), log: g.log}
}

// opened notes that a breaker opened, or closed again.
func (g *Gateway) opened(name string, open bool) {
	change := int64(-1)
	if open {
		change = 1
		g.log.Warn("it keeps failing and is left alone for a while", "leg", name)
	} else {
		g.log.Info("it answers again", "leg", name)
	}
	g.open.Add(context.Background(), change, metric.WithAttributes(attribute.String("leg", name)))
}

// notCalledError is why something was not asked at all.
type notCalledError struct {
	reason string
	late   bool // for want of time
}

func (e *notCalledError) Error() string { return e.reason }

// errPanicked is in words fit for callers; the log has the panic.
var errPanicked = errors.New("internal error")

// caught makes a call of what has a name, and says errPanicked if it panics.
func caught[T any](ctx context.Context, log *slog.Logger, name string, call func() (T, error)) (out T, err error) {
	err = panics.Catch(ctx, log, "call of "+name, func() (err error) {
		out, err = call()
		return err
	})
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		err = errPanicked
	}
	return out, err
}

// pass makes a call behind a guard: it waits for a free slot until ctx ends, asks the breaker, and tells both how the call
// ended. An error of its own is a *notCalledError or, if the call panicked, errPanicked.
func pass[T any](ctx context.Context, g *guard, call func(context.Context) (T, error)) (out T, err error) {
	leave, err := g.enter(ctx)
	if err != nil {
		return out, err
	}
	var given time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		given = time.Until(deadline)
	}
	out, err = caught(ctx, g.log, g.leg.Name, func() (T, error) { return call(ctx) })
	leave(g.verdict(err, given)) // a panic is an error that nobody knows, and so unhealthy
	return out, err
}

// timed remembers how long a call takes that is answered.
func timed[T any](g *guard, call func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		start := time.Now()
		out, err := call(ctx)
		if err == nil {
			g.latency.Add(time.Since(start))
		}
		return out, err
	}
}

// enter waits for a free slot until ctx ends, and asks the breaker. Unless there is an error, leave must be called.
func (g *guard) enter(ctx context.Context) (leave func(resilience.Verdict), err error) {
	if !g.slots.Take(ctx) {
		return nil, &notCalledError{fmt.Sprintf("%d other calls of it were running all the time", g.leg.Limit), true}
	}
	done, ok := g.breaker.Allow()
	if !ok {
		g.slots.Free()
		return nil, &notCalledError{"its circuit breaker is open, because it kept failing", false}
	}
	return func(v resilience.Verdict) {
		g.slots.Free()
		done(v)
	}, nil
}

// overload says why something was left out under load.
func overload(p resilience.Pressure) string {
	return fmt.Sprintf("left out under load: %d recalls are running, and %.0f is what the services keep up with", p.Running, p.Limit)
}

const (
	// patience is what a leg whose speed is not known, or no longer, may take without being thought ill.
	patience = 100 * time.Millisecond
	// leastPatience and timesP95 are the same for one whose speed is known.
	leastPatience = 20 * time.Millisecond
	timesP95      = 4
)

// verdict says what the end of a call means for the leg's health. A caller that gives little time must not make a leg
// look ill.
func (g *guard) verdict(err error, given time.Duration) resilience.Verdict {
	code := status.Code(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, ErrRefused):
		code = codes.InvalidArgument
	}
	switch code {
	case codes.DeadlineExceeded:
		patience := patience
		if p95 := g.latency.P95(); p95 > 0 {
			patience = max(timesP95*p95, leastPatience)
		}
		if given < patience {
			return resilience.Undecided
		}
		return resilience.Unhealthy
	case codes.Canceled:
		return resilience.Undecided
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss, codes.ResourceExhausted:
		return resilience.Unhealthy
	}
	return resilience.Healthy
}

// search asks the leg, twice if it is to be hedged and unusually slow.
func (g *guard) search(ctx context.Context, client triskelev1.LegServiceClient, req *triskelev1.SearchRequest, hedge bool) (resp *triskelev1.SearchResponse, hedged bool, err error) {
	start := time.Now()
	if after := g.latency.P95(); hedge && after > 0 {
		resp, hedged, err = resilience.Hedge(ctx, g.log, after, func(ctx context.Context) (*triskelev1.SearchResponse, error) { return client.Search(ctx, req) })
	} else {
		resp, err = client.Search(ctx, req)
	}
	if err == nil {
		g.latency.Add(time.Since(start))
	}
	return resp, hedged, err
}

// leastSlow is what an answer must take to count as slow, whatever its budget.
const leastSlow = 10 * time.Millisecond

// slow says whether a search suggests that there is more work than can be done in time.
func (o outcome) slow() bool {
	return o.state == triskelev1.LegState_LEG_STATE_TIMED_OUT && o.budget >= leastSlow || o.spent > max(o.budget/2, leastSlow)
}
