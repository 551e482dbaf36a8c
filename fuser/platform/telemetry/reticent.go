package telemetry

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spoken are the scopes whose spans keep their error texts: ours, and gRPC's, whose texts a client may read.
var spoken = map[string]bool{
	ScopeName: true,
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc": true,
}

// reticent drops the error texts of other libraries' spans: a database's message may quote its input. The error's
// code stays.
type reticent struct{ sdktrace.SpanProcessor }

func (r reticent) OnEnd(span sdktrace.ReadOnlySpan) {
	if !spoken[span.InstrumentationScope().Name] && (len(span.Events()) > 0 || span.Status().Description != "") {
		span = wordless{span}
	}
	r.SpanProcessor.OnEnd(span)
}

// wordless is a span without error texts.
type wordless struct{ sdktrace.ReadOnlySpan }

// Events implements sdktrace.ReadOnlySpan.
func (wordless) Events() []sdktrace.Event { return nil }

// Status implements sdktrace.ReadOnlySpan.
func (w wordless) Status() sdktrace.Status {
	return sdktrace.Status{Code: w.ReadOnlySpan.Status().Code}
}
