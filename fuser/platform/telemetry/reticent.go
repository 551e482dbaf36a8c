package telemetry

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spoken are the scopes whose spans may say in words what went wrong: our own, and gRPC's, whose words are those that a
// client may read.
var spoken = map[string]bool{
	ScopeName: true,
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc": true,
}

// reticent hands spans on without the words of others' errors: a database's message may quote what it was given. That there
// was an error, and its code, stay.
type reticent struct{ sdktrace.SpanProcessor }

func (r reticent) OnEnd(span sdktrace.ReadOnlySpan) {
	if !spoken[span.InstrumentationScope().Name] && (len(span.Events()) > 0 || span.Status().Description != "") {
		span = wordless{span}
	}
	r.SpanProcessor.OnEnd(span)
}

// wordless is a span without its errors' words.
type wordless struct{ sdktrace.ReadOnlySpan }

// Events implements sdktrace.ReadOnlySpan.
func (wordless) Events() []sdktrace.Event { return nil }

// Status implements sdktrace.ReadOnlySpan.
func (w wordless) Status() sdktrace.Status {
	return sdktrace.Status{Code: w.ReadOnlySpan.Status().Code}
}
