package telemetry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Recorder keeps the finished spans of watched traces, so that an answer can carry them without a collector. It is
// safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	traces map[trace.TraceID]*watched
}

type watched struct {
	watchers int
	spans    []*triskelev1.Span
}

var _ sdktrace.SpanProcessor = (*Recorder)(nil)

// Watch starts keeping the spans of a trace. Call stop once: it returns the spans kept so far. Several watchers of
// one trace each get a part of its spans.
func (r *Recorder) Watch(id trace.TraceID) (stop func() []*triskelev1.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.traces[id]
	if w == nil {
		w = &watched{}
		r.traces[id] = w
	}
	w.watchers++
	return func() []*triskelev1.Span {
		r.mu.Lock()
		defer r.mu.Unlock()
		spans := w.spans
		w.spans = nil
		if w.watchers--; w.watchers == 0 {
			delete(r.traces, id)
		}
		return spans
	}
}

func (r *Recorder) OnEnd(span sdktrace.ReadOnlySpan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.traces[span.SpanContext().TraceID()]
	if w == nil || len(w.spans) == maxSpansPerTrace {
		return
	}
	w.spans = append(w.spans, spanToProto(span))
}

func spanToProto(span sdktrace.ReadOnlySpan) *triskelev1.Span {
	out := &triskelev1.Span{
		Id:         span.SpanContext().SpanID().String(),
		Name:       span.Name(),
		Start:      timestamppb.New(span.StartTime()),
		Duration:   durationpb.New(span.EndTime().Sub(span.StartTime())),
		Attributes: make(map[string]string, len(span.Attributes())),
		Failed:     span.Status().Code == codes.Error,
	}
	if span.Parent().HasSpanID() {
		out.ParentId = span.Parent().SpanID().String()
	}
	if name, ok := span.Resource().Set().Value(semconv.ServiceNameKey); ok {
		out.Service = name.AsString()
	}
	for _, kv := range span.Attributes() {
		out.Attributes[string(kv.Key)] = kv.Value.String()
	}
	return out
}

func (*Recorder) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (*Recorder) Shutdown(context.Context) error { return nil }

func (*Recorder) ForceFlush(context.Context) error { return nil }

// Trace runs call under a sampled root span. It returns the spans that recorder kept and those that call returned.
// The connection that call uses must record with recorder, too.
func Trace(ctx context.Context, recorder *Recorder, name string, call func(context.Context) ([]*triskelev1.Span, error)) ([]*triskelev1.Span, error) {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName("triskele"))),
		sdktrace.WithSpanProcessor(recorder),
	)
	ctx, span := provider.Tracer(ScopeName).Start(ctx, name)
	take := recorder.Watch(span.SpanContext().TraceID())
	spans, err := call(ctx)
	span.End()
	return append(take(), spans...), err
}
