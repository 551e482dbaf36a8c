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

// Origin says who stated a fact.
type Origin string

// The origins of facts. Those of the text are found again whenever a memory is indexed; the others stay as long as their
// memory.
const (
	OriginText   Origin = "text"
	OriginImport Origin = "import"
	OriginModel  Origin = "model"
)

// Fact is what a memory says of two things. Names and relation have at most 256 bytes.
type Fact struct {
	Memory                    uuid.UUID
	Subject, Relation, Object string
	// Single says that the subject has one object at a time for this relation: a newer fact closes this one.
	Single bool
	// From and To are when it holds. Zero From is when the memory's matter occurred, zero To is open.
	From, To time.Time
}

// Facts takes facts in.
type Facts interface {
	// PutFacts stores facts of a namespace, replacing those with the same memory, subject, relation and object, and returns
	// how many it stored: not those of memories that are not there or sensitive. All or none. If the embedder fails the facts
	// are stored, without vectors.
	PutFacts(ctx context.Context, namespace string, origin Origin, facts []Fact) (int, error)
}

// MaxFacts is how many facts one call may store.
const MaxFacts = 10_000

// aliasRelations all mean that two names are of the same.
var aliasRelations = map[string]bool{
	AliasRelation: true, "alias": true, "also known as": true, "aka": true, "also called": true, "known as": true, "stands for": true, "same as": true,
}

// Check says what is wrong with a fact, as a *record.FieldError.
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

// relationOf is a relation as it is kept.
func relationOf(text string) string {
	relation := strings.ToLower(strings.Join(strings.Fields(text), " "))
	if aliasRelations[relation] {
		return AliasRelation
	}
	return relation
}

// statement is a fact by the ids of its concepts.
type statement struct {
	memory         uuid.UUID
	source, target int64
	relation       string
	single         bool
	from, to       time.Time
}

// statements prepares facts: concepts by id, each fact once and by memory, those that relate a thing to itself left out.
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

// memoriesOf returns the memories of statements, each once, ascending.
func memoriesOf(list []statement) []uuid.UUID {
	var out []uuid.UUID
	for _, s := range list {
		if len(out) == 0 || out[len(out)-1] != s.memory {
			out = append(out, s.memory)
		}
	}
	return out
}
