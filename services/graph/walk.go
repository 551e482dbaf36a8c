package graph

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

// walk searches by hop decay in SQL. With q.Explain the result has the path of each hit.
func (l *Leg) walk(ctx context.Context, q leg.Query, phrases []phrase) (leg.Result, error) {
	result := leg.Abstained(triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY, reasonNotLinked)
	err := postgres.Search(ctx, l.Or(l.store.Pool), q.Namespace, nil, func(tx pgx.Tx) error {
		starts, err := startsInSQL(ctx, tx, q.Namespace, phrases)
		if err != nil || len(starts) == 0 {
			return err
		}
		result = leg.Result{ScoreKind: triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY}
		statement, args := bind(q, starts, nil, "WITH RECURSIVE"+hopTables+" SELECT id, score, importance, created_at FROM hop_decay ORDER BY rank")
		if result.Hits, err = leg.HitsInSQL(ctx, tx, statement, args); err == nil && q.Explain {
			result.Paths, err = pathsInSQL(ctx, tx, q, starts, result.Hits)
		}
		return err
	})
	return result, err
}

// startsInSQL picks the query's start concepts. It counts the memories for a possible hub only.
func startsInSQL(ctx context.Context, tx pgx.Tx, namespace string, phrases []phrase) ([]start, error) {
	rows, _ := tx.Query(ctx, `
		SELECT id, mentions, CASE WHEN mentions > $3 THEN (SELECT count(*) FROM (SELECT FROM memory.memories WHERE namespace = $1 LIMIT $4) m) ELSE 0 END
		FROM graph.concepts WHERE namespace = $1 AND id = ANY($2)`, namespace, conceptIDs(phrases), hubFloor, hubCount) // the rows have its error
	known := map[int64]int64{}
	var id, mentions, counted, memories int64
	_, err := pgx.ForEachRow(rows, []any{&id, &mentions, &counted}, func() error {
		known[id], memories = mentions, max(memories, counted)
		return nil
	})
	return link(phrases, known, memories), err
}

// pathsInSQL repeats the walk and returns the paths to hits.
func pathsInSQL(ctx context.Context, tx pgx.Tx, q leg.Query, starts []start, hits []leg.Hit) ([][]leg.Step, error) {
	found := slice.Map(hits, func(h leg.Hit) uuid.UUID { return h.ID })
	statement, args := bind(q, starts, found, "WITH RECURSIVE"+hopTables+hopWays)
	rows, _ := tx.Query(ctx, statement, args) // the rows have its error
	ways := map[way]float64{}
	var w way
	var share float64
	_, err := pgx.ForEachRow(rows, []any{&w.concept, &w.memory, &w.fromConcept, &w.key, &w.fromMemory, &w.relation, &w.back, &share}, func() error {
		ways[w] = share
		return nil
	})
	return routes(ways, hits), err
}

// bind returns the arguments of a search, and a statement with the conditions of its filter in place of @filter.
func bind(q leg.Query, starts []start, found []uuid.UUID, statement string) (string, pgx.NamedArgs) {
	ids, weights := make([]int64, len(starts)), make([]float64, len(starts))
	for i, s := range starts {
		ids[i], weights[i] = s.concept, specificity(s.mentions)
	}
	moment := pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true} // now
	if !q.AsOf.IsZero() {
		moment = pgtype.Timestamptz{Time: q.AsOf, Valid: true}
	}
	args := pgx.NamedArgs{
		"namespace": q.Namespace, "starts": ids, "weights": weights, "hops": maxHops, "decay": hopDecay, "degree": maxDegree, "most_of_start": startDegree,
		"frontier": maxFrontier, "rounding": float64(precision), "euler": math.E, "mentions": maxMentions, "candidates": candidates(q), "floor": q.Least(),
		"depth": q.Depth, "salient": salienceResolved, "paired": maxPaired, "moment": moment, "superseded": q.Filter.IncludeSuperseded, "none": uuid.Nil,
		"found": found, "title": salienceTitle,
	}
	var filter postgres.Args
	conditions := strings.ReplaceAll(postgres.Matches(q.Filter, "m", &filter), "$", "@filter")
	for i, value := range filter {
		args[fmt.Sprint("filter", i+1)] = value
	}
	return strings.ReplaceAll(statement, "@filter", conditions), args
}

// hopTables are the tables of a search by hop decay, as hopWalk does it. Each recursion is a hop along valid edges. A concept counts
// at its first hop.
var hopTables = `
	walk (hop, ids, weights, seen) AS (
		SELECT 0, @starts::bigint[], @weights::float8[], @starts::bigint[]
		UNION ALL
		SELECT w.hop + 1, n.ids, n.weights, w.seen || n.ids
		FROM walk w CROSS JOIN LATERAL (
			SELECT array_agg(b.id), array_agg(b.weight) FROM (
				SELECT e.other AS id, @decay::float8 * sum(f.weight * e.weight / c.mentions) AS weight
				FROM unnest(w.ids, w.weights) AS f (id, weight)
				JOIN graph.concepts c ON c.namespace = @namespace AND c.id = f.id
					AND c.mentions <= @degree::bigint * CASE w.hop WHEN 0 THEN @most_of_start::bigint ELSE 1 END
				CROSS JOIN LATERAL (` + hopEdges + `) e
				GROUP BY e.other HAVING e.other <> ALL (w.seen)
				ORDER BY round(@decay::float8 * sum(f.weight * e.weight / c.mentions) * @rounding::float8) DESC, e.other
				LIMIT @frontier
			) b
		) n (ids, weights)
		WHERE w.hop < @hops::integer AND n.ids IS NOT NULL
	), reached AS MATERIALIZED (
		SELECT w.hop, c.id, c.key, c.mentions, f.weight FROM walk w CROSS JOIN LATERAL unnest(w.ids, w.weights) AS f (id, weight)
		JOIN graph.concepts c ON c.namespace = @namespace AND c.id = f.id
	), marked AS (
		SELECT m.memory_id, m.salience, r.id, r.key, r.weight / ln(@euler::float8 + r.mentions) * m.salience AS share
		FROM reached r CROSS JOIN LATERAL (
			SELECT memory_id, salience FROM graph.memory_concepts
			WHERE namespace = @namespace AND concept_id = r.id
			ORDER BY memory_id DESC LIMIT CASE r.hop WHEN 0 THEN @mentions::bigint ELSE @degree END
		) m
	), scored AS MATERIALIZED (
		SELECT memory_id, sum(share) AS score FROM marked GROUP BY memory_id
		ORDER BY round(sum(share) * @rounding::float8) DESC, memory_id DESC LIMIT @candidates
	), leads AS MATERIALIZED (
		SELECT s.memory_id, s.score, e.key
		FROM (SELECT * FROM scored LIMIT @frontier) s
		JOIN memory.memories m ON m.namespace = @namespace AND m.id = s.memory_id AND ` + hopLive + `
		JOIN graph.link_ends e ON e.namespace = @namespace AND e.memory_id = s.memory_id
	), lent AS (
		SELECT n.memory_id, l.memory_id AS lender, n.relation, n.back, @decay::float8 * l.score / n.degree AS share
		FROM leads l CROSS JOIN LATERAL (
			SELECT b.*, count(*) OVER () AS degree FROM (
				(SELECT e.memory_id, o.relation, false AS back FROM (
					SELECT target_key, relation FROM graph.memory_links
					WHERE namespace = @namespace AND source_id = l.memory_id LIMIT @degree + 1
				) o LEFT JOIN graph.link_ends e ON e.namespace = @namespace AND e.key = o.target_key)
				UNION ALL
				(SELECT source_id, relation, true FROM graph.memory_links
				WHERE namespace = @namespace AND target_key = l.key LIMIT @degree + 1)
			) b
		) n
		WHERE n.memory_id IS NOT NULL AND n.degree <= @degree
	), total AS (
		SELECT memory_id, sum(score) AS score FROM (
			SELECT memory_id, score FROM scored UNION ALL SELECT memory_id, share FROM lent
		) p GROUP BY memory_id
	), hop_decay AS MATERIALIZED (
		SELECT m.id, s.score, m.importance, m.created_at,
			row_number() OVER (ORDER BY round(s.score * @rounding::float8) DESC, m.importance DESC, m.created_at DESC, m.id) AS rank
		FROM total s JOIN memory.memories m ON m.namespace = @namespace AND m.id = s.memory_id
		WHERE s.score >= @floor::float8 AND ` + hopLive + ` @filter AND ` + hopCurrent + `
		ORDER BY rank LIMIT @depth
	)`

// hopEdges are the rows that lead from concept f.id to others, as hopWalk.next and hopWalk.together define them.
var hopEdges = `
SELECT e.target_id AS other, e.relation, false AS back, 1::float8 AS weight FROM graph.facts e
WHERE e.namespace = @namespace AND e.source_id = f.id AND ` + hopHolds + `
UNION ALL
SELECT e.source_id, e.relation, true, 1 FROM graph.facts e
WHERE e.namespace = @namespace AND e.target_id = f.id AND ` + hopHolds + `
UNION ALL
SELECT p.concept_id, '` + coMention + `', false, o.salience::float8 * p.salience / nullif(p.together - 1, 0)
FROM graph.memory_concepts o
JOIN memory.memories v ON v.namespace = @namespace AND v.id = o.memory_id AND ` + hopAlive + `
CROSS JOIN LATERAL (
	SELECT b.*, count(*) OVER () AS together, bool_or(b.concept_id = f.id) OVER () AS has FROM (
		SELECT concept_id, salience FROM graph.memory_concepts
		WHERE namespace = @namespace AND memory_id = o.memory_id AND salience >= @salient::float8
		ORDER BY salience DESC, concept_id LIMIT @paired
	) b
) p
WHERE o.namespace = @namespace AND o.concept_id = f.id AND o.salience >= @salient::float8 AND p.has AND p.concept_id <> f.id
	AND NOT EXISTS (SELECT FROM graph.facts x WHERE x.namespace = @namespace AND x.memory_id = o.memory_id
		AND (x.source_id = f.id AND x.target_id = p.concept_id OR x.target_id = f.id AND x.source_id = p.concept_id))`

// hopEnds is the moment by which ends are judged: what is infinity for others is now.
const hopEnds = "coalesce(nullif(@moment::timestamptz, 'infinity'), now())"

// Conditions at a moment, which is infinity for now: that memory v is alive; that memory m is, or is wanted although it was superseded, and
// has not expired; that fact e holds, which no newer one has closed; and that memory m has no facts or a valid one.
var (
	hopAlive = "coalesce(v.occurred_at, v.created_at) <= @moment AND (v.superseded_by IS NULL OR " + hopReplaced("v") + " > @moment)"
	hopLive  = `coalesce(m.occurred_at, m.created_at) <= @moment AND (@superseded::boolean OR m.superseded_by IS NULL OR ` + hopReplaced("m") + ` > @moment)
		AND (m.expires_at IS NULL OR m.expires_at > ` + hopEnds + `)`
	hopHolds = hopValid("e") + ` AND NOT (e.single AND EXISTS (
		SELECT FROM graph.facts n
		WHERE n.namespace = @namespace AND n.source_id = e.source_id AND n.relation = e.relation AND n.single AND n.target_id <> e.target_id
			AND (n.valid_from, n.memory_id) > (e.valid_from, e.memory_id) AND ` + hopValid("n") + `))`
	hopFacts   = "SELECT FROM graph.facts e WHERE e.namespace = @namespace AND e.memory_id = m.id"
	hopCurrent = "(@superseded::boolean OR NOT EXISTS (" + hopFacts + ") OR EXISTS (" + hopFacts + " AND (e.relation = '" + AliasRelation + "' OR " + hopHolds + ")))"
)

// hopReplaced is when a superseded memory was: see package replica.
func hopReplaced(memory string) string {
	return strings.ReplaceAll(`least(old.updated_at, (SELECT s.created_at FROM memory.memories s WHERE s.namespace = @namespace AND s.id = old.superseded_by))`,
		"old.", memory+".")
}

// hopValid is the condition that the moment is within a fact's span, and its evidence is alive and has not expired.
func hopValid(fact string) string {
	return strings.ReplaceAll(`fact.valid_from <= @moment AND (fact.valid_to IS NULL OR fact.valid_to > `+hopEnds+`)
		AND EXISTS (SELECT FROM memory.memories v WHERE v.namespace = @namespace AND v.id = fact.memory_id AND `+hopAlive+`
			AND (v.expires_at IS NULL OR v.expires_at > `+hopEnds+`))`, "fact.", fact+".")
}

// hopWays are the steps that lead to the memories found.
var hopWays = `
	SELECT t.id, @none::uuid, f.id, f.key, @none::uuid, e.relation, e.back, sum(f.weight * e.weight / f.mentions)
	FROM reached f CROSS JOIN LATERAL (` + hopEdges + `) e JOIN reached t ON t.id = e.other AND t.hop = f.hop + 1
	WHERE f.mentions <= @degree::bigint * CASE f.hop WHEN 0 THEN @most_of_start::bigint ELSE 1 END
	GROUP BY t.id, f.id, f.key, e.relation, e.back
	UNION ALL
	SELECT 0, memory_id, id, key, @none::uuid, CASE WHEN salience >= @title::float8 THEN '` + viaTitle + `' ELSE '` + viaMention + `' END, false, share
	FROM marked WHERE memory_id = ANY(@found::uuid[]) OR memory_id IN (SELECT memory_id FROM leads)
	UNION ALL
	SELECT 0, memory_id, 0, '', lender, relation, back, share FROM lent WHERE memory_id = ANY(@found::uuid[])`
