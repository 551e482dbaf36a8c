package gateway

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

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

// TraceConfig says what spans contain. A command line has it as flags.
type TraceConfig struct {
	Queries bool `name:"trace-queries" help:"Put the texts of queries into traces. Traces contain no other text." env:"TRISKELE_TRACE_QUERIES"`
}

// startRecall begins the span of a recall. Names and attributes follow OpenTelemetry's conventions for generative AI memory
// operations.
func (g *Gateway) startRecall(ctx context.Context, start time.Time, req *triskelev1.RecallRequest) (context.Context, trace.Span) {
	ctx, span := g.tel.Tracer.Start(ctx, "search_memory", trace.WithTimestamp(start), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "search_memory"),
		attribute.String("gen_ai.provider.name", "triskele"),
		attribute.Int("triskele.namespaces", len(req.GetNamespaces())),
	))
	if len(req.GetNamespaces()) == 1 {
		span.SetAttributes(attribute.String("gen_ai.memory.store.id", req.GetNamespaces()[0]))
	}
	if g.config.Trace.Queries {
		span.SetAttributes(attribute.String("gen_ai.memory.query.text", req.GetQuery()))
	}
	return ctx, span
}

// endRecall ends the span of a recall, and counts and times the recall. What is the caller's doing is no failure of the gateway.
func (g *Gateway) endRecall(ctx context.Context, span trace.Span, start time.Time, resp *triskelev1.RecallResponse, err error) {
	result := "ok"
	switch {
	case err != nil && gone(ctx):
		result = "cancelled"
	case status.Code(err) == codes.InvalidArgument:
		result = "invalid"
	case err != nil:
		result = "failed"
		span.SetStatus(otelcodes.Error, status.Code(err).String())
	default:
		span.SetAttributes(
			attribute.Int("gen_ai.memory.record.count", len(resp.GetHits())),
			attribute.Int("gen_ai.memory.search.result.count", len(resp.GetHits())), // its name in earlier conventions
			attribute.Bool("triskele.degraded", resp.GetDegraded()),
			attribute.String("triskele.fusion", resp.GetFusion().GetMethod().String()),
			attribute.Int64("triskele.budget_us", resp.GetBudget().AsDuration().Microseconds()),
			attribute.Int64("triskele.spent_us", time.Since(start).Microseconds()),
		)
		if resp.GetDegraded() {
			result = "degraded"
			span.SetAttributes(attribute.String("triskele.reason", resp.GetDegradedReason()))
		}
	}
	outcome := metric.WithAttributes(attribute.String("outcome", result))
	g.recalls.Add(ctx, 1, outcome)
	g.recallTime.Record(ctx, time.Since(start).Seconds(), outcome)
	span.End()
}

// startLeg begins the span of a search. Its name and its first attributes follow the conventions for retrieval.
func (g *Gateway) startLeg(ctx context.Context, s search) (context.Context, trace.Span) {
	return g.tel.Tracer.Start(ctx, "retrieval "+s.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "retrieval"),
		attribute.String("gen_ai.provider.name", "triskele"),
		attribute.String("gen_ai.data_source.id", s.name),
		attribute.String("triskele.leg", s.name),
		attribute.Int64("triskele.budget_us", s.budget.Microseconds()),
	))
}

func endLeg(span trace.Span, o outcome) {
	span.SetAttributes(
		attribute.String("triskele.state", stateName(o.state)),
		attribute.String("triskele.reason", o.reason),
		attribute.Int("triskele.hits", len(o.hits)),
		attribute.Int64("triskele.behind", o.answer.GetBehind()),
		attribute.Int64("triskele.spent_us", o.spent.Microseconds()),
		attribute.Int64("triskele.queued_us", o.queued.Microseconds()),
		attribute.Bool("triskele.hedged", o.hedged),
		attribute.Bool("triskele.unneeded", o.unneeded),
	)
	if o.request.GetAtLeast() != "" {
		span.SetAttributes(attribute.Bool("triskele.stale", o.answer.GetStale()))
	}
	if o.lost() {
		span.SetStatus(otelcodes.Error, o.reason)
	}
	span.End()
}

// overlap is the share of the shorter list's first k hits that are among the other list's first k. It is the mean over all
// pairs of legs with hits in the same namespace. Without such a pair compared is false.
func overlap(outcomes []outcome, k int) (share float64, compared bool) {
	pairs := 0
	for i, a := range outcomes {
		first := a.hits[:min(k, len(a.hits))]
		ids := make(map[string]bool, len(first))
		for _, hit := range first {
			ids[hit.ID] = true
		}
		for _, b := range outcomes[i+1:] {
			second := b.hits[:min(k, len(b.hits))]
			if a.namespace != b.namespace || len(first) == 0 || len(second) == 0 {
				continue
			}
			common := 0
			for _, hit := range second {
				if ids[hit.ID] {
					common++
				}
			}
			share += float64(common) / float64(min(len(first), len(second)))
			pairs++
		}
	}
	if pairs == 0 {
		return 0, false
	}
	return share / float64(pairs), true
}

func (r *recall) noteLegs(outcomes []outcome) {
	if r.note == nil {
		return
	}
	r.note.Budget, r.note.Legs = r.plan.Total, make([]recent.Leg, 0, len(outcomes))
	for _, o := range outcomes {
		if o.off != "" {
			continue
		}
		leg := recent.Leg{
			Name: o.name, State: o.state, Reason: o.reason, Budget: o.budget, Spent: o.spent, Queued: o.queued, Hits: len(o.hits), Unneeded: o.unneeded,
		}
		if !o.began.IsZero() {
			leg.Start = o.began.Sub(r.start)
		}
		r.note.Legs = append(r.note.Legs, leg)
	}
}

// noteStage adds a stage that ends now to the note.
func (r *recall) noteStage(name string, began time.Time) {
	if r.note != nil {
		r.note.Stages = append(r.note.Stages, recent.Stage{Name: name, Start: began.Sub(r.start), Took: time.Since(began)})
	}
}

// gone reports whether a caller went away before its deadline: gRPC may tell of that as of a call that was cancelled.
func gone(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return errors.Is(ctx.Err(), context.Canceled) && !(bounded && time.Now().After(deadline))
}

// noteRecall adds a recall that has ended to the list of recent recalls, unless the gateway refused it or its caller went away.
func (g *Gateway) noteRecall(ctx context.Context, note *recent.Recall, id string, resp *triskelev1.RecallResponse, err error, spans []*triskelev1.Span) {
	if note == nil || status.Code(err) == codes.InvalidArgument || err != nil && gone(ctx) {
		return
	}
	note.TraceID, note.Took, note.Spans = id, time.Since(note.Start), spans
	if err != nil {
		note.Failed = status.Code(err).String()
	} else {
		note.Budget, note.Hits, note.Degraded = resp.GetBudget().AsDuration(), len(resp.GetHits()), resp.GetDegradedReason()
	}
	g.config.Recent.Add(note)
}
