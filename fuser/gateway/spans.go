package gateway

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/fusion"
)

// TraceConfig says what spans hold besides. A command line has it as flags.
type TraceConfig struct {
	Queries bool `name:"trace-queries" help:"Put the texts of queries into traces, which hold no text else." env:"TRISKELE_TRACE_QUERIES"`
}

// startLeg begins the span of a leg's part in a recall.
func (g *Gateway) startLeg(ctx context.Context, s search) (context.Context, trace.Span) {
	return g.tel.Tracer.Start(ctx, "leg "+s.name, trace.WithAttributes(
		attribute.String("triskele.leg", s.name),
		attribute.Int64("triskele.budget_us", s.budget.Microseconds()),
	))
}

// endLeg says on its span how the leg's part ended.
func endLeg(span trace.Span, o outcome) {
	span.SetAttributes(
		attribute.String("triskele.state", stateName(o.state)),
		attribute.String("triskele.reason", o.reason),
		attribute.Int("triskele.hits", len(o.hits)),
		attribute.Int64("triskele.behind", o.behind),
		attribute.Int64("triskele.spent_us", o.spent.Microseconds()),
		attribute.Int64("triskele.queued_us", o.queued.Microseconds()),
		attribute.Bool("triskele.hedged", o.hedged),
		attribute.Bool("triskele.spare", o.spare),
	)
	if o.atLeast != "" {
		span.SetAttributes(attribute.Bool("triskele.stale", o.stale))
	}
	if o.lost() {
		span.SetStatus(otelcodes.Error, o.reason)
	}
	span.End()
}

// notAsked leaves a span of a leg that was to be asked and was not, so that a trace says so.
func (g *Gateway) notAsked(ctx context.Context, o outcome) {
	_, span := g.startLeg(ctx, o.search)
	endLeg(span, o)
}

// spareError ends searches that are not waited for any longer. It says why.
type spareError string

func (e spareError) Error() string { return string(e) }

// spared says whether a search was ended because it makes no difference any more, and why.
func spared(ctx context.Context) (why string, yes bool) {
	var spare spareError
	yes = errors.As(context.Cause(ctx), &spare)
	return string(spare), yes
}

// overlap is how far the legs found the same: the share of the shorter list's first k that the other's first k have too, as a
// mean over the pairs of legs that found something in the same namespace. Without such a pair compared is false.
func overlap(outcomes []outcome, k int) (share float64, compared bool) {
	pairs := 0
	for i, a := range outcomes {
		for _, b := range outcomes[i+1:] {
			first, second := a.hits[:min(k, len(a.hits))], b.hits[:min(k, len(b.hits))]
			if a.namespace != b.namespace || len(first) == 0 || len(second) == 0 {
				continue
			}
			common := 0
			for _, hit := range first {
				if slices.ContainsFunc(second, func(other fusion.Hit) bool { return other.ID == hit.ID }) {
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
