package graph

import (
	"context"
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

// NewPostgres returns the graph of a database; q reports pending tasks.
func NewPostgres(pool *pgxpool.Pool, q queue.Store, cfg Config) *Postgres {
	p := &Postgres{Follower: queue.Follow(q, indexName), pool: pool}
	p.searcher = newSearcher(p, p, cfg)
	return p
}

// Index implements queue.Indexer.
func (p *Postgres) Index(ctx context.Context, records []record.Record) error {
	namespaces, documents := documents(records)
	var err error
	for range maxIndexAttempts {
		err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			// Lock all memories before the first namespace: forgetting a memory uses the same order.
			for _, ns := range namespaces {
				var err error
				if documents[ns], err = lockCurrent(ctx, tx, ns, documents[ns]); err != nil {
					return err
				}
			}
			for _, ns := range namespaces {
				if err := putPostgres(ctx, tx, ns, documents[ns]); err != nil {
					return err
				}
			}
			return nil
		})
		if !postgres.IsRetryable(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	return p.embedAll(ctx, namespaces, documents)
}

// lockCurrent locks the documents' memories and returns the documents that are current and not
// sensitive.
func lockCurrent(ctx context.Context, tx pgx.Tx, namespace string, docs []document) ([]document, error) {
	ids := make([]uuid.UUID, len(docs))
	for i, d := range docs {
		ids[i] = d.record.ID
	}
	rows, err := postgres.In(tx, namespace).Query(ctx, `
		SELECT id, revision FROM memory.memories WHERE namespace = $1 AND id = ANY($2) AND NOT sensitive ORDER BY id FOR SHARE`,
		namespace, ids)
	if err != nil {
		return nil, err
	}
	current := map[uuid.UUID]int64{}
	var id uuid.UUID
	var revision int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &revision}, func() error {
		current[id] = revision
		return nil
	}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(docs), func(d document) bool { return current[d.record.ID] != d.record.Revision }), nil
}

// putPostgres replaces the documents of one namespace.
func putPostgres(ctx context.Context, tx pgx.Tx, namespace string, docs []document) error {
	if len(docs) == 0 {
		return nil
	}
	if _, err := postgres.In(tx, namespace).Exec(ctx, "SELECT graph.lock_namespace($1)", namespace); err != nil {
		return err
	}
	concepts := map[int64]Concept{}
	var phrases []phrase
	for _, d := range docs {
		phrases = append(phrases, d.phrases...)
		for _, c := range d.concepts {
			if id := conceptID(c.Key); concepts[id].Key == "" {
				concepts[id] = c
			}
		}
	}
	var ids []int64
	var keys, names, kinds []string
	for id, c := range concepts {
		ids, keys, names, kinds = append(ids, id), append(keys, c.Key), append(names, c.Name), append(kinds, string(c.Kind))
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO graph.concepts (namespace, id, key, name, kind)
		SELECT $1, c.* FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS c
		ON CONFLICT (namespace, id) DO NOTHING`, namespace, ids, keys, names, kinds); err != nil {
		return err
	}
	known, err := knownPostgres(ctx, tx, namespace, conceptIDs(phrases))
	if err != nil {
		return err
	}
	version, err := nextVersionPostgres(ctx, tx, namespace)
	if err != nil {
		return err
	}

	var put struct {
		memories      []uuid.UUID
		digests       []int64
		concepts      []int64
		mentioned     []uuid.UUID
		revisions     []int64
		saliences     []float64
		sources       []int64
		targets       []int64
		evidence      []uuid.UUID
		weights       []float64
		from          []time.Time
		to            []*time.Time
		edgeRelations []string
		until         []*time.Time // of memories
		ends          []int64      // of memories
		linkers       []uuid.UUID
		linked        []int64
		relations     []string
	}
	for _, d := range docs {
		put.digests = append(put.digests, digest(d.record))
		put.memories, put.ends = append(put.memories, d.record.ID), append(put.ends, endKey(d.record.ID))
		for _, l := range authorLinks(d.record) {
			put.linkers, put.linked, put.relations = append(put.linkers, d.record.ID), append(put.linked, l.target), append(put.relations, l.relation)
		}
		mentions := d.mentions(known)
		for _, m := range mentions {
			put.concepts, put.saliences = append(put.concepts, m.concept), append(put.saliences, m.salience)
			put.mentioned, put.revisions = append(put.mentioned, d.record.ID), append(put.revisions, d.record.Revision)
		}
		from, to := validity(d.record)
		put.until = append(put.until, optional(to))
		for _, e := range d.edges(mentions) {
			put.sources, put.targets, put.weights = append(put.sources, e.source), append(put.targets, e.target), append(put.weights, e.weight)
			put.evidence, put.edgeRelations = append(put.evidence, d.record.ID), append(put.edgeRelations, e.relation)
			put.from, put.to = append(put.from, from), append(put.to, optional(to))
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(`
		DELETE FROM graph.concept_edges e USING unnest($2::uuid[], $3::bigint[]) AS m (id, digest)
		WHERE e.namespace = $1 AND e.memory_id = m.id AND e.origin = 'model'
			AND NOT EXISTS (SELECT FROM graph.extractions x WHERE x.namespace = $1 AND x.memory_id = m.id AND x.digest = m.digest)`,
		namespace, put.memories, put.digests)
	batch.Queue(`
		INSERT INTO graph.memory_concepts (namespace, concept_id, memory_id, salience, revision)
		SELECT $1, m.* FROM unnest($2::bigint[], $3::uuid[], $4::float8[], $5::bigint[]) AS m
		ON CONFLICT (namespace, concept_id, memory_id) DO UPDATE SET salience = excluded.salience, revision = excluded.revision`,
		namespace, put.concepts, put.mentioned, put.saliences, put.revisions)
	batch.Queue(`
		DELETE FROM graph.memory_concepts mc WHERE mc.namespace = $1 AND mc.memory_id = ANY($2)
			AND NOT EXISTS (SELECT FROM unnest($3::bigint[], $4::uuid[]) AS k (concept_id, memory_id) WHERE k.concept_id = mc.concept_id AND k.memory_id = mc.memory_id)
			AND NOT EXISTS (SELECT FROM graph.concept_edges e WHERE e.namespace = $1 AND e.memory_id = mc.memory_id AND e.origin <> 'text' AND mc.concept_id IN (e.source_id, e.target_id))`,
		namespace, put.memories, put.concepts, put.mentioned)
	batch.Queue("DELETE FROM graph.concept_edges WHERE namespace = $1 AND memory_id = ANY($2) AND origin = 'text'", namespace, put.memories)
	batch.Queue(`
		INSERT INTO graph.concept_edges (namespace, source_id, target_id, relation, memory_id, weight, valid_from, valid_to)
		SELECT $1, e.* FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::uuid[], $6::float8[], $7::timestamptz[], $8::timestamptz[]) AS e
		ON CONFLICT DO NOTHING`,
		namespace, put.sources, put.targets, put.edgeRelations, put.evidence, put.weights, put.from, put.to)
	batch.Queue(`
		UPDATE graph.concept_edges e SET valid_to = least(e.stated_to, m.until)
		FROM unnest($2::uuid[], $3::timestamptz[]) AS m (id, until)
		WHERE e.namespace = $1 AND e.memory_id = m.id AND e.origin <> 'text'`, namespace, put.memories, put.until)
	batch.Queue(`
		INSERT INTO graph.link_ends (namespace, memory_id, key, version) SELECT $1, e.*, $4 FROM unnest($2::uuid[], $3::bigint[]) AS e
		ON CONFLICT (namespace, memory_id) DO UPDATE SET version = excluded.version`, namespace, put.memories, put.ends, version)
	batch.Queue("DELETE FROM graph.memory_links WHERE namespace = $1 AND source_id = ANY($2)", namespace, put.memories)
	batch.Queue(`
		INSERT INTO graph.memory_links (namespace, source_id, target_key, relation)
		SELECT $1, l.* FROM unnest($2::uuid[], $3::bigint[], $4::text[]) AS l`, namespace, put.linkers, put.linked, put.relations)
	return tx.SendBatch(ctx, batch).Close()
}

// nextVersionPostgres increments the graph's version in a locked namespace.
func nextVersionPostgres(ctx context.Context, tx pgx.Tx, namespace string) (version int64, err error) {
	err = tx.QueryRow(ctx, `
		INSERT INTO graph.versions AS v (namespace, version, removed) VALUES ($1, 1, 0)
		ON CONFLICT (namespace) DO UPDATE SET version = v.version + 1 RETURNING version`, namespace).Scan(&version)
	return version, err
}

// optional is nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// knownPostgres returns the mentions of each known concept, by id.
func knownPostgres(ctx context.Context, tx pgx.Tx, namespace string, ids []int64) (map[int64]int64, error) {
	rows, err := tx.Query(ctx, "SELECT id, mentions FROM graph.concepts WHERE namespace = $1 AND id = ANY($2)", namespace, ids)
	if err != nil {
		return nil, err
	}
	known := map[int64]int64{}
	var id, mentions int64
	_, err = pgx.ForEachRow(rows, []any{&id, &mentions}, func() error {
		known[id] = mentions
		return nil
	})
	return known, err
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
	known, err := knownPostgres(ctx, tx, namespace, conceptIDs(phrases))
	if err != nil {
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
		holds       = holdsPostgres(q, namespace, args)
		depth       = args.Add(q.Depth)
	)
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
					CROSS JOIN LATERAL (
						SELECT e.target_id AS other, e.weight FROM graph.concept_edges e
						WHERE e.namespace = ` + namespace + ` AND e.source_id = f.id AND ` + holds + `
						UNION ALL
						SELECT e.source_id, e.weight FROM graph.concept_edges e
						WHERE e.namespace = ` + namespace + ` AND e.target_id = f.id AND ` + holds + `
					) e
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
		)`, placeholders{namespace, decay, degree, startDegree, holds}
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

// holdsPostgres is the condition that edge e is valid at the query's time and not closed.
func holdsPostgres(q leg.Query, namespace string, args *postgres.Args) string {
	holds := func(alias string) string { return alias + ".valid_to IS NULL" }
	if !q.AsOf.IsZero() {
		at := args.Add(q.AsOf)
		holds = func(alias string) string {
			return alias + ".valid_from <= " + at + " AND (" + alias + ".valid_to IS NULL OR " + alias + ".valid_to > " + at + ")"
		}
	}
	return holds("e") + ` AND NOT (e.single AND EXISTS (
		SELECT FROM graph.concept_edges n
		WHERE n.namespace = ` + namespace + ` AND n.source_id = e.source_id AND n.relation = e.relation AND n.single AND n.target_id <> e.target_id
			AND (n.valid_from, n.memory_id) > (e.valid_from, e.memory_id) AND ` + holds("n") + `))`
}

// currentPostgres is the condition that memory m has no facts or a valid one.
func currentPostgres(q leg.Query, namespace, holds string) string {
	if q.Filter.IncludeSuperseded {
		return "true"
	}
	facts := "SELECT FROM graph.concept_edges e WHERE e.namespace = " + namespace + " AND e.memory_id = m.id AND e.relation <> '" + coMention + "'"
	return "(NOT EXISTS (" + facts + ") OR EXISTS (" + facts + " AND (e.relation = '" + AliasRelation + "' OR " + holds + ")))"
}

// Status implements leg.Searcher.
func (p *Postgres) Status(ctx context.Context, namespace string) (leg.Status, error) {
	var indexed, excluded int64
	if err := postgres.In(p.Or(p.pool), namespace).QueryRow(ctx, `
		SELECT (SELECT count(DISTINCT memory_id) FROM graph.memory_concepts WHERE namespace = $1),
			(SELECT count(*) FROM memory.memories WHERE namespace = $1 AND sensitive)`, namespace).Scan(&indexed, &excluded); err != nil {
		return leg.Status{}, err
	}
	pending, err := queue.NewPostgres(p.Or(p.pool)).Status(ctx, indexName, namespace)
	return status(indexed, excluded, pending), err
}
