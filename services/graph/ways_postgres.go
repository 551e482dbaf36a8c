package graph

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

// paths repeats the walk and returns the paths to memories.
func (p *Postgres) paths(ctx context.Context, tx pgx.Tx, q leg.Query, starts []start, memories []uuid.UUID) ([][]waypoint, error) {
	var args postgres.Args
	tables, in := p.hopDecay(q, starts, &args)
	found, none, title := args.Add(memories)+"::uuid[]", args.Add(uuid.Nil)+"::uuid", args.Add(salienceTitle)+"::float8"
	rows, err := tx.Query(ctx, "WITH RECURSIVE "+tables+`, stops AS MATERIALIZED (
			SELECT w.hop, f.id, f.weight FROM walk w CROSS JOIN LATERAL unnest(w.ids, w.weights) AS f (id, weight)
		), led AS (
			SELECT l.memory_id, l.key, `+in.decay+`::float8 * l.score / n.degree AS share
			FROM leads l CROSS JOIN LATERAL (SELECT
				(SELECT count(*) FROM (SELECT FROM graph.memory_links WHERE namespace = `+in.namespace+` AND source_id = l.memory_id LIMIT `+in.degree+` + 1) o) +
				(SELECT count(*) FROM (SELECT FROM graph.memory_links WHERE namespace = `+in.namespace+` AND target_key = l.key LIMIT `+in.degree+` + 1) o)
			) n (degree)
			WHERE n.degree BETWEEN 1 AND `+in.degree+`
		)
		SELECT t.id, `+none+`, s.id, `+none+`, e.relation, e.back, sum(s.weight * e.weight / c.mentions)
		FROM stops s
		JOIN graph.concepts c ON c.namespace = `+in.namespace+` AND c.id = s.id
			AND c.mentions <= `+in.degree+`::bigint * CASE s.hop WHEN 0 THEN `+in.startDegree+`::bigint ELSE 1 END
		CROSS JOIN LATERAL (`+in.edges("s.id")+`) e
		JOIN stops t ON t.id = e.other AND t.hop = s.hop + 1
		GROUP BY t.id, s.id, e.relation, e.back
		UNION ALL
		SELECT 0, mc.memory_id, r.id, `+none+`, CASE WHEN mc.salience >= `+title+` THEN '`+viaTitle+`' ELSE '`+viaMention+`' END, false, r.weight * mc.salience
		FROM reached r CROSS JOIN LATERAL (
			SELECT memory_id, salience FROM graph.memory_concepts
			WHERE namespace = `+in.namespace+` AND concept_id = r.id
			ORDER BY memory_id DESC LIMIT r.bound
		) mc
		WHERE mc.memory_id = ANY(`+found+`) OR mc.memory_id IN (SELECT memory_id FROM leads)
		UNION ALL
		SELECT 0, k.memory_id, 0, l.memory_id, k.relation, k.back, l.share
		FROM led l CROSS JOIN LATERAL (
			SELECT e.memory_id, k.relation, false AS back
			FROM graph.memory_links k JOIN graph.link_ends e ON e.namespace = `+in.namespace+` AND e.key = k.target_key
			WHERE k.namespace = `+in.namespace+` AND k.source_id = l.memory_id
			UNION ALL
			SELECT k.source_id, k.relation, true FROM graph.memory_links k WHERE k.namespace = `+in.namespace+` AND k.target_key = l.key
		) k
		WHERE k.memory_id = ANY(`+found+`)`, args...)
	if err != nil {
		return nil, err
	}
	ways, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (way, error) {
		var w way
		err := row.Scan(&w.concept, &w.memory, &w.fromConcept, &w.fromMemory, &w.relation, &w.back, &w.share)
		return w, err
	})
	return routes(ways, memories), err
}
