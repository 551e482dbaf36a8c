package graph

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// maxIndexAttempts bounds the attempts after conflicts between transactions.
const maxIndexAttempts = 5

// Postgres is the graph in PostgreSQL.
type Postgres struct {
	queue.Follower
	*postgres.Standby // to search in; set it before the first search
	searcher
	pool *pgxpool.Pool
}

var (
	_ leg.Searcher   = (*Postgres)(nil)
	_ leg.AsyncIndex = (*Postgres)(nil)
	_ queue.Indexer  = (*Postgres)(nil)
)

// NewPostgres returns the graph of a database. images get its part; q reports pending tasks.
func NewPostgres(pool *pgxpool.Pool, images *replica.Set, q queue.Store, cfg Config) *Postgres {
	p := &Postgres{Follower: queue.Follow(q, indexName), pool: pool}
	p.searcher = newSearcher(p, p, images, readPostgres, cfg)
	return p
}

// Prepare implements memory.Derived.
func (p *Postgres) Prepare(_ context.Context, records []record.Record) (sqldb.Putter, error) {
	put := p.prepare(records)
	return func(ctx context.Context, tx sqldb.Tx, stored map[record.Key]bool) error {
		return put(ctx, &postgresTables{db: tx.Postgres, changes: tx.Postgres.Changes}, stored)
	}, nil
}

// update implements engine.
func (p *Postgres) update(ctx context.Context, fn func(tables) error) (err error) {
	for range maxIndexAttempts {
		err = postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
			return fn(&postgresTables{db: tx, changes: changes})
		})
		if !postgres.IsRetryable(err) {
			break
		}
	}
	return err
}

func (p *Postgres) written() tables    { return &postgresTables{db: p.pool} }
func (p *Postgres) searched() tables   { return &postgresTables{db: p.Or(p.pool)} }
func (p *Postgres) tasks() queue.Store { return queue.NewPostgres(p.Or(p.pool)) }

// lacking implements engine.
func (p *Postgres) lacking(ctx context.Context, namespace, model string) (memories []uuid.UUID, err error) {
	var id uuid.UUID
	b := &batch{namespace: namespace}
	b.query(dialects{postgres: `
		SELECT m.memory_id FROM graph.memory_concepts m JOIN graph.concepts c ON c.namespace = m.namespace AND c.id = m.concept_id
		WHERE m.namespace = $1 AND m.salience >= $3 AND c.vector_model IS DISTINCT FROM $2
		UNION
		SELECT memory_id FROM graph.facts
		WHERE namespace = $1 AND vector_model IS DISTINCT FROM $2 AND origin <> 'text' AND relation <> $4`,
	}, []any{&id}, func() { memories = append(memories, id) }, model, salienceResolved, AliasRelation)
	return memories, p.written().send(ctx, b)
}

// postgresTables are the tables in a transaction, or of a pool.
type postgresTables struct {
	db      postgres.Batcher
	changes postgres.Changes // of the transaction
	entered string           // the namespace that the transaction is about
}

// send implements tables.
func (t *postgresTables) send(ctx context.Context, b *batch) error {
	queued := &pgx.Batch{}
	for _, s := range b.steps {
		if s.postgres == "" {
			continue
		}
		query := queued.Queue(s.postgres, columns(s.args)...)
		if s.read == nil {
			continue
		}
		query.Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, s.targets, func() error {
				s.read()
				return nil
			})
			return err
		})
	}
	b.steps = nil
	if t.changes != nil && t.entered == b.namespace {
		return t.db.SendBatch(ctx, queued).Close()
	}
	t.entered = b.namespace
	return postgres.In(t.db, b.namespace).Send(ctx, queued)
}

// columns puts an array of each column in place of a list.
func columns(args []any) (out []any) {
	for _, arg := range args {
		rows, ok := arg.(list)
		if !ok {
			out = append(out, arg)
			continue
		}
		for i := range rows[0] {
			column := make([]any, len(rows))
			for r, row := range rows {
				if t, ok := row[i].(time.Time); !ok || !t.IsZero() {
					column[r] = row[i]
				}
			}
			out = append(out, column)
		}
	}
	return out
}

// changed implements tables.
func (t *postgresTables) changed(b *batch, memories []uuid.UUID) {
	t.changes.Add(b.namespace, string(replica.Graph), memories...)
}

// mentions implements tables.
func (t *postgresTables) mentions(b *batch, memories []uuid.UUID, fn func(uuid.UUID, mention)) {
	var id uuid.UUID
	var m mention
	b.query(dialects{postgres: "SELECT memory_id, concept_id, salience FROM graph.memory_concepts WHERE namespace = $1 AND memory_id = ANY($2)"},
		[]any{&id, &m.concept, &m.salience}, func() { fn(id, m) }, memories)
}

// put implements tables.
func (t *postgresTables) put(b *batch, entries []entry, links, fresh bool) {
	var put, gone, linked, ends, counts list
	var memories []uuid.UUID
	more := map[int64]int64{} // mentions, by concept
	for _, e := range entries {
		memories, ends = append(memories, e.memory), append(ends, []any{e.memory, endKey(e.memory)})
		had := map[int64]float32{}
		for _, m := range e.had {
			had[m.concept] = float32(m.salience)
		}
		for _, m := range e.now {
			salience, known := had[m.concept]
			if !known {
				more[m.concept]++
			}
			if !known || salience != float32(m.salience) {
				put = append(put, []any{m.concept, e.memory, float32(m.salience)})
			}
			delete(had, m.concept)
		}
		for concept := range had {
			more[concept]--
			gone = append(gone, []any{concept, e.memory})
		}
		for _, l := range e.links {
			linked = append(linked, []any{e.memory, l.Target, l.Relation})
		}
	}
	for _, concept := range slices.Sorted(maps.Keys(more)) {
		counts = append(counts, []any{concept, more[concept]})
	}
	b.exec(dialects{postgres: `
		INSERT INTO graph.memory_concepts (namespace, concept_id, memory_id, salience)
		SELECT n.name, m.* FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::uuid[], $4::real[]) AS m WHERE n.name = $1
		ON CONFLICT (namespace, concept_id, memory_id) DO UPDATE SET salience = excluded.salience`}, put)
	b.exec(dialects{postgres: `
		DELETE FROM graph.memory_concepts m USING unnest($2::bigint[], $3::uuid[]) AS g (concept, memory)
		WHERE m.namespace = $1 AND m.concept_id = g.concept AND m.memory_id = g.memory`}, gone)
	if links && !fresh {
		b.exec(dialects{postgres: "DELETE FROM graph.memory_links WHERE namespace = $1 AND source_id = ANY($2)"}, memories)
	}
	b.exec(dialects{postgres: `
		INSERT INTO graph.memory_links (namespace, source_id, target_key, relation)
		SELECT n.name, l.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[], $4::text[]) AS l WHERE n.name = $1`}, linked)
	b.exec(dialects{postgres: "SELECT graph.count_mentions($1, $2, $3)"}, counts)
	b.exec(dialects{postgres: `
		INSERT INTO graph.link_ends (namespace, memory_id, key) SELECT n.name, e.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[]) AS e WHERE n.name = $1
		ON CONFLICT (namespace, memory_id) DO UPDATE SET key = excluded.key`}, ends)
	t.changed(b, memories)
}

// planning turns off JIT: compilation takes a hundred times as long as the walk.
var planning = map[string]string{"jit": "off"}

// walk implements store.
func (p *Postgres) walk(ctx context.Context, q leg.Query, phrases []phrase) (leg.Result, [][]waypoint, error) {
	result := abstained(reasonNotLinked, triskelev1.Traversal_TRAVERSAL_HOP_DECAY)
	var paths [][]waypoint
	err := postgres.Search(ctx, p.Or(p.pool), q.Namespace, planning, func(tx pgx.Tx) error {
		starts, err := startsPostgres(ctx, tx, q.Namespace, phrases)
		if err != nil || len(starts) == 0 {
			return err
		}
		hits, err := p.hops(ctx, tx, q, starts)
		result = found(hits)
		if err == nil && q.Explain {
			paths, err = p.paths(ctx, tx, q, starts, idsOf(hits))
		}
		return err
	})
	return result, paths, err
}

// startsPostgres picks the query's start concepts.
func startsPostgres(ctx context.Context, tx pgx.Tx, namespace string, phrases []phrase) ([]start, error) {
	rows, err := tx.Query(ctx, "SELECT id, mentions FROM graph.concepts WHERE namespace = $1 AND id = ANY($2)", namespace, conceptIDs(phrases))
	if err != nil {
		return nil, err
	}
	known := map[int64]int64{}
	var id, mentions int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &mentions}, func() error {
		known[id] = mentions
		return nil
	}); err != nil {
		return nil, err
	}
	return link(phrases, known, func() (n int64, err error) {
		err = tx.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM memory.memories WHERE namespace = $1 LIMIT $2) m", namespace, hubCount).Scan(&n)
		return n, err
	})
}

func (p *Postgres) hops(ctx context.Context, tx pgx.Tx, q leg.Query, starts []start) ([]leg.Hit, error) {
	var args postgres.Args
	tables, _ := p.hopDecay(q, starts, &args)
	rows, err := tx.Query(ctx, "WITH RECURSIVE "+tables+" SELECT id, score, importance, created_at FROM hop_decay ORDER BY rank", args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (leg.Hit, error) {
		var h leg.Hit
		err := row.Scan(&h.ID, &h.Score, &h.Importance, &h.CreatedAt)
		h.CreatedAt = h.CreatedAt.UTC()
		return h, err
	})
}

// hopDecay returns the SQL of a hop-decay search. Each recursion is a hop along valid edges. A concept counts at its
// first hop. Memories score by their reached concepts. The best pass part of their scores along authors' links, in
// either direction.
func (p *Postgres) hopDecay(q leg.Query, starts []start, args *postgres.Args) (tables string, in placeholders) {
	ids, weights := make([]int64, len(starts)), make([]float64, len(starts))
	for i, s := range starts {
		ids[i], weights[i] = s.concept, specificity(s.mentions)
	}
	var (
		namespace   = args.Add(q.Namespace)
		startIDs    = args.Add(ids)
		startW      = args.Add(weights)
		hops        = args.Add(p.config.Hops)
		decay       = args.Add(p.config.Decay)
		degree      = args.Add(p.config.MaxDegree)
		startDegree = args.Add(startDegree)
		frontier    = args.Add(p.config.Frontier)
		rounding    = args.Add(float64(precision))
		e           = args.Add(math.E)
		mentions    = args.Add(maxMentions)
		candidates  = args.Add(candidates(q))
		floor       = args.Add(minScore(q))
		leading     = livePostgres(q, record.Filter{}, args)
		live        = livePostgres(q, q.Filter, args)
		depth       = args.Add(q.Depth)
	)
	holds, edges := edgesPostgres(q, namespace, args)
	return `
		walk (hop, ids, weights, seen) AS (
			SELECT 0, ` + startIDs + `::bigint[], ` + startW + `::float8[], ` + startIDs + `::bigint[]
			UNION ALL
			SELECT w.hop + 1, n.ids, n.weights, w.seen || n.ids
			FROM walk w CROSS JOIN LATERAL (
				SELECT array_agg(b.id), array_agg(b.weight) FROM (
					SELECT e.other AS id, ` + decay + `::float8 * sum(f.weight * e.weight / c.mentions) AS weight
					FROM unnest(w.ids, w.weights) AS f (id, weight)
					JOIN graph.concepts c ON c.namespace = ` + namespace + ` AND c.id = f.id
						AND c.mentions <= ` + degree + `::bigint * CASE w.hop WHEN 0 THEN ` + startDegree + `::bigint ELSE 1 END
					CROSS JOIN LATERAL (` + edges("f.id") + `) e
					GROUP BY e.other HAVING e.other <> ALL (w.seen)
					ORDER BY round(` + decay + `::float8 * sum(f.weight * e.weight / c.mentions) * ` + rounding + `::float8) DESC, e.other
					LIMIT ` + frontier + `
				) b
			) n (ids, weights)
			WHERE w.hop < ` + hops + `::integer AND n.ids IS NOT NULL
		), reached AS MATERIALIZED (
			SELECT c.id, f.weight / ln(` + e + `::float8 + c.mentions) AS weight, CASE w.hop WHEN 0 THEN ` + mentions + `::bigint ELSE ` + degree + ` END AS bound
			FROM walk w CROSS JOIN LATERAL unnest(w.ids, w.weights) AS f (id, weight)
			JOIN graph.concepts c ON c.namespace = ` + namespace + ` AND c.id = f.id
		), scored AS MATERIALIZED (
			SELECT mc.memory_id, sum(r.weight * mc.salience) AS score
			FROM reached r CROSS JOIN LATERAL (
				SELECT memory_id, salience FROM graph.memory_concepts
				WHERE namespace = ` + namespace + ` AND concept_id = r.id
				ORDER BY memory_id DESC LIMIT r.bound
			) mc
			GROUP BY mc.memory_id
			ORDER BY round(sum(r.weight * mc.salience) * ` + rounding + `::float8) DESC, mc.memory_id DESC
			LIMIT ` + candidates + `
		), leads AS MATERIALIZED (
			SELECT s.memory_id, s.score, e.key
			FROM (SELECT * FROM scored LIMIT ` + frontier + `) s
			JOIN memory.memories m ON m.namespace = ` + namespace + ` AND m.id = s.memory_id AND ` + leading + `
			JOIN graph.link_ends e ON e.namespace = ` + namespace + ` AND e.memory_id = s.memory_id
		), total AS (
			SELECT memory_id, sum(score) AS score FROM (
				SELECT memory_id, score FROM scored
				UNION ALL
				SELECT unnest(n.others), ` + decay + `::float8 * l.score / n.degree
				FROM leads l CROSS JOIN LATERAL (
					SELECT array_agg(b.other) FILTER (WHERE b.other IS NOT NULL), count(*) FROM (
						(SELECT e.memory_id AS other FROM (
							SELECT target_key FROM graph.memory_links
							WHERE namespace = ` + namespace + ` AND source_id = l.memory_id LIMIT ` + degree + ` + 1
						) o LEFT JOIN graph.link_ends e ON e.namespace = ` + namespace + ` AND e.key = o.target_key)
						UNION ALL
						(SELECT source_id FROM graph.memory_links
						WHERE namespace = ` + namespace + ` AND target_key = l.key LIMIT ` + degree + ` + 1)
					) b
				) n (others, degree)
				WHERE n.degree BETWEEN 1 AND ` + degree + `
			) p GROUP BY memory_id
		), hop_decay AS MATERIALIZED (
			SELECT m.id, s.score, m.importance, m.created_at,
				row_number() OVER (ORDER BY round(s.score * ` + rounding + `::float8) DESC, m.importance DESC, m.created_at DESC, m.id) AS rank
			FROM total s JOIN memory.memories m ON m.namespace = ` + namespace + ` AND m.id = s.memory_id
			WHERE s.score >= ` + floor + `::float8 AND ` + live + ` AND ` + currentPostgres(q, namespace, holds) + `
			ORDER BY rank LIMIT ` + depth + `
		)`, placeholders{namespace, decay, degree, startDegree, edges}
}

// livePostgres is postgres.Live at the query's time.
func livePostgres(q leg.Query, f record.Filter, args *postgres.Args) string {
	f.IncludeSuperseded = q.Filter.IncludeSuperseded
	if q.AsOf.IsZero() {
		return postgres.Live(f, "m", args)
	}
	at := args.Add(q.AsOf)
	where := "coalesce(m.occurred_at, m.created_at) <= " + at + " AND (m.expires_at IS NULL OR m.expires_at > " + at + ")"
	if !f.IncludeSuperseded {
		where += " AND (m.superseded_by IS NULL OR m.updated_at > " + at + ")"
	}
	return where + postgres.Matches(f, "m", args)
}

// edgesPostgres returns the condition that fact e holds at the query's time, and the rows that lead from a concept to others:
// to the other end of each fact that holds, and to the other salient concepts of the same memories, as hopWalk.together
// defines it.
func edgesPostgres(q leg.Query, namespace string, args *postgres.Args) (holds string, edges func(concept string) string) {
	live := func(memory string) string { return memory + ".superseded_by IS NULL" }
	within := func(fact string) string { return fact + ".valid_to IS NULL" }
	if !q.AsOf.IsZero() {
		at := args.Add(q.AsOf)
		live = func(memory string) string {
			return "coalesce(" + memory + ".occurred_at, " + memory + ".created_at) <= " + at + " AND (" + memory + ".superseded_by IS NULL OR " + memory + ".updated_at > " + at + ")"
		}
		within = func(fact string) string {
			return fact + ".valid_from <= " + at + " AND (" + fact + ".valid_to IS NULL OR " + fact + ".valid_to > " + at + ")"
		}
	}
	valid := func(fact string) string {
		return within(fact) + ` AND EXISTS (SELECT FROM memory.memories v WHERE v.namespace = ` + namespace + ` AND v.id = ` + fact + `.memory_id AND ` + live("v") + `)`
	}
	holds = valid("e") + ` AND NOT (e.single AND EXISTS (
		SELECT FROM graph.facts n
		WHERE n.namespace = ` + namespace + ` AND n.source_id = e.source_id AND n.relation = e.relation AND n.single AND n.target_id <> e.target_id
			AND (n.valid_from, n.memory_id) > (e.valid_from, e.memory_id) AND ` + valid("n") + `))`
	salient, paired := args.Add(salienceResolved)+"::float8", args.Add(maxPaired)
	return holds, func(concept string) string {
		return `
			SELECT e.target_id AS other, e.relation, false AS back, 1::float8 AS weight FROM graph.facts e
			WHERE e.namespace = ` + namespace + ` AND e.source_id = ` + concept + ` AND ` + holds + `
			UNION ALL
			SELECT e.source_id, e.relation, true, 1 FROM graph.facts e
			WHERE e.namespace = ` + namespace + ` AND e.target_id = ` + concept + ` AND ` + holds + `
			UNION ALL
			SELECT p.concept_id, '` + coMention + `', false, o.salience::float8 * p.salience / nullif(p.together - 1, 0)
			FROM graph.memory_concepts o
			JOIN memory.memories v ON v.namespace = ` + namespace + ` AND v.id = o.memory_id AND ` + live("v") + `
			CROSS JOIN LATERAL (
				SELECT b.*, count(*) OVER () AS together, bool_or(b.concept_id = ` + concept + `) OVER () AS has FROM (
					SELECT concept_id, salience FROM graph.memory_concepts
					WHERE namespace = ` + namespace + ` AND memory_id = o.memory_id AND salience >= ` + salient + `
					ORDER BY salience DESC, concept_id LIMIT ` + paired + `
				) b
			) p
			WHERE o.namespace = ` + namespace + ` AND o.concept_id = ` + concept + ` AND o.salience >= ` + salient + ` AND p.has AND p.concept_id <> ` + concept + `
				AND NOT EXISTS (SELECT FROM graph.facts x WHERE x.namespace = ` + namespace + ` AND x.memory_id = o.memory_id
					AND (x.source_id = ` + concept + ` AND x.target_id = p.concept_id OR x.target_id = ` + concept + ` AND x.source_id = p.concept_id))`
	}
}

// currentPostgres is the condition that memory m has no facts or a valid one.
func currentPostgres(q leg.Query, namespace, holds string) string {
	if q.Filter.IncludeSuperseded {
		return "true"
	}
	facts := "SELECT FROM graph.facts e WHERE e.namespace = " + namespace + " AND e.memory_id = m.id"
	return "(NOT EXISTS (" + facts + ") OR EXISTS (" + facts + " AND (e.relation = '" + AliasRelation + "' OR " + holds + ")))"
}
