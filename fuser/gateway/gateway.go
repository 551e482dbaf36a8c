// Package gateway answers Recall. It imports no database driver and knows no leg by name: each is an entry of its
// configuration. Between calls it keeps the health and latency of its dependencies.
//
// The general process for a recall is:
//
//  1. newRecall resolves the settings: the configuration, the policies of the namespace, the request. It divides the time
//     among the stages (package budget).
//  2. fanOut searches every leg in every namespace, in parallel. Each search passes its leg's concurrency limit and circuit
//     breaker (call).
//  3. checkAnswered fails the recall if no leg answered, or a required one did not. Any other failure makes it degraded.
//  4. With the convex combination, complete asks the legs for the scores of each other's hits. Package fusion merges.
//  5. winners fetches the contents of the best memories and leaves out duplicates; rerank may change their order.
//  6. The answer reports what every leg did.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/triskele/triskele/fuser/platform/resilience"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/platform/workers"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Gateway serves RecallService. It is safe for concurrent use.
type Gateway struct {
	triskelev1.UnimplementedRecallServiceServer
	config   Config
	policies map[string]settings // of namespaces with a policy, and of ""
	legs     []legClient         // as config.Legs
	names    []string            // of the legs
	memory   memoryClient
	reranker *dependency
	load     resilience.Load
	workers  *workers.Pool
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
	g := &Gateway{config: config, workers: workers.NewPool(), tel: tel, log: log, metrics: newMetrics(tel.MeterProvider.Meter(telemetry.ScopeName))}
	for i, leg := range config.Legs {
		g.legs = append(g.legs, legClient{g.newDependency(leg.Name, leg.Limit), legs[i]})
		g.names = append(g.names, leg.Name)
	}
	g.begin(config.Legs)
	g.reranker = g.newDependency(rerankName, config.Rerank.Limit)
	g.memory = memoryClient{g.newDependency(memoryName, config.Memory.Limit), memory}
	return g, g.resolvePolicies()
}

// Close ends the goroutines that wait for calls.
func (g *Gateway) Close() { g.workers.Close() }

// GetIndexStatus implements triskelev1.RecallServiceServer.
func (g *Gateway) GetIndexStatus(ctx context.Context, req *triskelev1.RecallServiceGetIndexStatusRequest) (*triskelev1.RecallServiceGetIndexStatusResponse, error) {
	resp := &triskelev1.RecallServiceGetIndexStatusResponse{Legs: make([]*triskelev1.LegIndexStatus, len(g.config.Legs))}
	ctx, cancel := context.WithTimeout(ctx, g.config.Budget.Max)
	defer cancel()
	var wg sync.WaitGroup
	for i, leg := range g.config.Legs {
		wg.Go(func() {
			out := &triskelev1.LegIndexStatus{Leg: leg.Name}
			st, err := caught(ctx, g.log, leg.Name, func() (*triskelev1.GetIndexStatusResponse, error) {
				return g.legs[i].GetIndexStatus(ctx, &triskelev1.GetIndexStatusRequest{Namespace: req.GetNamespace()})
			})
			if err != nil {
				_, out.Error = g.failure(ctx, leg.Name, err, g.config.Budget.Max)
			}
			out.Status = st
			resp.Legs[i] = out
		})
	}
	wg.Wait()
	return resp, nil
}
