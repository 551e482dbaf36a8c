package graph

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqlite"
)

// unembedded implements vectorStore.
func (s *SQLite) unembedded(ctx context.Context, namespace, model string, memories []uuid.UUID) ([]unembedded, error) {
	var args sqlite.Args
	ns, ids, of := args.Add(namespace), args.AddJSON(memories), args.Add(model)
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT DISTINCT c.id, 0, '', c.name
		FROM json_each(`+ids+`) j
		CROSS JOIN graph_memory_concepts m INDEXED BY graph_memory_concepts_by_memory ON m.namespace = `+ns+` AND m.memory_id = unhex(j.value, '-')
		CROSS JOIN graph_concepts c ON c.namespace = m.namespace AND c.id = m.concept_id
		WHERE m.salience > `+args.Add(saliencePhrase)+` AND c.vector_model IS NOT `+of+`
		UNION ALL
		SELECT DISTINCT e.source_id, e.target_id, e.relation, s.name || ' ' || e.relation || ' ' || t.name
		FROM json_each(`+ids+`) j
		CROSS JOIN graph_concept_edges e INDEXED BY graph_concept_edges_by_memory ON e.namespace = `+ns+` AND e.memory_id = unhex(j.value, '-')
		CROSS JOIN graph_concepts s ON s.namespace = e.namespace AND s.id = e.source_id
		CROSS JOIN graph_concepts t ON t.namespace = e.namespace AND t.id = e.target_id
		WHERE e.origin <> 'text' AND e.relation <> `+args.Add(AliasRelation)+` AND e.vector_model IS NOT `+of, args...)
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
		version, err := nextVersionSQLite(ctx, tx, namespace)
		if err != nil {
			return err
		}
		for i, u := range of {
			if u.relation == "" {
				_, err = tx.ExecContext(ctx, "UPDATE graph_concepts SET vector = ?, vector_model = ? WHERE namespace = ? AND id = ?", vectors[i].bytes(), model, namespace, u.concept)
			} else {
				var args sqlite.Args
				_, err = tx.ExecContext(ctx, `UPDATE graph_concept_edges SET vector = `+args.Add(vectors[i].bytes())+`, vector_model = `+args.Add(model)+`
					WHERE namespace = `+args.Add(namespace)+` AND source_id = `+args.Add(u.concept)+` AND target_id = `+args.Add(u.target)+`
						AND relation = `+args.Add(u.relation)+` AND memory_id IN (SELECT unhex(value, '-') FROM json_each(`+args.AddJSON(memories)+`))`, args...)
			}
			if err != nil {
				return err
			}
		}
		var args sqlite.Args
		_, err = tx.ExecContext(ctx, `UPDATE graph_link_ends SET version = `+args.Add(version)+` WHERE namespace = `+args.Add(namespace)+`
			AND memory_id IN (SELECT unhex(value, '-') FROM json_each(`+args.AddJSON(memories)+`))`, args...)
		return err
	})
}

// namespaces implements vectorStore.
func (s *SQLite) namespaces(ctx context.Context) ([]string, error) {
	rows, err := s.db.Read.QueryContext(ctx, "SELECT namespace FROM graph_versions ORDER BY namespace")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var namespace string
		if err := rows.Scan(&namespace); err != nil {
			return nil, err
		}
		out = append(out, namespace)
	}
	return out, rows.Err()
}
