// Package gateway answers Recall: it splits the caller's time among the legs, asks them in parallel, fuses what they
// found and says what each of them did. It keeps no state between calls and imports no database driver; a leg is an
// entry of its configuration.
package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	defaultLimit = 10
	defaultDepth = 50
	maxDepth     = 1000
)

// Leg is a leg as the gateway's configuration has it.
type Leg struct {
	Name   string
	Target string // in gRPC's name syntax
	Weight float64
	Depth  int
	Budget budget.Leg
}

// ParseLeg reads "name=target?weight=1&depth=50&cap=150ms&share=1"; what is left out of the options has its default:
// weight 1, depth 50, no cap, share 1.
func ParseLeg(text string) (Leg, error) {
	wrong := func(what string) (Leg, error) {
		return Leg{}, fmt.Errorf("leg %q: %s; want name=target?weight=1&depth=50&cap=150ms&share=1", text, what)
	}
	name, rest, ok := strings.Cut(text, "=")
	target, query, _ := strings.Cut(rest, "?")
	if !ok || name == "" || target == "" {
		return wrong("a name and a target are needed")
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return wrong("the options cannot be read")
	}
	leg := Leg{Name: name, Target: target, Weight: 1, Depth: defaultDepth, Budget: budget.Leg{Share: 1}}
	for option, values := range options {
		var err error
		switch value := values[len(values)-1]; option {
		case "weight":
			leg.Weight, err = strconv.ParseFloat(value, 64)
		case "depth":
			leg.Depth, err = strconv.Atoi(value)
		case "cap":
			leg.Budget.Cap, err = time.ParseDuration(value)
		case "share":
			leg.Budget.Share, err = strconv.ParseFloat(value, 64)
		default:
			return wrong("there is no option " + option)
		}
		if err != nil {
			return wrong(option + " cannot be read")
		}
	}
	if !(leg.Weight >= 0 && leg.Weight <= 100) {
		return wrong("weight must be from 0 to 100")
	}
	if leg.Depth < 1 || leg.Depth > maxDepth {
		return wrong("depth must be from 1 to 1000")
	}
	return leg, nil
}

// DefaultLegs are the three legs of the source design, at the given targets by name.
func DefaultLegs(targets map[string]string) []Leg {
	return []Leg{
		{Name: "lexical", Target: targets["lexical"], Weight: 1, Depth: defaultDepth, Budget: budget.Leg{Share: 1}},
		{Name: "dense", Target: targets["dense"], Weight: 1, Depth: defaultDepth, Budget: budget.Leg{Share: 1}},
		{Name: "graph", Target: targets["graph"], Weight: 0.35, Depth: defaultDepth, Budget: budget.Leg{Share: 1}},
	}
}

// Config is what a gateway needs to know.
type Config struct {
	Legs   []Leg
	Budget budget.Config
	K      float64 // RRF's rank constant
}

// DefaultConfig has the source design's fusion and no legs.
func DefaultConfig() Config {
	return Config{Budget: budget.DefaultConfig(), K: fusion.DefaultK}
}

// Gateway serves RecallService. It is safe for concurrent use.
type Gateway struct {
	triskelev1.UnimplementedRecallServiceServer
	config  Config
	legs    []triskelev1.LegServiceClient // as config.Legs
	memory  triskelev1.MemoryServiceClient
	tel     *telemetry.Service
	log     *slog.Logger
	legTime metric.Float64Histogram
	recalls metric.Int64Counter
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
	if err := config.Budget.Check(budgets); err != nil {
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
	return &Gateway{config: config, legs: legs, memory: memory, tel: tel, log: log, legTime: legTime, recalls: recalls}, nil
}

// legNames lists the configured legs for an error message.
func (g *Gateway) legNames() string {
	names := make([]string, len(g.config.Legs))
	for i, leg := range g.config.Legs {
		names[i] = leg.Name
	}
	return strings.Join(names, ", ")
}

func (g *Gateway) hasLeg(name string) bool {
	return slices.ContainsFunc(g.config.Legs, func(leg Leg) bool { return leg.Name == name })
}
