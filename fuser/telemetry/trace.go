package telemetry

import (
	"context"

	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Trace runs call under a sampled root span of the given service and name and returns what the recorder kept of the trace,
// together with the spans that call returned from elsewhere. The connection that call uses must record with it too.
func (r *Recorder) Trace(ctx context.Context, service, name string, call func(context.Context) ([]*triskelev1.Span, error)) ([]*triskelev1.Span, error) {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(sdkresource.NewSchemaless(semconv.ServiceName(service))),
		sdktrace.WithSpanProcessor(r),
	)
	ctx, span := provider.Tracer(ScopeName).Start(ctx, name)
	take := r.Watch(span.SpanContext().TraceID())
	spans, err := call(ctx)
	span.End()
	return append(take(), spans...), err
}
