package telemetry

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// trusted are the scopes whose spans keep their error texts: ours, and gRPC's, whose texts a client may read.
var trusted = map[string]bool{
	ScopeName: true,
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc": true,
}

// redacting drops the error texts of other libraries' spans: a database's message may quote its input. The error's
// code stays.
type redacting struct{ sdktrace.SpanProcessor }

func (r redacting) OnEnd(span sdktrace.ReadOnlySpan) {
	if !trusted[span.InstrumentationScope().Name] && (len(span.Events()) > 0 || span.Status().Description != "") {
		span = redacted{span}
	}
	r.SpanProcessor.OnEnd(span)
}

// redacted is a span without error texts.
type redacted struct{ sdktrace.ReadOnlySpan }

func (redacted) Events() []sdktrace.Event { return nil }

func (w redacted) Status() sdktrace.Status {
	return sdktrace.Status{Code: w.ReadOnlySpan.Status().Code}
}
