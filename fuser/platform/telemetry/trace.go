package telemetry

import (
	"context"

	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Trace runs call under a sampled root span. It returns the spans that recorder kept and those that call returned.
// The connection that call uses must record with recorder, too.
func Trace(ctx context.Context, recorder *Recorder, name string, call func(context.Context) ([]*triskelev1.Span, error)) ([]*triskelev1.Span, error) {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(sdkresource.NewSchemaless(semconv.ServiceName("triskele"))),
		sdktrace.WithSpanProcessor(recorder),
	)
	ctx, span := provider.Tracer(ScopeName).Start(ctx, name)
	take := recorder.Watch(span.SpanContext().TraceID())
	spans, err := call(ctx)
	span.End()
	return append(take(), spans...), err
}
