// Package gateway answers Recall: it splits the caller's time among the legs, asks them in parallel, fuses what they
// found and says what each of them did. It keeps no state between calls and imports no database driver; a leg is an
// entry of its configuration.
package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/metric"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Gateway serves RecallService. It is safe for concurrent use.
type Gateway struct {
	triskelev1.UnimplementedRecallServiceServer
	config   Config
	policies map[string]settings           // of namespaces that have one, and of ""
	legs     []triskelev1.LegServiceClient // as config.Legs
	memory   triskelev1.MemoryServiceClient
	tel      *telemetry.Service
	log      *slog.Logger
	legTime  metric.Float64Histogram
	recalls  metric.Int64Counter
}

// New returns a gateway over clients of its legs, in the order of config.Legs, and of the memory service.
func New(config Config, legs []triskelev1.LegServiceClient, memory triskelev1.MemoryServiceClient, tel *telemetry.Service, log *slog.Logger) (*Gateway, error) {
	if len(config.Legs) == 0 || len(legs) != len(config.Legs) {
		return nil, errors.New("gateway: at least one leg is needed, and a client for each")
	}
	if !(config.K >= 0) {
		return nil, fmt.Errorf("gateway: k %g must not be negative", config.K)
	}
	budgets := map[string]budget.Leg{}
	for _, leg := range config.Legs {
		if _, twice := budgets[leg.Name]; twice {
			return nil, fmt.Errorf("gateway: leg %s is configured twice", leg.Name)
		}
		budgets[leg.Name] = leg.Budget
	}
	if !slices.ContainsFunc(config.Legs, func(leg Leg) bool { return !leg.Budget.Second }) {
		return nil, errors.New("gateway: the first wave needs a leg")
	}
	if err := config.Budget.Check(budgets, false); err != nil {
		return nil, err
	}
	meter := tel.MeterProvider.Meter(telemetry.ScopeName)
	legTime, err := meter.Float64Histogram("triskele.leg.duration", metric.WithUnit("s"),
		metric.WithDescription("Time a leg took as the gateway saw it, by leg and state."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5))
	if err != nil {
		return nil, err
	}
	recalls, err := meter.Int64Counter("triskele.recalls", metric.WithDescription("Recalls by outcome: ok, degraded, failed."))
	if err != nil {
		return nil, err
	}
	g := &Gateway{config: config, legs: legs, memory: memory, tel: tel, log: log, legTime: legTime, recalls: recalls}
	return g, g.resolvePolicies()
}
