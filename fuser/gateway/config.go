package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/options"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	defaultLimit = 10 // hits
	defaultDepth = 50
	maxDepth     = 1000
	defaultCalls = 64 // at a time
	maxShed      = 9
	maxK         = 1000 // as in the contract
)

// Leg is the configuration of a leg.
type Leg struct {
	Name   string
	Target string // in gRPC's name syntax
	Weight float64
	Trust  float64 // multiplies its weight by 1 + Trust × the share of the query that it understood; see fusion.List
	Depth  int
	Quota  int  // least number of its hits among the results, if it has so many; 0 for none
	Limit  int  // concurrent searches, others wait; 0 for no limit
	Shed   int  // order in load shedding: 1 is left out first, 0 never
	Hedge  bool // send a second request, to another replica if there is one, when an answer takes longer than the 95th percentile
	Budget budget.Leg
}

// LegForm is the syntax of a leg with the defaults of its options. The cap has no default.
const LegForm = "name=target?weight=1&trust=0&depth=50&quota=0&cap=150ms&share=1&min=2ms&limit=64&shed=0&hedge=false"

// ParseLeg reads a leg as LegForm shows it. Trust defaults to that of the default leg of the same name.
func ParseLeg(text string) (Leg, error) {
	wrong := func(what string) (Leg, error) {
		return Leg{}, fmt.Errorf("leg %q: %s; want %s", text, what, LegForm)
	}
	name, rest, ok := strings.Cut(text, "=")
	target, query, _ := strings.Cut(rest, "?")
	if !ok || name == "" || target == "" {
		return wrong("a name and a target are needed")
	}
	leg := Leg{Name: name, Target: target, Weight: 1, Depth: defaultDepth, Limit: defaultCalls, Budget: budget.Leg{Share: 1}}
	for _, known := range DefaultLegs(nil) {
		if known.Name == name {
			leg.Trust = known.Trust
		}
	}
	err := options.Set(query, map[string]options.Option{
		"weight": options.Parsed(&leg.Weight, parseFloat),
		"trust":  options.Parsed(&leg.Trust, parseFloat),
		"depth":  options.Parsed(&leg.Depth, strconv.Atoi),
		"quota":  options.Parsed(&leg.Quota, strconv.Atoi),
		"limit":  options.Parsed(&leg.Limit, strconv.Atoi),
		"shed":   options.Parsed(&leg.Shed, strconv.Atoi),
		"hedge":  options.Parsed(&leg.Hedge, strconv.ParseBool),
		"cap":    options.Parsed(&leg.Budget.Cap, time.ParseDuration),
		"min":    options.Parsed(&leg.Budget.Min, time.ParseDuration),
		"share":  options.Parsed(&leg.Budget.Share, parseFloat),
	})
	if err != nil {
		return wrong(err.Error())
	}
	switch {
	case !(leg.Weight >= 0 && leg.Weight <= 100):
		return wrong("weight must be from 0 to 100")
	case !(leg.Trust >= 0 && leg.Trust <= 100):
		return wrong("trust must be from 0 to 100")
	case leg.Depth < 1 || leg.Depth > maxDepth:
		return wrong("depth must be from 1 to 1000")
	case leg.Limit < 0 || leg.Shed < 0 || leg.Shed > maxShed:
		return wrong("limit must be at least 0, and shed from 0 to 9")
	case leg.Quota < 0 || leg.Quota > maxDepth:
		return wrong("quota must be from 0 to 1000")
	}
	return leg, nil
}

func parseFloat(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// DefaultLegs are the three legs, at the given targets by name. Their weights are equal. The graph counts more if it understood
// the query, as docs/evidence found best. Under load the graph is shed first, then dense, and lexical never.
func DefaultLegs(targets map[string]string) []Leg {
	leg := func(name string, trust float64, shed int) Leg {
		return Leg{
			Name: name, Target: targets[name], Weight: 1, Trust: trust, Depth: defaultDepth, Limit: defaultCalls, Shed: shed, Budget: budget.Leg{Share: 1},
		}
	}
	return []Leg{leg("lexical", 0, 0), leg("dense", 0, 3), leg("graph", 3, 1)}
}

// MemoryConfig bounds the recalls' calls of the memory service, most of which fetch contents.
type MemoryConfig struct {
	Target string        // in gRPC's name syntax
	Cap    time.Duration // of a call; 0 for the rest of the budget
	Limit  int           // concurrent calls, others wait; 0 for no limit
}

// MemoryForm is the syntax of the memory service with the defaults of its options. The cap has no default.
const MemoryForm = "target?cap=150ms&limit=64"

// ParseMemory reads the memory service as MemoryForm shows it.
func ParseMemory(text string) (MemoryConfig, error) {
	memory := MemoryConfig{Limit: defaultCalls}
	var query string
	memory.Target, query, _ = strings.Cut(text, "?")
	err := options.Set(query, map[string]options.Option{
		"cap":   options.Parsed(&memory.Cap, time.ParseDuration),
		"limit": options.Parsed(&memory.Limit, strconv.Atoi),
	})
	if err != nil || memory.Target == "" {
		return MemoryConfig{}, fmt.Errorf("memory service %q: want %s", text, MemoryForm)
	}
	return memory, nil
}

// Config is the configuration of a gateway.
type Config struct {
	Legs   []Leg
	Budget budget.Config
	Fusion FusionConfig
	Memory MemoryConfig
	Rerank RerankConfig
	Trace  TraceConfig
	// Policies override the configuration for a namespace and those below it. "" is above all namespaces.
	Policies map[string]*triskelev1.RecallPolicy
	// Recent, if not nil, records recent recalls.
	Recent *recent.Ring
}

// FusionConfig says how the legs' lists are merged. A policy or a request may override it. A command line has it as flags.
type FusionConfig struct {
	Method FusionName `name:"fusion" help:"How the legs' lists are fused: calibrated, rrf, convex or dbsf." enum:"calibrated,rrf,convex,dbsf" default:"calibrated" env:"TRISKELE_FUSION"`
	K      float64    `help:"Rank constant of rrf, 0 to 1000, also where a policy or a recall chooses rrf." default:"2" env:"TRISKELE_K"`
	Alpha  *float64   `help:"With convex, also where a policy or a recall chooses it: weight of the dense leg, 0 to 1. The lexical leg gets the rest. Without it, both have their own weights." env:"TRISKELE_ALPHA"`
}

// String is the method with its settings.
func (c FusionConfig) String() string {
	switch {
	case c.Method == "rrf":
		return fmt.Sprintf("rrf, k %g", c.K)
	case c.Method == "convex" && c.Alpha != nil:
		return fmt.Sprintf("convex, alpha %g", *c.Alpha)
	}
	return string(c.Method)
}

// FusionName is a method's name: rrf, or FUSION_METHOD_RRF as in the contract.
type FusionName string

func (n *FusionName) UnmarshalText(text []byte) error {
	*n = FusionName(strings.ToLower(strings.TrimPrefix(string(text), "FUSION_METHOD_")))
	return nil
}

// Method returns the method in the contract, or unspecified for another name.
func (n FusionName) Method() triskelev1.FusionMethod {
	return triskelev1.FusionMethod(triskelev1.FusionMethod_value["FUSION_METHOD_"+strings.ToUpper(string(n))])
}

// DefaultConfig has no legs. Its fusion is the one that docs/evidence found best.
func DefaultConfig() Config {
	return Config{
		Budget: budget.DefaultConfig(), Memory: MemoryConfig{Limit: defaultCalls},
		Fusion: FusionConfig{Method: "calibrated", K: fusion.DefaultK},
	}
}

func (c Config) check() error {
	budgets := map[string]budget.Leg{}
	for _, leg := range c.Legs {
		if _, twice := budgets[leg.Name]; twice {
			return fmt.Errorf("gateway: leg %s is configured twice", leg.Name)
		}
		budgets[leg.Name] = leg.Budget
	}
	switch {
	case len(c.Legs) == 0:
		return errors.New("gateway: at least one leg is needed")
	case c.Fusion.Method.Method() == 0:
		return fmt.Errorf("gateway: fusion %q must be calibrated, rrf, convex or dbsf", c.Fusion.Method)
	case !(c.Fusion.K >= 0 && c.Fusion.K <= maxK):
		return fmt.Errorf("gateway: k %g must be from 0 to %d", c.Fusion.K, maxK)
	case c.Fusion.Alpha != nil && !(*c.Fusion.Alpha >= 0 && *c.Fusion.Alpha <= 1):
		return fmt.Errorf("gateway: alpha %g must be from 0 to 1", *c.Fusion.Alpha)
	}
	if c.Memory.Limit < 0 || c.Memory.Cap < 0 || c.Memory.Cap > c.Budget.Max {
		return fmt.Errorf("gateway: the memory service's limit %d must be at least 0, and its cap %v from 0 to the greatest budget, %v", c.Memory.Limit, c.Memory.Cap, c.Budget.Max)
	}
	if c.Rerank.Reranker == nil {
		return c.Budget.Check(budgets, nil)
	}
	if c.Rerank.Top < 2 || c.Rerank.Top > maxRerank {
		return fmt.Errorf("gateway: the number of reranked memories, %d, must be from 2 to %d", c.Rerank.Top, maxRerank)
	}
	if c.Rerank.Limit < 1 {
		return fmt.Errorf("gateway: the reranker's limit %d must be at least 1", c.Rerank.Limit)
	}
	if c.Rerank.Answers { // it reads what it has time for
		return c.Budget.Check(budgets, nil)
	}
	return c.Budget.Check(budgets, &c.Rerank.Budget)
}

// ParsePolicies reads a JSON object of RecallPolicy messages by namespace.
func ParsePolicies(text []byte) (map[string]*triskelev1.RecallPolicy, error) {
	if err := protojson.Unmarshal(text, &structpb.Struct{}); err != nil { // a key that is given twice, too
		return nil, fmt.Errorf("--policies: %w", err)
	}
	policies := map[string]*triskelev1.RecallPolicy{}
	blank := func(r rune) rune { // leaves the ends of lines
		if r == '\n' {
			return r
		}
		return ' '
	}
	decoder := json.NewDecoder(bytes.NewReader(text)) // in the file's order, with offsets
	_, _ = decoder.Token()
	for decoder.More() {
		key, _ := decoder.Token()
		namespace, _ := key.(string)
		var message json.RawMessage
		if err := decoder.Decode(&message); err != nil {
			return nil, fmt.Errorf("--policies: %w", err)
		}
		policies[namespace] = &triskelev1.RecallPolicy{}
		before := bytes.Map(blank, text[:int(decoder.InputOffset())-len(message)]) // so that an error has the file's line
		if err := rpc.FromJSON(protojson.UnmarshalOptions{}, append(before, message...), policies[namespace]); err != nil {
			return nil, fmt.Errorf("--policies: policy of namespace %q: %w", namespace, err)
		}
	}
	return policies, nil
}
