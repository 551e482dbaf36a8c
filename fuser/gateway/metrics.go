package gateway

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// metrics are the gateway's instruments.
type metrics struct {
	recallTime, legTime, legShare, contentsTime, rerankTime metric.Float64Histogram
	recalls, missed                                         metric.Int64Counter
	open                                                    metric.Int64UpDownCounter // circuit breakers
}

func newMetrics(meter metric.Meter) metrics {
	seconds := func(name, description string) metric.Float64Histogram {
		return telemetry.Must(meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5)))
	}
	counter := func(name, description string) metric.Int64Counter {
		return telemetry.Must(meter.Int64Counter(name, metric.WithDescription(description)))
	}
	return metrics{
		recallTime: seconds("triskele.recall.duration", "Duration of a recall, by outcome: ok, degraded, failed, invalid, cancelled."),
		legTime:    seconds("triskele.leg.duration", "Duration of a leg's search as the gateway saw it, by leg and state."),
		legShare: telemetry.Must(meter.Float64Histogram("triskele.leg.budget_used", metric.WithUnit("1"),
			metric.WithDescription("Share of its budget that a leg took, by leg; about 1 for one that timed out."),
			metric.WithExplicitBucketBoundaries(.1, .2, .3, .4, .5, .6, .7, .8, .9, .95, 1, 1.05, 1.25))),
		contentsTime: seconds("triskele.contents.duration", "Duration of fetching the contents of hits, by state."),
		rerankTime:   seconds("triskele.rerank.duration", "Duration of reranking, by state."),
		recalls:      counter("triskele.recalls", "Recalls by outcome: ok, degraded, failed, invalid, cancelled."),
		missed:       counter("triskele.deadline.misses", "Searches that did not end within their budget, or were not started for lack of time, by leg."),
		open:         telemetry.Must(meter.Int64UpDownCounter("triskele.breaker.open", metric.WithDescription("Legs whose circuit breaker is open, by leg."))),
	}
}

// begin adds 0 to the counters, so that they exist from the start and the first event shows as a rise.
func (m metrics) begin(legs []Leg) {
	ctx := context.Background()
	for _, outcome := range []string{"ok", "degraded", "failed", "invalid", "cancelled"} {
		m.recalls.Add(ctx, 0, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
	for _, leg := range legs {
		name := metric.WithAttributes(attribute.String("leg", leg.Name))
		m.missed.Add(ctx, 0, name)
		m.open.Add(ctx, 0, name)
	}
}

// searched counts and times the searches of a recall. ctx has the recall's span, so that a bucket leads to its trace.
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
