package gateway

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
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
	Quota  int // at least this many hits are from the leg, as far as it has so many; 0 for none
	Budget budget.Leg
}

// legForm is how a leg is written.
const legForm = "name=target?weight=1&depth=50&quota=0&cap=150ms&share=1&min=2ms&wave=1"

// ParseLeg reads a leg as legForm shows it; what is left out of the options has its default: weight 1, depth 50, no quota,
// no cap, share 1, at least 2 ms, in the first wave.
func ParseLeg(text string) (Leg, error) {
	wrong := func(what string) (Leg, error) {
		return Leg{}, fmt.Errorf("leg %q: %s; want %s", text, what, legForm)
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
		case "quota":
			leg.Quota, err = strconv.Atoi(value)
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
	if leg.Depth < 1 || leg.Depth > maxDepth {
		return wrong("depth must be from 1 to 1000")
	}
	if leg.Quota < 0 || leg.Quota > maxDepth {
		return wrong("quota must be from 0 to 1000")
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
	// Policies override the configuration for a namespace and those below it; "" is above all.
	Policies map[string]*triskelev1.RecallPolicy
}

// DefaultConfig has the source design's fusion and no legs.
func DefaultConfig() Config {
	return Config{Budget: budget.DefaultConfig(), K: fusion.DefaultK}
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
