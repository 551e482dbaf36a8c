package fusion

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Model estimates the log-odds that a memory is relevant, from its features. It is a generalised additive model with a few
// interactions: Bias plus a sum of terms, each a piece of a piecewise-linear function of one feature. A feature that is missing
// adds nothing. So every leg's contribution is the sum of its own terms.
type Model struct {
	bias  float64
	terms []term
}

// term adds weight × (the part of the piece [low, high] that the feature has passed, 0 to 1) × another feature, if there is one.
type term struct {
	feature, with int // with is -1 for none
	present       bool
	low, perUnit  float32
	weight        float64
	role          role
}

//go:embed model.json
var modelFile []byte

// BuiltIn returns the model that tests/lab/calibrate made.
var BuiltIn = sync.OnceValue(func() *Model {
	model, err := ReadModel(modelFile)
	if err != nil {
		panic(err) // a test reads the same file
	}
	return model
})

// ReadModel reads a model as the training writes it.
func ReadModel(text []byte) (*Model, error) {
	var file struct {
		Bias  float64 `json:"bias"`
		Terms []struct {
			Feature string  `json:"feature"`
			With    string  `json:"with"`
			Present bool    `json:"present"` // the term is whether the feature is there
			Low     float64 `json:"low"`
			High    float64 `json:"high"`
			Weight  float64 `json:"weight"`
		} `json:"terms"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("fusion model: %w", err)
	}
	m := &Model{bias: file.Bias}
	for i, t := range file.Terms {
		feature, with := slices.Index(FeatureNames[:], t.Feature), slices.Index(FeatureNames[:], t.With)
		switch {
		case feature < 0 || t.With != "" && with < 0:
			return nil, fmt.Errorf("fusion model: term %d: there is no feature %q", i+1, t.Feature+t.With)
		case !t.Present && !(t.Low < t.High):
			return nil, fmt.Errorf("fusion model: term %d: %g is not below %g", i+1, t.Low, t.High)
		case math.IsNaN(t.Weight) || math.IsInf(t.Weight, 0):
			return nil, fmt.Errorf("fusion model: term %d: weight %g", i+1, t.Weight)
		}
		m.terms = append(m.terms, term{
			feature: feature, with: with, present: t.Present, low: float32(t.Low), perUnit: float32(1 / (t.High - t.Low)), weight: t.Weight,
			role: groupOf[feature],
		})
	}
	if len(m.terms) == 0 {
		return nil, errors.New("fusion model: it has no terms")
	}
	return m, nil
}

// of computes a term without its weight.
func (t *term) of(x *[features]float32) float64 {
	v := x[t.feature]
	switch {
	case v != v:
		return 0
	case t.present:
		return 1
	}
	passed := (v - t.low) * t.perUnit
	if passed <= 0 {
		return 0
	}
	passed = min(passed, 1)
	if t.with < 0 {
		return float64(passed)
	}
	if w := x[t.with]; w == w {
		return float64(passed * w)
	}
	return 0
}

// logOdds returns the log-odds that a memory with these features is relevant, by role. Those of the question include the bias.
func (m *Model) logOdds(x *[features]float32) (by [roles]float64) {
	by[question] = m.bias
	for i := range m.terms {
		t := &m.terms[i]
		by[t.role] += t.weight * t.of(x)
	}
	return by
}

// Probability is the inverse of the log-odds.
func Probability(logOdds float64) float64 { return 1 / (1 + math.Exp(-logOdds)) }
