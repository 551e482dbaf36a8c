package memory

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// Names of operations, from OpenTelemetry's conventions for generative AI memory.
const (
	createMemory = "create_memory"
	updateMemory = "update_memory"
	deleteMemory = "delete_memory"
	deleteStore  = "delete_memory_store"
)

// begin bounds the time of an operation on a number of records, and starts a span if the call's span is recorded. end takes the outcome.
func begin(ctx context.Context, limit time.Duration, operation string, records int) (_ context.Context, end func(error)) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer(telemetry.ScopeName)
	ctx, span := tracer.Start(ctx, operation, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", operation),
		attribute.String("gen_ai.provider.name", "triskele"),
		attribute.Int("gen_ai.memory.record.count", records),
	))
	return ctx, func(err error) {
		cancel()
		if err != nil {
			span.SetStatus(codes.Error, status.Code(err).String()) // the message may quote a record
		}
		span.End()
	}
}
