package graph

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqlite"
)

// sqliteVectors are the vectors in a transaction.
type sqliteVectors struct{ *sql.Tx }

// unembedded implements vectorStore.
func (s *SQLite) unembedded(ctx context.Context, namespace, model string, memories []uuid.UUID) ([]unembedded, error) {
	return unembeddedSQLite(ctx, s.db.Read, namespace, model, memories)
}

// unembedded implements vectorTables.
func (s sqliteVectors) unembedded(ctx context.Context, namespace, model string, memories []uuid.UUID) ([]unembedded, error) {
	return unembeddedSQLite(ctx, s.Tx, namespace, model, memories)
}

func unembeddedSQLite(ctx context.Context, db sqlite.Queryer, namespace, model string, memories []uuid.UUID) ([]unembedded, error) {
	var args sqlite.Args
	ns, ids, of := args.Add(namespace), args.AddJSON(memories), args.Add(model)
	rows, err := db.QueryContext(ctx, `
		SELECT DISTINCT c.id, 0, '', c.name
		FROM json_each(`+ids+`) j
		CROSS JOIN graph_memories m ON m.namespace = `+ns+` AND m.memory_id = unhex(j.value, '-')
		CROSS JOIN json_each(m.mentions) n
		CROSS JOIN graph_concepts c ON c.namespace = m.namespace AND c.id = n.value ->> 0
		WHERE n.value ->> 1 >= `+args.Add(int(salienceResolved*100))+` AND c.vector_model IS NOT `+of+`
		UNION ALL
		SELECT DISTINCT e.source_id, e.target_id, e.relation, s.name || ' ' || e.relation || ' ' || t.name
		FROM json_each(`+ids+`) j
		CROSS JOIN graph_facts e ON e.namespace = `+ns+` AND e.memory_id = unhex(j.value, '-')
		CROSS JOIN graph_concepts s ON s.namespace = e.namespace AND s.id = e.source_id
		CROSS JOIN graph_concepts t ON t.namespace = e.namespace AND t.id = e.target_id
		WHERE e.origin <> 'text' AND e.relation <> `+args.Add(AliasRelation)+` AND e.vector_model IS NOT `+of, args...)
	return collectUnembedded(rows, err)
}

// unembeddedOf implements newVectorTables.
func (s sqliteVectors) unembeddedOf(ctx context.Context, namespace, model string, concepts []int64) ([]unembedded, error) {
	var args sqlite.Args
	return collectUnembedded(s.QueryContext(ctx, `
		SELECT c.id, 0, '', c.name FROM json_each(`+args.AddJSON(concepts)+`) j
		CROSS JOIN graph_concepts c ON c.namespace = `+args.Add(namespace)+` AND c.id = j.value WHERE c.vector_model IS NOT `+args.Add(model), args...))
}

func collectUnembedded(rows *sql.Rows, err error) ([]unembedded, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []unembedded
	for rows.Next() {
		var u unembedded
		if err := rows.Scan(&u.concept, &u.target, &u.relation, &u.text); err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, rows.Err()
}

// putVectors implements vectorStore.
func (s *SQLite) putVectors(ctx context.Context, namespace, model string, memories []uuid.UUID, of []unembedded, vectors []code) error {
	return s.db.Update(ctx, func(tx *sql.Tx) error {
		if err := (sqliteVectors{tx}).putVectors(ctx, namespace, model, memories, of, vectors); err != nil {
			return err
		}
		return execSQLite(ctx, tx, "UPDATE graph_memories SET links = links WHERE namespace = ?1 AND memory_id IN (SELECT unhex(value, '-') FROM json_each(?2))",
			namespace, memories) // which logs that they have changed
	})
}

// putVectors implements vectorTables. The memories are logged already: their rows come from the same transaction.
func (s sqliteVectors) putVectors(ctx context.Context, namespace, model string, memories []uuid.UUID, of []unembedded, vectors []code) error {
	for i, u := range of {
		var err error
		if u.relation == "" {
			_, err = s.ExecContext(ctx, "UPDATE graph_concepts SET vector = ?, vector_model = ? WHERE namespace = ? AND id = ?", vectors[i].bytes(), model, namespace, u.concept)
		} else {
			var args sqlite.Args
			_, err = s.ExecContext(ctx, `UPDATE graph_facts SET vector = `+args.Add(vectors[i].bytes())+`, vector_model = `+args.Add(model)+`
					WHERE namespace = `+args.Add(namespace)+` AND source_id = `+args.Add(u.concept)+` AND target_id = `+args.Add(u.target)+`
						AND relation = `+args.Add(u.relation)+` AND memory_id IN (SELECT unhex(value, '-') FROM json_each(`+args.AddJSON(memories)+`))`, args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lacking implements vectorStore. SQLite would take ten times as long to find the mentions of concepts in their JSON.
func (s *SQLite) lacking(ctx context.Context, namespace, model string) (memories []uuid.UUID, err error) {
	err = s.db.Snapshot(ctx, func(all *sqlite.Snapshot) error {
		var concept int64
		lacking := map[int64]bool{}
		if err := all.Each(ctx, "SELECT id FROM graph_concepts WHERE namespace = ?1 AND vector_model IS NOT ?2", []any{namespace, model}, []any{&concept}, func() error {
			lacking[concept] = true
			return nil
		}); err != nil {
			return err
		}
		var id uuid.UUID
		add := func() error {
			memories = append(memories, id)
			return nil
		}
		if err := all.Each(ctx, `
			SELECT DISTINCT memory_id FROM graph_facts
			WHERE namespace = ?1 AND vector_model IS NOT ?2 AND origin <> 'text' AND relation <> '`+AliasRelation+`'`, []any{namespace, model}, []any{&id}, add); err != nil {
			return err
		}
		if len(lacking) == 0 {
			return nil
		}
		var mentions []byte
		return all.Each(ctx, "SELECT memory_id, mentions FROM graph_memories WHERE namespace = ?1", []any{namespace}, []any{&id, &mentions}, func() error {
			lacks := false
			eachMention(mentions, func(m mention) { lacks = lacks || m.salience >= salienceResolved && lacking[m.concept] })
			if lacks {
				return add()
			}
			return nil
		})
	})
	return memories, err
}

// namespaces implements vectorStore.
func (s *SQLite) namespaces(ctx context.Context) ([]string, error) {
	return column[string](ctx, s.db, "SELECT DISTINCT namespace FROM graph_memories ORDER BY namespace")
}

// column returns the only column of a query.
func column[T any](ctx context.Context, db *sqlite.DB, query string, args ...any) ([]T, error) {
	rows, err := db.Read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []T
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// names implements vectorStore.
func (s *SQLite) names(ctx context.Context, namespace string, ids []int64) (map[int64]string, error) {
	var args sqlite.Args
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT c.id, c.name FROM json_each(`+args.AddJSON(ids)+`) j
		CROSS JOIN graph_concepts c ON c.namespace = `+args.Add(namespace)+` AND c.id = j.value`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := map[int64]string{}
	for rows.Next() {
		var id int64
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return nil, err
		}
		out[id] = name
	}
	return out, rows.Err()
}
