package mcpserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/triskele/triskele/services/agents/internal/when"
)

const (
	mostListed  = 100
	mostFound   = 50
	leastTokens = 100
	mostTokens  = 20_000
)

// bounds sets the limits of arguments, by name. They are those of the API, or tighter where a model needs no more. JSON
// schemas count lengths in characters. The gateway checks them again in bytes of UTF-8.
var bounds = map[string]func(*jsonschema.Schema){
	"content":           length(1, 65_536),
	"title":             length(0, 512),
	"category":          length(0, 64),
	"source":            length(0, 512),
	"idempotency_key":   length(0, 128),
	"query":             length(1, 32_768),
	"namespace":         length(1, 128),
	"page_token":        length(0, 256),
	"tags":              items(64, 128),
	"categories":        items(64, 64),
	"id":                func(s *jsonschema.Schema) { s.Format = "uuid" },
	"ids":               func(s *jsonschema.Schema) { items(mostListed, 36)(s); s.Items.Format = "uuid" },
	"importance":        func(s *jsonschema.Schema) { between(s, 0, 1) },
	"max_tokens":        func(s *jsonschema.Schema) { between(s, leastTokens, mostTokens) },
	"thread":            length(0, 512),
	"position":          func(s *jsonschema.Schema) { s.Minimum = new(0.) },
	"surroundings":      func(s *jsonschema.Schema) { between(s, 0, 10) },
	"expected_revision": func(s *jsonschema.Schema) { s.Minimum = new(0.) },
}

func length(least, most int) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		s.MaxLength = &most
		if least > 0 {
			s.MinLength = &least
		}
	}
}

func items(most, longest int) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		s.MaxItems = &most
		length(1, longest)(s.Items)
	}
}

func between(s *jsonschema.Schema, low, high float64) { s.Minimum, s.Maximum = &low, &high }

// argumentsOf returns the schema of a tool's arguments: the fields of T without the hidden ones, with their bounds. most is
// the maximum of the argument limit.
func argumentsOf[T any](most int, hidden ...string) *jsonschema.Schema {
	schema := schemaOf[T]()
	for _, name := range hidden {
		delete(schema.Properties, name)
	}
	schema.PropertyOrder = slices.DeleteFunc(schema.PropertyOrder, func(name string) bool { return slices.Contains(hidden, name) })
	for name, property := range schema.Properties {
		if set := bounds[name]; set != nil {
			set(property)
		}
		if name == "limit" {
			between(property, 1, float64(most))
		}
	}
	return schema
}

// schemaOf returns the schema of T. No field may be null: some clients accept a single type only, and optional fields can be
// left out.
func schemaOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[moment](): {Type: "string"},
	}})
	if err != nil {
		panic(fmt.Sprintf("schema of a tool: %v", err)) // T is one of this package's types
	}
	notNull(schema)
	return schema
}

func notNull(s *jsonschema.Schema) {
	for _, of := range s.Types {
		if of != "null" {
			s.Type, s.Types = of, nil
		}
	}
	if s.Items != nil {
		notNull(s.Items)
	}
	for _, property := range s.Properties {
		notNull(property)
	}
}

// moment is a point in time as models write it: a date, a time of RFC 3339, or a span from now.
type moment struct{ when.Moment }

func (m *moment) UnmarshalJSON(data []byte) (err error) {
	var text string
	if err := json.Unmarshal(data, &text); err != nil || text == "" { // none is given
		return err
	}
	if err := m.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%.200q is not a time: it %w", text, err)
	}
	return nil
}
