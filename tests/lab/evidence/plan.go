// Package evidence decides ranking defaults: a plan, written before the run, says which configurations are measured on
// which sets and by what rule one replaces another; the study runs it through the gateway and the legs that agents use,
// and computes the verdict.
package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

// Plan says what to measure and how to decide. Everything in it is fixed before the run.
type Plan struct {
	Name  string   `yaml:"name"`  // of the report's file
	Title string   `yaml:"title"` // of the report
	About string   `yaml:"about"` // what is asked and why, for the report's readers
	Sets  []string `yaml:"sets"`
	Store string   `yaml:"store"` // sqlite or postgres; sqlite if left out
	// Metric is what hypotheses are judged by: one of eval.MetricNames.
	Metric         string          `yaml:"metric"`
	Configurations []Configuration `yaml:"configurations"`
	Hypotheses     []Hypothesis    `yaml:"hypotheses"`
	Rule           Rule            `yaml:"rule"`
	// Degradation names the configuration whose loss of legs is drawn; none if empty.
	Degradation string `yaml:"degradation"`
}

// Configuration is one way to recall, or a grid of them.
type Configuration struct {
	Name string `yaml:"name"`
	// Policy is a RecallPolicy as its JSON form has it. What it leaves out is the gateway's default.
	Policy map[string]any `yaml:"policy"`
	// Vary makes a grid: every combination of the values.
	Vary []Axis `yaml:"vary"`
}

// Axis is a setting and the values it takes.
type Axis struct {
	Setting string `yaml:"setting"` // a path in the policy, such as fusion.k
	Values  []any  `yaml:"values"`
}

// Hypothesis claims that the best of some configurations beats the one in use.
type Hypothesis struct {
	Name       string   `yaml:"name"`
	Claim      string   `yaml:"claim"`
	Baseline   string   `yaml:"baseline"`   // a configuration, of a grid one cell
	Candidates []string `yaml:"candidates"` // configurations; of a grid every cell. The best on the tuning halves is the one judged
	// Decides says that the outcome sets a default.
	Decides bool `yaml:"decides"`
}

// Rule is when a candidate replaces the baseline.
type Rule struct {
	Better  int      `yaml:"better"`  // on so many sets at least it is significantly better
	Without []string `yaml:"without"` // legs; with each of them lost it is significantly worse on no set
	// Tolerance is how far, on the tuning half of any set, whole or with a leg lost, a candidate may fall behind the baseline
	// to be chosen; if none stays within it, the best is judged all the same.
	Tolerance float64 `yaml:"tolerance"`
	// Level of the family of all comparisons of the plan, for Holm's correction, and of each stratum's interval.
	Level float64 `yaml:"level"`
}

// cell is one configuration with its values filled in.
type cell struct {
	name   string // "convex alpha=0.3"
	of     string // the configuration's name
	values []any  // of the axes
	policy *triskelev1.RecallPolicy
}

// ParsePlan reads a plan in YAML. An unknown field, a policy that is none, and a name that nothing has are errors.
func ParsePlan(text []byte) (*Plan, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var p Plan
	if err := decoder.Decode(&p); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("plan: more than one document")
	}
	p.Store = cmp.Or(p.Store, "sqlite")
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return &p, nil
}

func (p *Plan) check() error {
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, `/\`):
		return fmt.Errorf("name %q: a file's name is needed", p.Name)
	case len(p.Sets) == 0:
		return errors.New("sets: at least one is needed")
	case !slices.Contains(eval.MetricNames(), p.Metric):
		return fmt.Errorf("metric %q: there are %s", p.Metric, strings.Join(eval.MetricNames(), ", "))
	case p.Rule.Better < 1 || p.Rule.Better > len(p.Sets):
		return fmt.Errorf("rule.better: %d is not from 1 to the number of sets, %d", p.Rule.Better, len(p.Sets))
	case !(p.Rule.Tolerance >= 0 && p.Rule.Tolerance <= 1):
		return fmt.Errorf("rule.tolerance: %g is not from 0 to 1", p.Rule.Tolerance)
	case !(p.Rule.Level > 0 && p.Rule.Level < 1):
		return fmt.Errorf("rule.level: %g is not between 0 and 1", p.Rule.Level)
	}
	cells, err := p.cells()
	if err != nil {
		return err
	}
	known := func(name string) bool {
		return slices.ContainsFunc(cells, func(c cell) bool { return c.name == name })
	}
	for _, h := range p.Hypotheses {
		if !known(h.Baseline) {
			return fmt.Errorf("hypothesis %s: no configuration is called %q", h.Name, h.Baseline)
		}
		if len(h.Candidates) == 0 {
			return fmt.Errorf("hypothesis %s: it has no candidates", h.Name)
		}
		for _, name := range h.Candidates {
			if !slices.ContainsFunc(cells, func(c cell) bool { return c.of == name }) {
				return fmt.Errorf("hypothesis %s: no configuration is called %q", h.Name, name)
			}
		}
	}
	if p.Degradation != "" && !known(p.Degradation) {
		return fmt.Errorf("degradation: no configuration is called %q", p.Degradation)
	}
	return nil
}

// cells are all configurations, grids in the order of their values, the last axis fastest.
func (p *Plan) cells() ([]cell, error) {
	var cells []cell
	for _, c := range p.Configurations {
		grid := []cell{{name: c.Name, of: c.Name}}
		for _, axis := range c.Vary {
			var next []cell
			for _, at := range grid {
				for _, value := range axis.Values {
					next = append(next, cell{
						name: fmt.Sprintf("%s %s=%v", at.name, axis.label(), value), of: c.Name, values: append(slices.Clone(at.values), value),
					})
				}
			}
			grid = next
		}
		for i := range grid {
			var err error
			if grid[i].policy, err = c.policy(grid[i].values); err != nil {
				return nil, fmt.Errorf("configuration %q: %w", grid[i].name, err)
			}
			if slices.ContainsFunc(cells, func(other cell) bool { return other.name == grid[i].name }) {
				return nil, fmt.Errorf("two configurations are called %q", grid[i].name)
			}
		}
		cells = append(cells, grid...)
	}
	return cells, nil
}

// label is the last word of the path, with the leg's name if it is a leg's.
func (a Axis) label() string {
	return strings.TrimPrefix(strings.TrimPrefix(a.Setting, "fusion."), "legs.")
}

// policy is the configuration with a value for each axis.
func (c Configuration) policy(values []any) (*triskelev1.RecallPolicy, error) {
	text, err := json.Marshal(c.Policy)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	if err := json.Unmarshal(text, &tree); err != nil { // a copy
		return nil, err
	}
	if tree == nil { // of null
		tree = map[string]any{}
	}
	for i, value := range values {
		if err := set(tree, strings.Split(c.Vary[i].Setting, "."), value); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Vary[i].Setting, err)
		}
	}
	if text, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	policy := &triskelev1.RecallPolicy{}
	if err := protojson.Unmarshal(text, policy); err != nil {
		return nil, err
	}
	return policy, protovalidate.Validate(policy)
}

func set(tree map[string]any, path []string, value any) error {
	if len(path) == 1 {
		tree[path[0]] = value
		return nil
	}
	inner, ok := tree[path[0]].(map[string]any)
	if !ok {
		if tree[path[0]] != nil {
			return errors.New("the path leads through a value")
		}
		inner = map[string]any{}
		tree[path[0]] = inner
	}
	return set(inner, path[1:], value)
}
