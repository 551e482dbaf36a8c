package telemetry

import (
	"context"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// Scraped makes Process.Metrics serve the metrics of all services.
func Scraped(p *Process) {
	p.registry = prometheus.NewRegistry()
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// Metrics serves the metrics of all services in Prometheus's formats, with the label service_name. It answers 404
// without the option Scraped. Exemplars, which link a histogram's bucket to a trace, are in OpenMetrics only.
func (p *Process) Metrics() http.Handler {
	if p.registry == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError})
}

// pushed reports whether metrics are exported. Metrics serves Prometheus, which pulls.
func pushed() bool { return wanted("METRICS") && os.Getenv("OTEL_METRICS_EXPORTER") != "prometheus" }

// readers returns the metric readers of one more service: services cannot share one. An error costs metrics only.
func (p *Process) readers() (out []sdkmetric.Reader) {
	reader, err := p.pushing, error(nil)
	if p.pushing = nil; reader == nil && pushed() {
		if reader, err = autoexport.NewMetricReader(context.Background()); err != nil {
			otel.Handle(err)
		}
	}
	if reader != nil {
		out = append(out, reader)
	}
	if p.registry != nil {
		reader, err := otelprom.New(otelprom.WithRegisterer(p.registry), otelprom.WithoutScopeInfo(),
			otelprom.WithResourceAsConstantLabels(attribute.NewAllowKeysFilter(semconv.ServiceNameKey)))
		if err != nil {
			otel.Handle(err)
			return out
		}
		out = append(out, reader)
	}
	return out
}

// Must returns an instrument of a meter. An error would be a mistake in this program, such as an invalid name.
func Must[T any](instrument T, err error) T {
	if err != nil {
		panic(err)
	}
	return instrument
}
