package queue

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// metrics are a worker's instruments. The index is their only label: namespaces are many and private.
type metrics struct {
	index    attribute.KeyValue
	duration metric.Float64Histogram
	memories metric.Int64Counter
}

// measure creates the worker's instruments. stop unregisters the gauges of the queue.
func (w *Worker) measure() (stop func()) {
	meter := cmp.Or[metric.Meter](w.Meter, noop.Meter{})
	w.metrics = metrics{
		index: attribute.String("index", w.Index),
		duration: telemetry.Must(meter.Float64Histogram("triskele.index.batch.duration", metric.WithUnit("s"),
			metric.WithDescription("Time of one call of an indexer, by index and outcome: indexed, failed, paused."),
			metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120))),
		memories: telemetry.Must(meter.Int64Counter("triskele.index.memories",
			metric.WithDescription("Memories taken from the queue, by index and outcome: indexed, failed (will be retried), given_up."))),
	}
	pending := telemetry.Must(meter.Int64ObservableGauge("triskele.index.pending",
		metric.WithDescription("Memories that wait to be indexed, without dead letters.")))
	dead := telemetry.Must(meter.Int64ObservableGauge("triskele.index.dead",
		metric.WithDescription("Dead letters: memories whose indexing was given up. `triskele queue list --dead` shows them.")))
	lag := telemetry.Must(meter.Float64ObservableGauge("triskele.index.lag", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest pending memory has waited.")))
	// Every replica reports the same queue: a dashboard takes the maximum, not the sum.
	registration := telemetry.Must(meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		total, err := w.Store.Total(ctx, w.Index)
		if err != nil {
			return err
		}
		labels := metric.WithAttributes(w.metrics.index)
		o.ObserveInt64(pending, total.Pending, labels)
		o.ObserveInt64(dead, total.Dead, labels)
		o.ObserveFloat64(lag, total.Lag.Seconds(), labels)
		return nil
	}, pending, dead, lag))
	return func() { _ = registration.Unregister() }
}

func (m metrics) called(ctx context.Context, n int, took time.Duration, err error) {
	outcome := "indexed"
	switch {
	case errors.Is(err, ErrPaused):
		outcome = "paused"
	case err != nil:
		outcome = "failed"
	default:
		m.count(ctx, n, outcome)
	}
	m.duration.Record(ctx, took.Seconds(), metric.WithAttributes(m.index, attribute.String("outcome", outcome)))
}

func (m metrics) count(ctx context.Context, n int, outcome string) {
	m.memories.Add(ctx, int64(n), metric.WithAttributes(m.index, attribute.String("outcome", outcome)))
}
