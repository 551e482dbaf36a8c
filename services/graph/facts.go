package graph

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// The origins of facts. Indexing replaces facts from the text. The others last as long as their memory.
const (
	fromText   = "text"
	fromImport = "import"
	fromModel  = "model"
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
	Fact
	fact
	named []Concept // source and target as the fact spells them, unless they are stored already
}

// named returns the concept of a name in a fact.
func named(name string) Concept {
	return Concept{Key: Key(name), Name: strings.Join(strings.Fields(name), " "), Kind: KindName}
}

// statements converts facts, without duplicates and self-relations, sorted by memory.
func statements(facts []Fact) (list []statement, err error) {
	type identity struct {
		memory uuid.UUID
		fact
	}
	seen := map[identity]int{}
	for _, f := range facts {
		if err := f.Check(); err != nil {
			return nil, err
		}
		subject, object := named(f.Subject), named(f.Object)
		if subject.Key == object.Key {
			continue
		}
		s := statement{f, fact{conceptID(subject.Key), conceptID(object.Key), relationOf(f.Relation)}, []Concept{subject, object}}
		id := identity{s.Memory, s.fact}
		if at, twice := seen[id]; twice {
			list[at] = s
			continue
		}
		seen[id] = len(list)
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b statement) int { return compareIDs(a.Memory, b.Memory) })
	return list, nil
}

// PutFacts stores imported facts of a namespace atomically and returns their number. A fact replaces one with the same memory, subject,
// relation and object. Facts of missing or sensitive memories are skipped. If the embedder fails, they have no vectors.
func (l *Leg) PutFacts(ctx context.Context, namespace string, facts []Fact) (stored int, err error) {
	list, err := statements(facts)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	if err := l.store.Write(ctx, "", func(tx sqldb.Tx) error {
		stored, err = putFacts(ctx, tx, namespace, fromImport, list)
		return err
	}); err != nil {
		return 0, err
	}
	return stored, l.embed(ctx, namespace, memoriesOf(list))
}

// putFacts stores the statements of memories that exist and are not sensitive, and returns their number.
func putFacts(ctx context.Context, tx sqldb.Tx, namespace string, origin string, statements []statement) (int, error) {
	current, err := lock(ctx, tx, namespace, memoriesOf(statements))
	if err != nil || len(current) == 0 {
		return 0, err
	}
	statements = slices.DeleteFunc(slices.Clone(statements), func(s statement) bool {
		_, there := current[s.Memory]
		return !there
	})
	memories := memoriesOf(statements)
	had := map[uuid.UUID][]mention{}
	b := &sqldb.Batch{}
	lockNamespace(tx, b, namespace)
	readMentions(tx.DB(), b, namespace, memories, func(memory uuid.UUID, m mention) { had[memory] = append(had[memory], m) })
	if err := tx.In(postgres.Entered).Send(ctx, b); err != nil {
		return 0, err
	}
	var named []Concept
	now := maps.Clone(had)
	for _, s := range statements {
		named = append(named, s.named...)
		now[s.Memory] = append(now[s.Memory], mention{s.source, salienceFact}, mention{s.target, salienceFact})
	}
	putConcepts(b, namespace, named)
	put(tx, b, namespace, slice.Map(memories, func(id uuid.UUID) entry { return entry{memory: id, had: had[id], now: now[id]} }), false, false)
	putStatements(b, namespace, origin, statements)
	return len(statements), tx.In(postgres.Entered).Send(ctx, b)
}

// putStatements stores statements. One replaces another of other times or origin, but no model's an import's, and no text's any.
func putStatements(b *sqldb.Batch, namespace string, origin string, statements []statement) {
	rows := slice.Map(statements, func(s statement) []any {
		return []any{s.Memory, s.source, s.target, s.relation, s.Single, s.From, s.To}
	})
	b.Exec(`
		INSERT INTO graph.facts AS f (namespace, memory_id, source_id, target_id, relation, single, valid_from, valid_to, origin)
		SELECT m.namespace, m.id, g.source, g.target, g.relation, g.single, coalesce(g.begins, m.occurred_at, m.created_at), g.ends, $2
		FROM unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::boolean[], $8::timestamptz[], $9::timestamptz[])
			AS g (memory, source, target, relation, single, begins, ends)
		CROSS JOIN memory.memories m WHERE m.namespace = $1 AND m.id = g.memory
		ON CONFLICT (namespace, memory_id, source_id, target_id, relation) DO UPDATE SET origin = excluded.origin, single = excluded.single,
			valid_from = excluded.valid_from, valid_to = excluded.valid_to
		WHERE excluded.origin <> 'text' AND NOT (f.origin = 'import' AND excluded.origin = 'model')
			AND (f.origin, f.single, f.valid_from, f.valid_to) IS DISTINCT FROM (excluded.origin, excluded.single, excluded.valid_from, excluded.valid_to)`,
		namespace, origin, sqldb.Rows(rows))
}

// memoriesOf returns the distinct memories, ascending.
func memoriesOf(list []statement) []uuid.UUID {
	return slices.Compact(slice.Map(list, func(s statement) uuid.UUID { return s.Memory }))
}
