package gateway

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// metrics are what a gateway counts and times.
type metrics struct {
	legTime, rerankTime metric.Float64Histogram
	recalls, lookups    metric.Int64Counter
	open                metric.Int64UpDownCounter // breakers
}

// newMetrics makes them; cached is asked how many bytes answers take.
func newMetrics(meter metric.Meter, cached func() int) (m metrics, err error) {
	bounds := metric.WithExplicitBucketBoundaries(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5)
	var errs [6]error
	m.legTime, errs[0] = meter.Float64Histogram("triskele.leg.duration", metric.WithUnit("s"), bounds,
		metric.WithDescription("Time a leg took as the gateway saw it, by leg and state."))
	m.rerankTime, errs[1] = meter.Float64Histogram("triskele.rerank.duration", metric.WithUnit("s"), bounds,
		metric.WithDescription("Time reranking took, by state."))
	m.recalls, errs[2] = meter.Int64Counter("triskele.recalls", metric.WithDescription("Recalls by outcome: ok, degraded, failed."))
	m.lookups, errs[3] = meter.Int64Counter("triskele.cache.lookups",
		metric.WithDescription("Looks for a remembered answer, by result: hit, miss, bypassed, or unknown when the revision could not be had."))
	m.open, errs[4] = meter.Int64UpDownCounter("triskele.breaker.open", metric.WithDescription("Legs whose circuit breaker is open, by leg."))
	_, errs[5] = meter.Int64ObservableGauge("triskele.cache.bytes", metric.WithUnit("By"), metric.WithDescription("Memory that remembered answers take."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(cached()))
			return nil
		}))
	return m, errors.Join(errs[:]...)
}
