package graph

import (
	"context"
	"database/sql"

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
		err = s.embed(ctx, namespace, memoriesOf(list))
	}
	return stored, err
}

func putFactsSQLite(ctx context.Context, tx *sql.Tx, namespace string, origin Origin, list []statement, concepts map[int64]Concept) (int, error) {
	there := map[string]bool{}
	var ends [][2]any // memory, endKey
	for _, id := range memoriesOf(list) {
		var found bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM memories WHERE namespace = ? AND id = ? AND NOT sensitive)", namespace, id[:]).Scan(&found); err != nil {
			return 0, err
		}
		if found {
			there[id.String()] = true
			ends = append(ends, [2]any{id, endKey(id)})
		}
	}
	if len(ends) == 0 {
		return 0, nil
	}
	version, err := nextVersionSQLite(ctx, tx, namespace)
	if err != nil {
		return 0, err
	}
	var named [][3]any     // id, key, name
	var mentioned [][2]any // memory, concept
	var stated [][7]any    // memory, source, target, relation, single, from, to
	for _, s := range list {
		if !there[s.memory.String()] {
			continue
		}
		for _, id := range []int64{s.source, s.target} {
			named = append(named, [3]any{id, concepts[id].Key, concepts[id].Name})
			mentioned = append(mentioned, [2]any{s.memory, id})
		}
		single := 0
		if s.single {
			single = 1
		}
		stated = append(stated, [7]any{s.memory, s.source, s.target, s.relation, single, sqlite.Micros(s.from), sqlite.Micros(s.to)})
	}
	var args sqlite.Args
	ns := args.Add(namespace)
	for _, statement := range []string{
		`INSERT INTO graph_concepts (namespace, id, key, name, kind)
			SELECT ` + ns + `, value ->> 0, value ->> 1, value ->> 2, 'name' FROM json_each(` + args.AddJSON(named) + `) WHERE true
			ON CONFLICT (namespace, id) DO NOTHING`,
		`INSERT INTO graph_memory_concepts (namespace, concept_id, memory_id, salience, revision)
			SELECT ` + ns + `, f.value ->> 1, m.id, ` + args.Add(salienceFact) + `, m.revision
			FROM json_each(` + args.AddJSON(mentioned) + `) f CROSS JOIN memories m ON m.namespace = ` + ns + ` AND m.id = unhex(f.value ->> 0, '-') WHERE true
			ON CONFLICT (namespace, concept_id, memory_id) DO NOTHING`,
		`INSERT INTO graph_concept_edges AS e (namespace, memory_id, source_id, target_id, relation, single, valid_from, stated_to, valid_to, origin, weight)
			SELECT ` + ns + `, m.id, f.value ->> 1, f.value ->> 2, f.value ->> 3, f.value ->> 4, coalesce(f.value ->> 5, m.occurred_at, m.created_at), f.value ->> 6,
				CASE WHEN m.superseded_by IS NULL THEN f.value ->> 6 ELSE coalesce(min(f.value ->> 6, m.updated_at), m.updated_at) END, ` + args.Add(string(origin)) + `, 1
			FROM json_each(` + args.AddJSON(stated) + `) f CROSS JOIN memories m ON m.namespace = ` + ns + ` AND m.id = unhex(f.value ->> 0, '-') WHERE true
			ON CONFLICT (namespace, source_id, target_id, relation, memory_id) DO UPDATE SET origin = excluded.origin, single = excluded.single,
				valid_from = excluded.valid_from, stated_to = excluded.stated_to, valid_to = excluded.valid_to
			WHERE NOT (e.origin = 'import' AND excluded.origin = 'model')`,
		`INSERT INTO graph_link_ends (namespace, memory_id, key, version)
			SELECT ` + ns + `, unhex(value ->> 0, '-'), value ->> 1, ` + args.Add(version) + ` FROM json_each(` + args.AddJSON(ends) + `) WHERE true
			ON CONFLICT (namespace, memory_id) DO UPDATE SET version = excluded.version`,
	} {
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return 0, err
		}
	}
	return len(stated), nil
}
