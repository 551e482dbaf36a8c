// Package gateway answers Recall: it splits the caller's time among the legs, asks them in parallel, fuses what they
// found and says what each of them did. Between calls it keeps only what it learned
// about the health and speed of its legs; it imports no database driver; a leg is an entry of its configuration.
package gateway

import (
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/metric"

	"github.com/triskele/triskele/fuser/isolation"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Gateway serves RecallService. It is safe for concurrent use.
type Gateway struct {
	triskelev1.UnimplementedRecallServiceServer
	config     Config
	policies   map[string]settings           // of namespaces that have one, and of ""
	legs       []triskelev1.LegServiceClient // as config.Legs
	guards     []*guard                      // as config.Legs
	reranker   *guard
	load       isolation.Load
	memory     triskelev1.MemoryServiceClient
	tel        *telemetry.Service
	log        *slog.Logger
	legTime    metric.Float64Histogram
	rerankTime metric.Float64Histogram
	recalls    metric.Int64Counter
	open       metric.Int64UpDownCounter // breakers
}

// New returns a gateway over clients of its legs, in the order of config.Legs, and of the memory service.
func New(config Config, legs []triskelev1.LegServiceClient, memory triskelev1.MemoryServiceClient, tel *telemetry.Service, log *slog.Logger) (*Gateway, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if len(legs) != len(config.Legs) {
		return nil, errors.New("gateway: each leg needs a client")
	}
	meter := tel.MeterProvider.Meter(telemetry.ScopeName)
	legTime, err := meter.Float64Histogram("triskele.leg.duration", metric.WithUnit("s"),
		metric.WithDescription("Time a leg took as the gateway saw it, by leg and state."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5))
	if err != nil {
		return nil, err
	}
	rerankTime, err := meter.Float64Histogram("triskele.rerank.duration", metric.WithUnit("s"),
		metric.WithDescription("Time reranking took, by state."),
		metric.WithExplicitBucketBoundaries(.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5))
	if err != nil {
		return nil, err
	}
	recalls, err := meter.Int64Counter("triskele.recalls", metric.WithDescription("Recalls by outcome: ok, degraded, failed."))
	if err != nil {
		return nil, err
	}
	open, err := meter.Int64UpDownCounter("triskele.breaker.open", metric.WithDescription("Legs whose circuit breaker is open, by leg."))
	if err != nil {
		return nil, err
	}
	g := &Gateway{config: config, legs: legs, memory: memory, tel: tel, log: log, legTime: legTime, rerankTime: rerankTime, recalls: recalls, open: open}
	for _, leg := range config.Legs {
		g.guards = append(g.guards, newGuard(leg, config.Breaker, func(open bool) { g.opened(leg.Name, open) }))
	}
	g.reranker = newGuard(Leg{Name: rerankName, Limit: config.Rerank.Limit}, config.Breaker, func(open bool) { g.opened(rerankName, open) })
	return g, g.resolvePolicies()
}
