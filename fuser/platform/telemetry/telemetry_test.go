package telemetry_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// sampled is a context that a caller sampled.
func sampled(t *testing.T) trace.SpanContext {
	t.Helper()
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
}

func service(t *testing.T) *telemetry.Service {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return process.Service("test")
}

func TestSilentProcessLeavesTheDecisionToOthers(t *testing.T) {
	s := service(t)
	ctx, span := s.Tracer.Start(t.Context(), "root")
	if span.IsRecording() {
		t.Error("a span nobody will read is recorded")
	}
	carrier := propagation.MapCarrier{}
	s.Propagator.Inject(ctx, carrier)
	if len(carrier) != 0 {
		t.Errorf("told the next process not to record: %v", carrier)
	}
	ctx, span = s.Tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), sampled(t)), "child")
	if !span.IsRecording() {
		t.Error("a span the caller sampled is not recorded")
	}
	s.Propagator.Inject(ctx, carrier)
	if carrier["traceparent"] == "" {
		t.Error("a sampled trace ends here")
	}
}

func TestExportingProcessSamplesItsRoots(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	s := service(t)
	_, span := s.Tracer.Start(t.Context(), "root")
	if !span.IsRecording() {
		t.Error("nothing is recorded although an exporter is set")
	}
}

func TestStandardVariablesAreFollowed(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	if _, span := service(t).Tracer.Start(t.Context(), "root"); span.IsRecording() {
		t.Error("recorded although the exporter is none")
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "nonsense")
	if _, err := telemetry.Start(t.Context()); err == nil {
		t.Error("an unknown exporter was accepted")
	}
}

func TestRecorderKeepsWatchedTracesOnly(t *testing.T) {
	s := service(t)
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), sampled(t))
	_, before := s.Tracer.Start(ctx, "before")
	before.End()
	first, second := s.Recorder.Watch(trace.TraceID{1}), s.Recorder.Watch(trace.TraceID{1})
	_, span := s.Tracer.Start(ctx, "during", trace.WithAttributes(attribute.Int("n", 7)))
	span.End()
	_, elsewhere := s.Tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), sampled(t).WithTraceID(trace.TraceID{9})), "elsewhere")
	elsewhere.End()
	spans := first()
	if len(spans) != 1 || spans[0].GetName() != "during" || spans[0].GetService() != "test" || spans[0].GetAttributes()["n"] != "7" ||
		spans[0].GetParentId() != sampled(t).SpanID().String() || spans[0].GetDuration().AsDuration() <= 0 {
		t.Errorf("spans %v", spans)
	}
	if spans := second(); len(spans) != 0 {
		t.Errorf("the same spans were handed over twice: %v", spans)
	}
	_, after := s.Tracer.Start(ctx, "after")
	after.End()
	if spans := s.Recorder.Watch(trace.TraceID{1})(); len(spans) != 0 {
		t.Errorf("spans were kept that nobody watched: %v", spans)
	}
}
