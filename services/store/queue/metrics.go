package queue

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// metrics are a worker's instruments. The index is their only label: namespaces are many and private.
type metrics struct {
	index    attribute.KeyValue
	duration metric.Float64Histogram
	memories metric.Int64Counter
}

// measure creates the worker's instruments. stop unregisters the gauges of the queue.
func (w *Worker) measure() (stop func(), err error) {
	meter := cmp.Or[metric.Meter](w.Meter, noop.Meter{})
	var errs [5]error
	w.metrics.index = attribute.String("index", w.Index)
	w.metrics.duration, errs[0] = meter.Float64Histogram("triskele.index.batch.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of one call of an indexer, by index and outcome: indexed, failed, paused."),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120))
	w.metrics.memories, errs[1] = meter.Int64Counter("triskele.index.memories",
		metric.WithDescription("Memories taken from the queue, by index and outcome: indexed, failed (will be retried), given_up."))
	pending, err := meter.Int64ObservableGauge("triskele.index.pending",
		metric.WithDescription("Memories that wait to be indexed, without dead letters."))
	errs[2] = err
	dead, err := meter.Int64ObservableGauge("triskele.index.dead",
		metric.WithDescription("Dead letters: memories whose indexing was given up. `triskele queue list --dead` shows them."))
	errs[3] = err
	lag, err := meter.Float64ObservableGauge("triskele.index.lag", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest pending memory has waited."))
	errs[4] = err
	if err := errors.Join(errs[:]...); err != nil {
		return func() {}, err
	}
	// Every replica reports the same queue: a dashboard takes the maximum, not the sum.
	registration, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		total, err := w.Store.Total(ctx, w.Index)
		if err != nil {
			return err
		}
		labels := metric.WithAttributes(w.metrics.index)
		o.ObserveInt64(pending, total.Pending, labels)
		o.ObserveInt64(dead, total.Dead, labels)
		o.ObserveFloat64(lag, total.Lag.Seconds(), labels)
		return nil
	}, pending, dead, lag)
	if err != nil {
		return func() {}, err
	}
	return func() { _ = registration.Unregister() }, nil
}

// called counts one call of the indexer for n memories.
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

// count counts memories by their outcome.
func (m metrics) count(ctx context.Context, n int, outcome string) {
	m.memories.Add(ctx, int64(n), metric.WithAttributes(m.index, attribute.String("outcome", outcome)))
}
