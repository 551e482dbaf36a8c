package remote

import (
	"context"
	"errors"
	"strconv"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// Measure counts requests and their tokens by meter. It must be called before the embedder is used.
func (e *Embedder) Measure(meter metric.Meter) {
	e.requests = telemetry.Must(meter.Int64Counter("triskele.embed.requests",
		metric.WithDescription("Requests to an embedding server with all their attempts, by provider, model and outcome: ok, or the kind of error.")))
	e.tokens = telemetry.Must(meter.Int64Counter("triskele.embed.tokens",
		metric.WithDescription("Tokens that an embedding server reports, by provider and model.")))
}

// observe starts the span of a request, by OpenTelemetry's conventions for generative AI. end records the outcome in the span
// and the counters.
func (e *Embedder) observe(ctx context.Context, texts int) (_ context.Context, end func(tokens int, err error)) {
	labels := []attribute.KeyValue{
		attribute.String("gen_ai.provider.name", e.config.Provider), attribute.String("gen_ai.request.model", e.config.Model),
	}
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer(telemetry.ScopeName)
	ctx, span := tracer.Start(ctx, "embeddings "+e.config.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(labels...), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "embeddings"),
		attribute.Int("gen_ai.embeddings.dimension.count", e.config.Dimensions),
		attribute.String("server.address", e.server.URL.Hostname()),
		attribute.Int("triskele.texts", texts),
	))
	if number, err := strconv.Atoi(e.server.URL.Port()); err == nil {
		span.SetAttributes(attribute.Int("server.port", number))
	}
	return ctx, func(tokens int, err error) {
		outcome := kindOf(err)
		if err != nil {
			span.SetAttributes(attribute.String("error.type", outcome))
		}
		if err != nil && !errors.Is(err, context.Canceled) { // a cancelled request is no failure
			span.SetStatus(codes.Error, outcome)
		}
		if tokens > 0 {
			span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", tokens))
			e.tokens.Add(ctx, int64(tokens), metric.WithAttributes(labels...))
		}
		e.requests.Add(ctx, 1, metric.WithAttributes(append(labels, attribute.String("outcome", outcome))...))
		span.End()
	}
}

// kindOf returns the outcome of a request as one word: "ok" or the kind of error.
func kindOf(err error) string {
	var status *endpoint.StatusError
	var wrong *malformedError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &status):
		return "http_" + strconv.Itoa(status.Code)
	case errors.As(err, &wrong):
		return "malformed"
	case endpoint.NotSent(err):
		return "not_sent"
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return "left_alone"
	case errors.Is(err, context.DeadlineExceeded):
		return "timed_out"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "unreachable"
}
