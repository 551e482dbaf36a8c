package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/isolation"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// guard is what stands between the gateway and one leg, or its reranker.
type guard struct {
	leg     Leg
	breaker *isolation.Breaker
	slots   isolation.Slots
	latency isolation.Latency // of searches that were answered
}

func newGuard(leg Leg, breaker isolation.BreakerConfig, changed func(open bool)) *guard {
	return &guard{leg: leg, breaker: isolation.NewBreaker(breaker, changed), slots: isolation.NewSlots(leg.Limit)}
}

// opened notes that a leg's breaker opened, or closed again.
func (g *Gateway) opened(leg string, open bool) {
	change := int64(-1)
	if open {
		change = 1
		g.log.Warn("a leg keeps failing and is left alone for a while", "leg", leg)
	} else {
		g.log.Info("a leg answers again", "leg", leg)
	}
	g.open.Add(context.Background(), change, metric.WithAttributes(attribute.String("leg", leg)))
}

// enter waits for a free slot until ctx ends, and asks the breaker. Either leave must be called, or there is a reason why
// the leg is not called, which may be that it became late.
func (g *guard) enter(ctx context.Context) (leave func(isolation.Verdict), reason string, late bool) {
	if !g.slots.Take(ctx) {
		return nil, fmt.Sprintf("%d other searches of it were running all the time", g.leg.Limit), true
	}
	done, ok := g.breaker.Allow()
	if !ok {
		g.slots.Free()
		return nil, "its circuit breaker is open, because it kept failing", false
	}
	return func(v isolation.Verdict) {
		g.slots.Free()
		done(v)
	}, "", false
}

// overload says why something was left out under load.
func overload(p isolation.Pressure) string {
	return fmt.Sprintf("left out under load: %d recalls are running, and %.0f is what the services keep up with", p.Running, p.Limit)
}

const (
	// patience is what a leg whose speed is not known yet may take without being thought ill.
	patience = 100 * time.Millisecond
	// leastPatience and timesP95 are the same for one whose speed is known.
	leastPatience = 20 * time.Millisecond
	timesP95      = 4
)

// verdict says what the end of a call means for the leg's health. A caller that gives little time must not make a leg
// look ill.
func (g *guard) verdict(err error, given time.Duration) isolation.Verdict {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		patience := patience
		if p95 := g.latency.P95(); p95 > 0 {
			patience = max(timesP95*p95, leastPatience)
		}
		if given < patience {
			return isolation.Undecided
		}
		return isolation.Unhealthy
	case codes.Canceled:
		return isolation.Undecided
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss, codes.ResourceExhausted:
		return isolation.Unhealthy
	}
	return isolation.Healthy
}

// search asks the leg, twice if it is to be hedged and unusually slow.
func (g *guard) search(ctx context.Context, client triskelev1.LegServiceClient, req *triskelev1.SearchRequest, hedge bool) (resp *triskelev1.SearchResponse, hedged bool, err error) {
	start := time.Now()
	if after := g.latency.P95(); hedge && after > 0 {
		resp, hedged, err = isolation.Hedge(ctx, after, func(ctx context.Context) (*triskelev1.SearchResponse, error) { return client.Search(ctx, req) })
		var panicked *isolation.PanicError
		if errors.As(err, &panicked) {
			panic(panicked) // to be contained where every panic of a leg is
		}
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
