package graph

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// Origin is a fact's source.
type Origin string

// The origins of facts. Indexing replaces facts from the text. The others last as long as their
// memory.
const (
	OriginText   Origin = "text"
	OriginImport Origin = "import"
	OriginModel  Origin = "model"
)

// Fact is a relation stated by a memory. Each text has at most 256 bytes.
type Fact struct {
	Memory                    uuid.UUID
	Subject, Relation, Object string
	// Single means one object at a time: a newer fact closes this one.
	Single bool
	// From and To bound its validity. Zero From is the memory's own time, zero To is open.
	From, To time.Time
}

// Facts stores facts.
type Facts interface {
	// PutFacts stores facts of a namespace atomically and returns their number. A fact replaces one with the same memory,
	// subject, relation and object. Facts of missing or sensitive memories are skipped. If the embedder fails, the facts
	// are stored without vectors.
	PutFacts(ctx context.Context, namespace string, origin Origin, facts []Fact) (int, error)
}

// MaxFacts bounds the facts of a call.
const MaxFacts = 10_000

// aliasRelations are synonyms of AliasRelation.
var aliasRelations = map[string]bool{
	AliasRelation: true, "alias": true, "also known as": true, "aka": true, "also called": true, "known as": true, "stands for": true, "same as": true,
}

// Check returns a *record.FieldError for an invalid fact.
func (f Fact) Check() error {
	for _, field := range []struct{ name, text string }{{"subject", f.Subject}, {"relation", f.Relation}, {"object", f.Object}} {
		if len(field.text) > maxNameBytes || Key(field.text) == "" {
			return &record.FieldError{Field: field.name, MustBe: "must have letters or digits and at most 256 bytes"}
		}
	}
	if relationOf(f.Relation) == coMention {
		return &record.FieldError{Field: "relation", MustBe: "must not be " + coMention}
	}
	if !f.To.IsZero() && f.To.Before(f.From) {
		return &record.FieldError{Field: "valid_to", MustBe: "must not be before valid_from"}
	}
	return nil
}

// relationOf normalises a relation.
func relationOf(text string) string {
	relation := strings.ToLower(strings.Join(strings.Fields(text), " "))
	if aliasRelations[relation] {
		return AliasRelation
	}
	return relation
}

// statement is a fact with concept ids.
type statement struct {
	memory         uuid.UUID
	source, target int64
	relation       string
	single         bool
	from, to       time.Time
}

// statements converts facts, without duplicates and self-relations, sorted by memory. It also returns their concepts.
func statements(facts []Fact) (list []statement, concepts map[int64]Concept, err error) {
	type identity struct {
		memory         uuid.UUID
		source, target int64
		relation       string
	}
	concepts = map[int64]Concept{}
	seen := map[identity]int{}
	for _, f := range facts {
		if err := f.Check(); err != nil {
			return nil, nil, err
		}
		var ends [2]int64
		for i, name := range []string{f.Subject, f.Object} {
			k := Key(name)
			ends[i] = conceptID(k)
			if _, known := concepts[ends[i]]; !known {
				concepts[ends[i]] = Concept{Key: k, Name: strings.Join(strings.Fields(name), " "), Kind: KindName}
			}
		}
		if ends[0] == ends[1] {
			continue
		}
		s := statement{f.Memory, ends[0], ends[1], relationOf(f.Relation), f.Single, f.From, f.To}
		id := identity{s.memory, s.source, s.target, s.relation}
		if at, twice := seen[id]; twice {
			list[at] = s
			continue
		}
		seen[id] = len(list)
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b statement) int { return cmp.Or(slices.Compare(a.memory[:], b.memory[:])) })
	return list, concepts, nil
}

// memoriesOf returns the distinct memories, ascending.
func memoriesOf(list []statement) []uuid.UUID {
	var out []uuid.UUID
	for _, s := range list {
		if len(out) == 0 || out[len(out)-1] != s.memory {
			out = append(out, s.memory)
		}
	}
	return out
}
