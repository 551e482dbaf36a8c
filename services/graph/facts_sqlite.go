package graph

import (
	"context"
	"database/sql"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqlite"
)

var _ Facts = (*SQLite)(nil)

// PutFacts implements Facts.
func (s *SQLite) PutFacts(ctx context.Context, namespace string, origin Origin, facts []Fact) (stored int, err error) {
	list, concepts, err := statements(facts)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	err = s.db.Update(ctx, func(tx *sql.Tx) error {
		stored, err = putFactsSQLite(ctx, tx, namespace, origin, list, concepts)
		return err
	})
	if err == nil {
		err = s.embed(ctx, s, namespace, memoriesOf(list))
	}
	return stored, err
}

func putFactsSQLite(ctx context.Context, tx *sql.Tx, namespace string, origin Origin, list []statement, concepts map[int64]Concept) (int, error) {
	mentions, err := mentionsSQLite(ctx, tx, namespace, memoriesOf(list))
	if err != nil || len(mentions) == 0 {
		return 0, err
	}
	var named [][3]any  // id, key, name
	var stated [][7]any // memory, source, target, relation, single, from, to
	for _, s := range list {
		of, found := mentions[s.memory]
		if !found {
			continue
		}
		for _, id := range []int64{s.source, s.target} {
			named = append(named, [3]any{id, concepts[id].Key, concepts[id].Name})
			if !slices.ContainsFunc(of, func(m mention) bool { return m.concept == id }) {
				of = append(of, mention{id, salienceFact})
			}
		}
		mentions[s.memory] = of
		single := 0
		if s.single {
			single = 1
		}
		stated = append(stated, [7]any{s.memory, s.source, s.target, s.relation, single, sqlite.Micros(s.from), sqlite.Micros(s.to)})
	}
	if err := execSQLite(ctx, tx, `
		INSERT INTO graph_concepts (namespace, id, key, name, kind)
		SELECT ?1, value ->> 0, value ->> 1, value ->> 2, 'name' FROM json_each(?2) WHERE true
		ON CONFLICT (namespace, id) DO NOTHING`, namespace, named); err != nil {
		return 0, err
	}
	var memories [][2]any // id, mentions
	for id, of := range mentions {
		memories = append(memories, [2]any{id, storedMentions(of)})
	}
	if err := execSQLite(ctx, tx, `
		INSERT INTO graph_memories (namespace, memory_id, mentions)
		SELECT ?1, unhex(value ->> 0, '-'), value ->> 1 FROM json_each(?2) WHERE true
		ON CONFLICT (namespace, memory_id) DO UPDATE SET mentions = excluded.mentions`, namespace, memories); err != nil {
		return 0, err
	}
	return len(stated), execSQLite(ctx, tx, `
		INSERT INTO graph_facts AS f (namespace, memory_id, source_id, target_id, relation, single, valid_from, valid_to, origin)
		SELECT ?1, m.id, g.value ->> 1, g.value ->> 2, g.value ->> 3, g.value ->> 4, coalesce(g.value ->> 5, m.occurred_at, m.created_at), g.value ->> 6, '`+string(origin)+`'
		FROM json_each(?2) g CROSS JOIN memories m ON m.namespace = ?1 AND m.id = unhex(g.value ->> 0, '-') WHERE true
		ON CONFLICT (namespace, memory_id, source_id, target_id, relation) DO UPDATE SET origin = excluded.origin, single = excluded.single,
			valid_from = excluded.valid_from, valid_to = excluded.valid_to
		WHERE NOT (f.origin = 'import' AND excluded.origin = 'model')`, namespace, stated)
}

// mentionsSQLite returns the stored mentions of those memories that exist and are not sensitive.
func mentionsSQLite(ctx context.Context, tx *sql.Tx, namespace string, memories []uuid.UUID) (map[uuid.UUID][]mention, error) {
	var args sqlite.Args
	ns := args.Add(namespace)
	rows, err := tx.QueryContext(ctx, `
		SELECT m.id, coalesce(g.mentions, '') FROM json_each(`+args.AddJSON(memories)+`) j
		CROSS JOIN memories m ON m.namespace = `+ns+` AND m.id = unhex(j.value, '-') AND NOT m.sensitive
		LEFT JOIN graph_memories g ON g.namespace = m.namespace AND g.memory_id = m.id`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := map[uuid.UUID][]mention{}
	for rows.Next() {
		var id uuid.UUID
		var stored sql.RawBytes
		if err := rows.Scan(&id, &stored); err != nil {
			return nil, err
		}
		out[id] = nil
		eachMention(stored, func(m mention) { out[id] = append(out[id], m) })
	}
	return out, rows.Err()
}
