// Package gateway answers Recall: it splits the caller's time among the legs, asks them in parallel, fuses what they
// found and says what each of them did. Between calls it keeps only what it learned about the health and speed of its legs
// and, if it is told to, its last answers; it imports no database driver; a leg is an entry of its configuration.
package gateway

import (
	"errors"
	"log/slog"

	"github.com/triskele/triskele/fuser/platform/resilience"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Gateway serves RecallService. It is safe for concurrent use.
type Gateway struct {
	triskelev1.UnimplementedRecallServiceServer
	config   Config
	policies map[string]settings           // of namespaces that have one, and of ""
	legs     []triskelev1.LegServiceClient // as config.Legs
	guards   []*guard                      // as config.Legs
	reranker *guard
	keeper   *guard // of the memory service
	load     resilience.Load
	cache    *cache
	memory   triskelev1.MemoryServiceClient
	tel      *telemetry.Service
	log      *slog.Logger
	metrics
}

// New returns a gateway over clients of its legs, in the order of config.Legs, and of the memory service.
func New(config Config, legs []triskelev1.LegServiceClient, memory triskelev1.MemoryServiceClient, tel *telemetry.Service, log *slog.Logger) (*Gateway, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if len(legs) != len(config.Legs) {
		return nil, errors.New("gateway: each leg needs a client")
	}
	g := &Gateway{config: config, legs: legs, cache: newCache(config.Cache), memory: memory, tel: tel, log: log}
	var err error
	if g.metrics, err = newMetrics(tel.MeterProvider.Meter(telemetry.ScopeName), g.cache.bytes); err != nil {
		return nil, err
	}
	for _, leg := range config.Legs {
		g.guards = append(g.guards, g.newGuard(leg))
	}
	g.begin(config.Legs)
	g.reranker = g.newGuard(Leg{Name: rerankName, Limit: config.Rerank.Limit})
	g.keeper = g.newGuard(Leg{Name: memoryName, Limit: config.Memory.Limit})
	return g, g.resolvePolicies()
}
