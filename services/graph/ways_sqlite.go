package graph

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/sqlite"
)

// paths is Postgres.paths.
func (s *SQLite) paths(ctx context.Context, tx *sql.Tx, q leg.Query, starts []start, memories []uuid.UUID) ([][]waypoint, error) {
	var args sqlite.Args
	tables, in, err := s.hopDecay(q, starts, &args)
	if err != nil {
		return nil, err
	}
	edges := func(from, to, back string) string {
		return `
			SELECT s.id, s.hop, e.` + to + `_id AS other, e.relation, ` + back + ` AS back, s.weight * e.weight / c.mentions AS share
			FROM stops s
			CROSS JOIN graph_concepts c ON c.namespace = ` + in.namespace + ` AND c.id = s.id
				AND c.mentions <= ` + in.degree + ` * CASE s.hop WHEN 0 THEN ` + in.startDegree + ` ELSE 1 END
			CROSS JOIN graph_concept_edges e INDEXED BY graph_concept_edges_by_` + from + ` ON e.namespace = ` + in.namespace + ` AND e.` + from + `_id = c.id AND ` + in.holds
	}
	rows, err := tx.QueryContext(ctx, "WITH RECURSIVE "+tables+`, stops AS MATERIALIZED (
			SELECT w.hop, CAST(f.key AS INTEGER) AS id, f.value AS weight FROM walk w CROSS JOIN json_each(w.frontier) f
		), found AS MATERIALIZED (
			SELECT unhex(value, '-') AS id FROM json_each(`+args.AddJSON(memories)+`)
		)
		SELECT t.id, NULL, e.id, NULL, e.relation, e.back, sum(e.share)
		FROM (`+edges("source", "target", "false")+" UNION ALL"+edges("target", "source", "true")+`) e
		JOIN stops t ON t.id = e.other AND t.hop = e.hop + 1
		GROUP BY t.id, e.id, e.relation, e.back
		UNION ALL
		SELECT 0, mc.memory_id, r.id, NULL, CASE WHEN mc.salience >= `+args.Add(salienceTitle)+` THEN '`+viaTitle+`' ELSE '`+viaMention+`' END, false, r.weight * mc.salience
		FROM reached r
		CROSS JOIN graph_memory_concepts mc ON mc.namespace = `+in.namespace+` AND mc.concept_id = r.id AND mc.memory_id >= r.oldest
		WHERE mc.memory_id IN (SELECT id FROM found UNION SELECT memory_id FROM leads)
		UNION ALL
		SELECT 0, e.memory_id, 0, l.memory_id, k.relation, false, `+in.decay+` * l.score / l.degree
		FROM spread l
		CROSS JOIN graph_memory_links k ON k.namespace = `+in.namespace+` AND k.source_id = l.memory_id
		CROSS JOIN graph_link_ends e ON e.namespace = `+in.namespace+` AND e.key = k.target_key
		WHERE l.degree <= `+in.degree+` AND e.memory_id IN (SELECT id FROM found)
		UNION ALL
		SELECT 0, k.source_id, 0, l.memory_id, k.relation, true, `+in.decay+` * l.score / l.degree
		FROM spread l
		CROSS JOIN graph_memory_links k ON k.namespace = `+in.namespace+` AND k.target_key = l.key
		WHERE l.degree <= `+in.degree+` AND k.source_id IN (SELECT id FROM found)`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var ways []way
	for rows.Next() {
		var w way
		if err := rows.Scan(&w.concept, &w.memory, &w.fromConcept, &w.fromMemory, &w.relation, &w.back, &w.share); err != nil {
			return nil, err
		}
		ways = append(ways, w)
	}
	return routes(ways, memories), rows.Err()
}
