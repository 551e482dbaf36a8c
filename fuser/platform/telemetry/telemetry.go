// Package telemetry sets up OpenTelemetry for a process, with providers for each of its services.
//
//  1. Start makes the exporters and the sampler that the standard OTEL_* variables ask for. Without any, nothing is
//     exported, and a trace is recorded only if its caller sampled it.
//  2. Process.Service makes a service's tracer and meter providers, which carry its name.
//  3. Sampled spans go to the exporter. The keeper holds other spans until their trace ends here. It then exports
//     failed, degraded and slow traces.
//  4. redacting drops the error texts of other libraries from exported spans.
//  5. The Recorder keeps the spans of watched traces, so that an answer can carry them.
//  6. Metrics are pushed by an exporter, served to Prometheus by Process.Metrics, or both.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/settings"
)

// ScopeName is the instrumentation scope of all spans this project records itself.
const ScopeName = "github.com/triskele/triskele"

// standard carries W3C trace context and baggage between processes.
var standard = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// sampledOnly propagates sampled traces only. It is for processes that export nothing: their "not sampled" must not
// keep called servers from recording.
type sampledOnly struct{ propagation.TextMapPropagator }

func (p sampledOnly) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	if trace.SpanContextFromContext(ctx).IsSampled() {
		p.TextMapPropagator.Inject(ctx, carrier)
	}
}

// Process holds what the services of one process share.
type Process struct {
	recorder *Recorder
	silent   bool // nothing is exported, and callers decide what is recorded
	sampler  sdktrace.Sampler
	exporter sdktrace.SpanProcessor // nil if no spans are exported
	keep     Keep
	keeper   *keeper              // nil if the sampler alone decides
	registry *prometheus.Registry // nil if no metrics are served
	pushing  sdkmetric.Reader     // for the first service; made early so that Start returns its error
	mu       sync.Mutex
	services map[string]*Service
	shutdown []func(context.Context) error
}

// Service is the telemetry of one service. Its spans and metrics carry its name.
type Service struct {
	Name           string
	TracerProvider trace.TracerProvider
	// Statements is for operations with many spans. The sampler alone decides on them, and the keeper holds none.
	Statements    trace.TracerProvider
	MeterProvider metric.MeterProvider
	Propagator    propagation.TextMapPropagator
	Tracer        trace.Tracer
	Recorder      *Recorder
}

// Option changes what Start sets up.
type Option func(*Process)

// Start reads the OTEL_* variables and prepares the exporters they ask for. Its errors are about the variables.
func Start(ctx context.Context, options ...Option) (_ *Process, err error) {
	defer func() { err = settings.Wrong(err) }()
	p := &Process{recorder: &Recorder{traces: map[trace.TraceID]*watched{}}, services: map[string]*Service{}}
	for _, option := range options {
		option(p)
	}
	if p.sampler, err = samplerFromEnvironment(); err != nil {
		return nil, err
	}
	switch {
	case wanted("TRACES"):
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("span exporter: %w", err)
		}
		p.exporter = redacting{sdktrace.NewBatchSpanProcessor(exporter)}
		if p.keep.wanted() {
			p.keeper = newKeeper(p.keep.Slow, p.exporter)
		}
	case os.Getenv(samplerVariable) == "":
		p.silent, p.sampler = true, sdktrace.ParentBased(sdktrace.NeverSample())
	}
	if pushed() {
		if p.pushing, err = autoexport.NewMetricReader(ctx); err != nil {
			return nil, fmt.Errorf("metric reader: %w", err)
		}
	}
	return p, nil
}

// wanted reports whether the environment asks for a signal. The default is none. The specification's default exports
// to a collector that is probably not there.
func wanted(signal string) bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Service returns the telemetry of the named service, made once.
func (p *Process) Service(name string) *Service {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.services[name]; s != nil {
		return s
	}
	// Attributes of the environment come last and win: an operator may rename a service. Further services of the process keep their own
	// names behind that one, since metrics with equal labels exclude each other.
	res, err := resource.Merge(
		resource.NewWithAttributes(semconv.SchemaURL, semconv.ServiceName(name), semconv.ServiceVersion(Version())),
		resource.Environment())
	if err != nil {
		res = resource.NewSchemaless(semconv.ServiceName(name))
	}
	if renamed, _ := res.Set().Value(semconv.ServiceNameKey); renamed.AsString() != name && len(p.services) > 0 {
		res, _ = resource.Merge(res, resource.NewSchemaless(semconv.ServiceName(renamed.AsString()+"/"+name))) // never fails
	}
	propagator := propagation.TextMapPropagator(standard)
	if p.silent {
		propagator = sampledOnly{standard}
	}
	provider := func(sampler sdktrace.Sampler, more ...sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
		made := sdktrace.NewTracerProvider(append(more, sdktrace.WithResource(res), sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(p.recorder))...)
		p.shutdown = append(p.shutdown, made.Shutdown)
		return made
	}
	var exporting []sdktrace.TracerProviderOption
	if p.exporter != nil {
		exporting = append(exporting, sdktrace.WithSpanProcessor(unclosable{p.exporter}))
	}
	statements := provider(p.sampler, exporting...)
	tracers := statements
	if p.keeper != nil {
		tracers = provider(recording{p.sampler}, sdktrace.WithSpanProcessor(p.keeper))
	}
	meterOptions := []sdkmetric.Option{sdkmetric.WithResource(res)}
	for _, reader := range p.readers() {
		meterOptions = append(meterOptions, sdkmetric.WithReader(reader))
	}
	meters := sdkmetric.NewMeterProvider(meterOptions...)
	if len(p.services) == 0 { // one service reports the panics of the whole process
		Must(meters.Meter(ScopeName).Int64ObservableCounter("triskele.panics",
			metric.WithDescription("Panics caught, in calls and in background work; the log has their stacks."),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				o.Observe(panics.Count())
				return nil
			})))
	}
	p.shutdown = append(p.shutdown, meters.Shutdown)
	s := &Service{
		Name:           name,
		TracerProvider: tracers,
		Statements:     statements,
		MeterProvider:  meters,
		Propagator:     propagator,
		Tracer:         tracers.Tracer(ScopeName),
		Recorder:       p.recorder,
	}
	p.services[name] = s
	return s
}

// Shutdown flushes and closes everything. Give it a context with a deadline of its own.
func (p *Process) Shutdown(ctx context.Context) error {
	var errs []error
	for _, stop := range p.shutdown {
		errs = append(errs, stop(ctx))
	}
	if p.exporter != nil {
		errs = append(errs, p.exporter.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// unclosable ignores Shutdown, since providers share the exporter.
type unclosable struct{ sdktrace.SpanProcessor }

func (unclosable) Shutdown(context.Context) error { return nil }

// Traced adds the context's trace and span ids to each line of a log.
func Traced(log slog.Handler) slog.Handler { return traced{log} }

type traced struct{ slog.Handler }

func (t traced) Handle(ctx context.Context, line slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return t.Handler.Handle(ctx, line)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }

func (t traced) WithGroup(name string) slog.Handler { return traced{t.Handler.WithGroup(name)} }
