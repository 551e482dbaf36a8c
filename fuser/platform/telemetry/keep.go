package telemetry

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxHeldTraces bounds the traces held at a time; others are not held.
	maxHeldTraces = 4096
	// maxSpansPerTrace bounds the spans held of one trace; others are dropped.
	maxSpansPerTrace = 1024
)

// Keep selects traces to export although the sampler left them out. Embed it in a program's flags.
type Keep struct {
	Slow time.Duration `name:"trace-slow" help:"Always export traces of recalls that fail, are degraded or take at least this long; 0 exports only what OTEL_TRACES_SAMPLER samples." default:"250ms" env:"TRISKELE_TRACE_SLOW"`
}

// Keeping makes the process export more traces than its sampler.
func Keeping(k Keep) Option { return func(p *Process) { p.keep = k } }

// wanted reports whether to keep any traces; always_off means none.
func (k Keep) wanted() bool {
	return k.Slow > 0 && !strings.HasSuffix(os.Getenv(samplerVariable), "always_off")
}

// samplerVariable is the standard variable that names a sampler.
const samplerVariable = "OTEL_TRACES_SAMPLER"

// samplerFromEnvironment returns the sampler that the standard variables name. The default samples every trace that
// its caller sampled or began here.
func samplerFromEnvironment() (sdktrace.Sampler, error) {
	ratio := 1.
	if argument := os.Getenv(samplerVariable + "_ARG"); argument != "" {
		var err error
		if ratio, err = strconv.ParseFloat(argument, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("%s_ARG must be a number from 0 to 1, not %q", samplerVariable, argument)
		}
	}
	samplers := map[string]sdktrace.Sampler{
		"":                         sdktrace.ParentBased(sdktrace.AlwaysSample()),
		"parentbased_always_on":    sdktrace.ParentBased(sdktrace.AlwaysSample()),
		"parentbased_always_off":   sdktrace.ParentBased(sdktrace.NeverSample()),
		"parentbased_traceidratio": sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)),
		"always_on":                sdktrace.AlwaysSample(),
		"always_off":               sdktrace.NeverSample(),
		"traceidratio":             sdktrace.TraceIDRatioBased(ratio),
	}
	name := os.Getenv(samplerVariable)
	if samplers[name] == nil {
		return nil, fmt.Errorf("%s must be one of OpenTelemetry's samplers, such as parentbased_traceidratio, not %q", samplerVariable, name)
	}
	return samplers[name], nil
}

// recording records what its sampler drops, but does not mark it as sampled.
type recording struct{ sdktrace.Sampler }

func (r recording) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := r.Sampler.ShouldSample(p)
	if result.Decision == sdktrace.Drop {
		result.Decision = sdktrace.RecordOnly
	}
	return result
}

// keeper holds unsampled spans until no span of their trace is open in this process. It then exports them if one of
// them is worth it, and else drops them. Sampled spans pass. Other processes decide on their part of the trace by the
// same rule.
type keeper struct {
	slow     time.Duration
	exporter sdktrace.SpanProcessor
	mu       sync.Mutex
	traces   map[trace.TraceID]*held
}

type held struct {
	open  map[trace.SpanID]bool // those that began while it was held
	spans []sdktrace.ReadOnlySpan
	keep  bool
}

var _ sdktrace.SpanProcessor = (*keeper)(nil)

func newKeeper(slow time.Duration, exporter sdktrace.SpanProcessor) *keeper {
	return &keeper{slow: slow, exporter: exporter, traces: map[trace.TraceID]*held{}}
}

func (k *keeper) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	if span.SpanContext().IsSampled() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.traces[span.SpanContext().TraceID()]
	if h == nil {
		if len(k.traces) == maxHeldTraces {
			return
		}
		h = &held{open: map[trace.SpanID]bool{}}
		k.traces[span.SpanContext().TraceID()] = h
	}
	h.open[span.SpanContext().SpanID()] = true
}

func (k *keeper) OnEnd(span sdktrace.ReadOnlySpan) {
	if span.SpanContext().IsSampled() {
		k.exporter.OnEnd(span)
		return
	}
	for _, kept := range k.end(span) {
		k.exporter.OnEnd(sampled{kept})
	}
}

// end notes the end of a span and returns what is to be exported.
func (k *keeper) end(span sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.traces[span.SpanContext().TraceID()]
	if h == nil {
		return nil
	}
	delete(h.open, span.SpanContext().SpanID())
	if len(h.spans) < maxSpansPerTrace {
		h.spans = append(h.spans, span)
	}
	h.keep = h.keep || k.worth(span)
	if len(h.open) > 0 {
		return nil
	}
	delete(k.traces, span.SpanContext().TraceID())
	if !h.keep {
		return nil
	}
	return h.spans
}

// worth reports whether a span makes its trace worth exporting. It must be one of ours, and failed, degraded, or a
// slow recall or leg.
func (k *keeper) worth(span sdktrace.ReadOnlySpan) bool {
	if span.InstrumentationScope().Name != ScopeName {
		return false
	}
	if span.Status().Code == codes.Error {
		return true
	}
	recall, degraded := false, false
	for _, kv := range span.Attributes() {
		switch kv.Key {
		case "triskele.budget_us":
			recall = true
		case "triskele.degraded":
			degraded = kv.Value.Type() == attribute.BOOL && kv.Value.AsBool()
		}
	}
	return degraded || recall && span.EndTime().Sub(span.StartTime()) >= k.slow
}

// Shutdown implements sdktrace.SpanProcessor. It drops held spans and leaves the exporter open.
func (*keeper) Shutdown(context.Context) error { return nil }

func (k *keeper) ForceFlush(ctx context.Context) error { return k.exporter.ForceFlush(ctx) }

// sampled marks a span as sampled, for exporters that take no others.
type sampled struct{ sdktrace.ReadOnlySpan }

func (s sampled) SpanContext() trace.SpanContext {
	sc := s.ReadOnlySpan.SpanContext()
	return sc.WithTraceFlags(sc.TraceFlags().WithSampled(true))
}

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

type redacted struct{ sdktrace.ReadOnlySpan }

func (redacted) Events() []sdktrace.Event { return nil }

func (w redacted) Status() sdktrace.Status {
	return sdktrace.Status{Code: w.ReadOnlySpan.Status().Code}
}
