package gateway

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// metrics are what a gateway counts and times.
type metrics struct {
	recallTime, legTime, legShare, contentsTime, rerankTime metric.Float64Histogram
	recalls, lookups, missed                                metric.Int64Counter
	open                                                    metric.Int64UpDownCounter // breakers
}

// newMetrics makes them; cached is asked how many bytes answers take.
func newMetrics(meter metric.Meter, cached func() int) (m metrics, err error) {
	bounds := metric.WithExplicitBucketBoundaries(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5)
	var errs [10]error
	m.legTime, errs[0] = meter.Float64Histogram("triskele.leg.duration", metric.WithUnit("s"), bounds,
		metric.WithDescription("Time a leg took as the gateway saw it, by leg and state."))
	m.recallTime, errs[6] = meter.Float64Histogram("triskele.recall.duration", metric.WithUnit("s"), bounds,
		metric.WithDescription("Time of a whole recall, by outcome: ok, degraded, failed."))
	m.legShare, errs[7] = meter.Float64Histogram("triskele.leg.budget_used", metric.WithUnit("1"),
		metric.WithExplicitBucketBoundaries(.1, .2, .3, .4, .5, .6, .7, .8, .9, .95, 1, 1.05, 1.25),
		metric.WithDescription("Share of its budget that a leg took, by leg; about 1 for one that was cut off."))
	m.contentsTime, errs[9] = meter.Float64Histogram("triskele.contents.duration", metric.WithUnit("s"), bounds,
		metric.WithDescription("Time that fetching the contents of hits took, by state."))
	m.missed, errs[8] = meter.Int64Counter("triskele.deadline.misses",
		metric.WithDescription("Times that a leg did not answer within its budget, or had too little of one to be asked, by leg."))
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

// begin has the counts there from the start, at 0, so that the first of a kind is seen as a rise.
func (m metrics) begin(legs []Leg) {
	ctx := context.Background()
	for _, outcome := range []string{"ok", "degraded", "failed"} {
		m.recalls.Add(ctx, 0, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
	for _, result := range []string{"hit", "miss"} {
		m.lookups.Add(ctx, 0, metric.WithAttributes(attribute.String("result", result)))
	}
	for _, leg := range legs {
		name := metric.WithAttributes(attribute.String("leg", leg.Name))
		m.missed.Add(ctx, 0, name)
		m.open.Add(ctx, 0, name)
	}
}

// searched counts and times what the legs did in a recall, within its span, so that a bucket leads to its trace.
func (m metrics) searched(ctx context.Context, outcomes []outcome) {
	for _, o := range outcomes {
		leg := attribute.String("leg", o.name)
		m.legTime.Record(ctx, o.spent.Seconds(), metric.WithAttributes(leg, attribute.String("state", stateName(o.state))))
		if o.late || o.state == triskelev1.LegState_LEG_STATE_TIMED_OUT {
			m.missed.Add(ctx, 1, metric.WithAttributes(leg))
		}
		if o.budget > 0 && o.state != triskelev1.LegState_LEG_STATE_SKIPPED {
			m.legShare.Record(ctx, o.spent.Seconds()/o.budget.Seconds(), metric.WithAttributes(leg))
		}
	}
}
