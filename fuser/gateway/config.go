package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/resilience"
	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	defaultLimit = 10
	defaultDepth = 50
	maxDepth     = 1000
	defaultSlots = 64
	maxShed      = 9
)

// Leg is a leg as the gateway's configuration has it.
type Leg struct {
	Name   string
	Target string // in gRPC's name syntax
	Weight float64
	Trust  float64 // how much more it weighs for a query that it has understood: times 1 + Trust × its coverage; see fusion.List
	Depth  int
	Quota  int  // at least this many hits are from the leg, as far as it has so many; 0 for none
	Limit  int  // searches at a time, others wait; 0 for no limit
	Shed   int  // when to leave it out under load: 1 for first, 0 for never
	Hedge  bool // ask again, another replica if there is one, when an answer takes longer than 95 of 100
	Budget budget.Leg
}

// LegForm is how a leg is written, with the defaults of its options but for the cap.
const LegForm = "name=target?weight=1&trust=0&depth=50&quota=0&cap=150ms&share=1&min=2ms&wave=1&limit=64&shed=0&hedge=false"

// ParseLeg reads a leg as LegForm shows it; what is left out of the options has its default: weight 1, trust 0 or that of
// the default leg of that name, depth 50, no quota, no cap, share 1, at least 2 ms, in the first wave, 64 searches at a time,
// never shed, not hedged.
func ParseLeg(text string) (Leg, error) {
	wrong := func(what string) (Leg, error) {
		return Leg{}, fmt.Errorf("leg %q: %s; want %s", text, what, LegForm)
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
	leg := Leg{Name: name, Target: target, Weight: 1, Depth: defaultDepth, Limit: defaultSlots, Budget: budget.Leg{Share: 1}}
	for _, known := range DefaultLegs(nil) {
		if known.Name == name {
			leg.Trust = known.Trust
		}
	}
	for option, values := range options {
		var err error
		switch value := values[len(values)-1]; option {
		case "weight":
			leg.Weight, err = strconv.ParseFloat(value, 64)
		case "trust":
			leg.Trust, err = strconv.ParseFloat(value, 64)
		case "depth":
			leg.Depth, err = strconv.Atoi(value)
		case "quota":
			leg.Quota, err = strconv.Atoi(value)
		case "limit":
			leg.Limit, err = strconv.Atoi(value)
		case "shed":
			leg.Shed, err = strconv.Atoi(value)
		case "hedge":
			leg.Hedge, err = strconv.ParseBool(value)
		case "cap":
			leg.Budget.Cap, err = time.ParseDuration(value)
		case "min":
			leg.Budget.Min, err = time.ParseDuration(value)
		case "wave":
			if leg.Budget.Second = value == "2"; value != "1" && value != "2" {
				return wrong("wave must be 1 or 2")
			}
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
	if !(leg.Trust >= 0 && leg.Trust <= 100) {
		return wrong("trust must be from 0 to 100")
	}
	if leg.Depth < 1 || leg.Depth > maxDepth {
		return wrong("depth must be from 1 to 1000")
	}
	if leg.Limit < 0 || leg.Shed < 0 || leg.Shed > maxShed {
		return wrong("limit must be at least 0, and shed from 0 to 9")
	}
	if leg.Quota < 0 || leg.Quota > maxDepth {
		return wrong("quota must be from 0 to 1000")
	}
	return leg, nil
}

// DefaultLegs are the three legs, at the given targets by name. They count the same, but for the graph where it has understood
// the query, as docs/evidence found best; under load graph goes first, then dense, and lexical never.
func DefaultLegs(targets map[string]string) []Leg {
	leg := func(name string, trust float64, shed int) Leg {
		return Leg{
			Name: name, Target: targets[name], Weight: 1, Trust: trust, Depth: defaultDepth, Limit: defaultSlots, Shed: shed, Budget: budget.Leg{Share: 1},
		}
	}
	return []Leg{leg("lexical", 0, 0), leg("dense", 0, 3), leg("graph", 3, 1)}
}

// MemoryConfig bounds the calls that recalls make to the memory service, for contents above all.
type MemoryConfig struct {
	Target string        // in gRPC's name syntax
	Cap    time.Duration // at most this long; 0 for what is left of the budget
	Limit  int           // calls at a time, others wait; 0 for no limit
}

// MemoryForm is how the memory service is written, with the defaults of its options but for the cap.
const MemoryForm = "target?cap=150ms&limit=64"

// ParseMemory reads the memory service as MemoryForm shows it. Without options there is no cap, and 64 calls at a time.
func ParseMemory(text string) (MemoryConfig, error) {
	memory := MemoryConfig{Limit: defaultSlots}
	var query string
	memory.Target, query, _ = strings.Cut(text, "?")
	options, err := url.ParseQuery(query)
	for option, values := range options {
		switch value := values[len(values)-1]; {
		case err != nil:
		case option == "cap":
			memory.Cap, err = time.ParseDuration(value)
		case option == "limit":
			memory.Limit, err = strconv.Atoi(value)
		default:
			err = errors.New("there is no option " + option)
		}
	}
	if err != nil || memory.Target == "" {
		return MemoryConfig{}, fmt.Errorf("memory service %q: want %s", text, MemoryForm)
	}
	return memory, nil
}

// Config is what a gateway needs to know.
type Config struct {
	Legs    []Leg
	Budget  budget.Config
	Fusion  FusionConfig
	Breaker resilience.BreakerConfig // of each leg, the memory service and the reranker
	Memory  MemoryConfig
	Rerank  RerankConfig
	Cache   CacheConfig
	Trace   TraceConfig
	// Policies override the configuration for a namespace and those below it; "" is above all.
	Policies map[string]*triskelev1.RecallPolicy
	// Recent, if not nil, remembers what recalls did.
	Recent *recent.Ring
}

// FusionConfig says how the legs' lists become one, unless a policy or a request does. A command line has it as flags.
type FusionConfig struct {
	Method string   `name:"fusion" help:"How the legs' lists are fused: rrf, convex or dbsf." enum:"rrf,convex,dbsf" default:"rrf" env:"TRISKELE_FUSION"`
	K      float64  `help:"Rank constant of rrf." default:"2" env:"TRISKELE_K"`
	Alpha  *float64 `help:"With convex: weight of the dense leg, 0 to 1; the lexical leg gets the rest. Not given, both have their own weights." env:"TRISKELE_ALPHA"`
}

// String is the method with the settings that matter to it.
func (c FusionConfig) String() string {
	switch {
	case c.Method == "rrf":
		return fmt.Sprintf("rrf, k %g", c.K)
	case c.Method == "convex" && c.Alpha != nil:
		return fmt.Sprintf("convex, alpha %g", *c.Alpha)
	}
	return c.Method
}

// methods are the values of FusionConfig.Method.
var methods = map[string]triskelev1.FusionMethod{
	"rrf":    triskelev1.FusionMethod_FUSION_METHOD_RRF,
	"convex": triskelev1.FusionMethod_FUSION_METHOD_CONVEX,
	"dbsf":   triskelev1.FusionMethod_FUSION_METHOD_DBSF,
}

// DefaultConfig has no legs. How it fuses is what docs/evidence found best.
func DefaultConfig() Config {
	return Config{
		Budget: budget.DefaultConfig(), Breaker: resilience.DefaultBreaker(), Memory: MemoryConfig{Limit: defaultSlots},
		Fusion: FusionConfig{Method: "rrf", K: fusion.DefaultK},
	}
}

// check refuses what could not work.
func (c Config) check() error {
	budgets := map[string]budget.Leg{}
	first := false
	for _, leg := range c.Legs {
		if _, twice := budgets[leg.Name]; twice {
			return fmt.Errorf("gateway: leg %s is configured twice", leg.Name)
		}
		budgets[leg.Name] = leg.Budget
		first = first || !leg.Budget.Second
	}
	switch {
	case !first:
		return errors.New("gateway: the first wave needs a leg")
	case methods[c.Fusion.Method] == 0:
		return fmt.Errorf("gateway: there is no fusion %q: it must be rrf, convex or dbsf", c.Fusion.Method)
	case !(c.Fusion.K >= 0):
		return fmt.Errorf("gateway: k %g must not be negative", c.Fusion.K)
	case c.Fusion.Alpha != nil && !(*c.Fusion.Alpha >= 0 && *c.Fusion.Alpha <= 1):
		return fmt.Errorf("gateway: alpha %g must be from 0 to 1", *c.Fusion.Alpha)
	case c.Breaker.Failures < 1 || c.Breaker.Window <= 0 || c.Breaker.Open <= 0:
		return fmt.Errorf("gateway: a breaker needs failures %d, a window %v and a time open %v above 0", c.Breaker.Failures, c.Breaker.Window, c.Breaker.Open)
	}
	if c.Memory.Limit < 0 || c.Memory.Cap < 0 || c.Memory.Cap > c.Budget.Max {
		return fmt.Errorf("gateway: the memory service's limit %d must be at least 0, and its cap %v from 0 to the greatest budget, %v", c.Memory.Limit, c.Memory.Cap, c.Budget.Max)
	}
	if err := c.Cache.check(); err != nil {
		return err
	}
	if c.Rerank.Reranker == nil {
		return c.Budget.Check(budgets, nil)
	}
	if c.Rerank.Top < 2 || c.Rerank.Top > maxRerank {
		return fmt.Errorf("gateway: %d memories cannot be reranked: from 2 to %d can", c.Rerank.Top, maxRerank)
	}
	if c.Rerank.Limit < 1 {
		return fmt.Errorf("gateway: the reranker needs 1 request at a time or more, not %d", c.Rerank.Limit)
	}
	return c.Budget.Check(budgets, &c.Rerank.Budget)
}

// ParsePolicies reads a JSON object of RecallPolicy messages by namespace.
func ParsePolicies(text []byte) (map[string]*triskelev1.RecallPolicy, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	policies := make(map[string]*triskelev1.RecallPolicy, len(raw))
	for namespace, message := range raw {
		policies[namespace] = &triskelev1.RecallPolicy{}
		if err := protojson.Unmarshal(message, policies[namespace]); err != nil {
			return nil, fmt.Errorf("policy of namespace %q: %w", namespace, err)
		}
	}
	return policies, nil
}
