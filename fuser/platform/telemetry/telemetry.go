// Package telemetry sets up OpenTelemetry for a process and hands out one tracer provider per service in it. Exporters,
// sampler and resource follow the standard OTEL_* variables; with none of them set nothing is exported and a trace is
// recorded only when its caller sampled it.
package telemetry

import (
	"context"
	"errors"
	"fmt"
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
	recorder *Recorder
	silent   bool // nothing is exported, and what is recorded is for the callers to say
	sampler  sdktrace.Sampler
	exporter sdktrace.SpanProcessor // nil if no spans are exported
	keep     Keep
	keeper   *keeper              // nil if the sampler alone decides
	registry *prometheus.Registry // nil if no metrics are served
	pushing  sdkmetric.Reader     // of the first service, made early so that a wrong setting is an error of Start
	mu       sync.Mutex
	services map[string]*Service
	shutdown []func(context.Context) error
}

// Service is the telemetry of one service: every span and metric it records carries its name.
type Service struct {
	Name           string
	TracerProvider trace.TracerProvider
	// Statements is for what has many spans: it leaves the decision to the sampler, and holds nothing of what that leaves out.
	Statements    trace.TracerProvider
	MeterProvider metric.MeterProvider
	Propagator    propagation.TextMapPropagator
	Tracer        trace.Tracer
	Recorder      *Recorder
}

// Option changes what Start sets up.
type Option func(*Process)

// Start reads the OTEL_* variables and prepares the exporters they ask for.
func Start(ctx context.Context, options ...Option) (*Process, error) {
	p := &Process{recorder: NewRecorder(), services: map[string]*Service{}}
	for _, option := range options {
		option(p)
	}
	var err error
	if p.sampler, err = samplerFromEnvironment(); err != nil {
		return nil, err
	}
	switch {
	case wanted("TRACES"):
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("span exporter: %w", err)
		}
		p.exporter = reticent{sdktrace.NewBatchSpanProcessor(exporter)}
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

// Service returns the telemetry of the named service, the same one each time.
func (p *Process) Service(name string) *Service {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.services[name]; s != nil {
		return s
	}
	// Attributes of the environment come last and win: an operator may rename a service.
	res, err := resource.Merge(
		resource.NewWithAttributes(semconv.SchemaURL, semconv.ServiceName(name), semconv.ServiceVersion(Version())),
		resource.Environment())
	if err != nil {
		res = resource.NewSchemaless(semconv.ServiceName(name))
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
	var tracers, statements *sdktrace.TracerProvider
	switch {
	case p.keeper != nil:
		tracers = provider(recording{p.sampler}, sdktrace.WithSpanProcessor(p.keeper))
		statements = provider(p.sampler, sdktrace.WithSpanProcessor(unclosable{p.exporter}))
	case p.exporter != nil:
		tracers = provider(p.sampler, sdktrace.WithSpanProcessor(unclosable{p.exporter}))
		statements = tracers
	default:
		tracers = provider(p.sampler)
		statements = tracers
	}

	meterOptions := []sdkmetric.Option{sdkmetric.WithResource(res)}
	for _, reader := range p.readers() {
		meterOptions = append(meterOptions, sdkmetric.WithReader(reader))
	}
	meters := sdkmetric.NewMeterProvider(meterOptions...)
	if len(p.services) == 0 {
		countPanics(meters)
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

// unclosable keeps the first provider that shuts down from closing what others export by.
type unclosable struct{ sdktrace.SpanProcessor }

func (unclosable) Shutdown(context.Context) error { return nil }
