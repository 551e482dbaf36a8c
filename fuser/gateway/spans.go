package gateway

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

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

// endLeg ends the span of a search.
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
