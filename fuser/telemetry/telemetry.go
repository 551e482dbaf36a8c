// Package telemetry sets up OpenTelemetry for a process and hands out one tracer provider per service in it. Exporters,
// sampler and resource follow the standard OTEL_* variables; with none of them set nothing is exported and a trace is
// recorded only when its caller sampled it.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the instrumentation scope of all spans this project records itself.
const ScopeName = "github.com/triskele/triskele"

// standard carries W3C trace context and baggage between processes.
var standard = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// sampledOnly passes on only the context of sampled traces. It is for processes that export nothing: their "not sampled"
// is no decision, and must not keep the servers they call from recording.
type sampledOnly struct{ propagation.TextMapPropagator }

func (p sampledOnly) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	if trace.SpanContextFromContext(ctx).IsSampled() {
		p.TextMapPropagator.Inject(ctx, carrier)
	}
}

// Process holds what the services of one process share.
type Process struct {
	spans    sdktrace.SpanExporter
	readers  []sdkmetric.Reader
	recorder *Recorder
	shutdown []func(context.Context) error
}

// Service is the telemetry of one service: every span and metric it records carries its name.
type Service struct {
	Name           string
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
	Tracer         trace.Tracer
	Recorder       *Recorder
}

// Start reads the OTEL_* variables and prepares the exporters they ask for.
func Start(ctx context.Context) (*Process, error) {
	p := &Process{recorder: NewRecorder()}
	if wanted("TRACES") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("span exporter: %w", err)
		}
		p.spans = exporter
	}
	if wanted("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("metric reader: %w", err)
		}
		p.readers = append(p.readers, reader)
	}
	return p, nil
}

// wanted says whether the environment asks for a signal. Without a word from it we stay silent, instead of the
// specification's default of exporting to a collector that is probably not there.
func wanted(signal string) bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Service returns the telemetry of the named service. The first service of a process owns its metric reader: a reader
// cannot serve two providers.
func (p *Process) Service(name string) *Service {
	// Attributes of the environment come last and win: an operator may rename a service.
	res, err := resource.Merge(
		resource.NewWithAttributes(semconv.SchemaURL, semconv.ServiceName(name), semconv.ServiceVersion(Version())),
		resource.Environment())
	if err != nil {
		res = resource.NewSchemaless(semconv.ServiceName(name))
	}
	propagator := propagation.TextMapPropagator(standard)
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithSpanProcessor(p.recorder)}
	switch {
	case p.spans != nil:
		options = append(options, sdktrace.WithBatcher(unclosable{p.spans}))
	case os.Getenv("OTEL_TRACES_SAMPLER") == "":
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
		propagator = sampledOnly{standard}
	}
	tracers := sdktrace.NewTracerProvider(options...)

	meterOptions := []sdkmetric.Option{sdkmetric.WithResource(res)}
	for _, reader := range p.readers {
		meterOptions = append(meterOptions, sdkmetric.WithReader(reader))
	}
	p.readers = nil
	meters := sdkmetric.NewMeterProvider(meterOptions...)

	p.shutdown = append(p.shutdown, tracers.Shutdown, meters.Shutdown)
	return &Service{
		Name:           name,
		TracerProvider: tracers,
		MeterProvider:  meters,
		Propagator:     propagator,
		Tracer:         tracers.Tracer(ScopeName),
		Recorder:       p.recorder,
	}
}

// Shutdown flushes and closes everything. Give it a context with a deadline of its own.
func (p *Process) Shutdown(ctx context.Context) error {
	var errs []error
	for _, stop := range p.shutdown {
		errs = append(errs, stop(ctx))
	}
	if p.spans != nil {
		errs = append(errs, p.spans.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// unclosable keeps the first provider that shuts down from closing the exporter under the others.
type unclosable struct{ sdktrace.SpanExporter }

func (unclosable) Shutdown(context.Context) error { return nil }

// Version is the version of the main module, or its commit, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "devel"
}
