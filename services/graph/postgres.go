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

// Index implements queue.Indexer.
func (p *Postgres) Index(ctx context.Context, records []record.Record) error {
	namespaces, documents := documents(records)
	var err error
	for range maxIndexAttempts {
		err = postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
			// Lock all memories before the first namespace: forgetting a memory uses the same order.
			for _, ns := range namespaces {
				var err error
				if documents[ns], err = lockCurrent(ctx, tx, ns, documents[ns]); err != nil {
					return err
				}
			}
			for _, ns := range namespaces {
				if _, err := putPostgres(ctx, tx, changes, ns, documents[ns], false); err != nil {
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

// Prepare implements memory.Derived.
func (p *Postgres) Prepare(_ context.Context, records []record.Record) (func(context.Context, postgres.WriteTx, map[record.Key]bool) error, error) {
	prepared := prepare(records)
	return func(ctx context.Context, tx postgres.WriteTx, stored map[record.Key]bool) error {
		return prepared.each(stored, func(namespace string, docs []document) error {
			concepts, err := putPostgres(ctx, tx.Tx, tx.Changes, namespace, docs, true)
			if err != nil {
				return err
			}
			return p.embedNew(ctx, postgresVectors{tx}, namespace, documentIDs(docs), concepts)
		})
	}, nil
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

// putPostgres replaces the documents of one namespace. New ones replace none. It returns the concepts that they mention saliently.
func putPostgres(ctx context.Context, tx pgx.Tx, changes postgres.Changes, namespace string, docs []document, fresh bool) (concepts []int64, err error) {
	if len(docs) == 0 {
		return nil, nil
	}
	known, ends, counts, err := preparePostgres(ctx, tx, namespace, docs, fresh)
	if err != nil {
		return nil, err
	}
	var put struct {
		memories    []uuid.UUID
		keys        []int64 // of memories
		concepts    []int64
		mentioned   []uuid.UUID
		saliences   []float32
		aliases, of []int64
		evidence    []uuid.UUID
		from        []time.Time
		linkers     []uuid.UUID
		linked      []int64
		relations   []string
	}
	mentions := mentionsIn(docs, known, ends)
	for i, d := range docs {
		id := d.record.ID
		put.memories, put.keys = append(put.memories, id), append(put.keys, endKey(id))
		for _, m := range mentions[i] {
			put.concepts, put.saliences, put.mentioned = append(put.concepts, m.concept), append(put.saliences, float32(m.salience)), append(put.mentioned, id)
			counts.put(id, m.concept)
		}
		for _, a := range d.aliases() {
			put.aliases, put.of = append(put.aliases, a.alias), append(put.of, a.of)
			put.evidence, put.from = append(put.evidence, id), append(put.from, since(d.record))
		}
		for _, l := range authorLinks(d.record) {
			put.linkers, put.linked, put.relations = append(put.linkers, id), append(put.linked, l.Target), append(put.relations, l.Relation)
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(`
		INSERT INTO graph.memory_concepts AS c (namespace, concept_id, memory_id, salience)
		SELECT n.name, m.* FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::uuid[], $4::real[]) AS m WHERE n.name = $1
		ON CONFLICT (namespace, concept_id, memory_id) DO UPDATE SET salience = excluded.salience WHERE c.salience <> excluded.salience`,
		namespace, put.concepts, put.mentioned, put.saliences)
	if !fresh {
		batch.Queue(`
		DELETE FROM graph.memory_concepts mc WHERE mc.namespace = $1 AND mc.memory_id = ANY($2)
			AND NOT EXISTS (SELECT FROM unnest($3::bigint[], $4::uuid[]) AS k (concept_id, memory_id) WHERE k.concept_id = mc.concept_id AND k.memory_id = mc.memory_id)`,
			namespace, put.memories, put.concepts, put.mentioned)
		batch.Queue("DELETE FROM graph.memory_links WHERE namespace = $1 AND source_id = ANY($2)", namespace, put.memories)
	}
	if len(put.aliases) > 0 {
		batch.Queue(`
			INSERT INTO graph.facts (namespace, source_id, target_id, relation, memory_id, valid_from)
			SELECT n.name, a.source, a.target, '`+AliasRelation+`', a.memory, a.since
			FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::bigint[], $4::uuid[], $5::timestamptz[]) AS a (source, target, memory, since)
			WHERE n.name = $1
			ON CONFLICT DO NOTHING`, namespace, put.aliases, put.of, put.evidence, put.from)
	}
	if len(put.linkers) > 0 {
		batch.Queue(`
			INSERT INTO graph.memory_links (namespace, source_id, target_key, relation)
			SELECT n.name, l.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[], $4::text[]) AS l WHERE n.name = $1`, namespace, put.linkers, put.linked, put.relations)
	}
	counts.dropOthers()
	counts.queue(batch, namespace)
	batch.Queue(touchPostgres, namespace, put.memories, put.keys)
	changes.Add(namespace, string(replica.Graph), put.memories...)
	return salient(mentions), tx.SendBatch(ctx, batch).Close()
}

// mentionCounts finds out how many more mentions each concept has after a transaction, which holds the namespace's lock.
type mentionCounts struct {
	had  map[mentioned]bool // whether the mention was not put again so far
	more map[int64]int64    // by concept
}

type mentioned struct {
	concept int64
	memory  uuid.UUID
}

// mentionsOf returns a query for the mentions that memories have now, and what counts from there.
func mentionsOf(batch *pgx.Batch, namespace string, memories []uuid.UUID) *mentionCounts {
	c := &mentionCounts{map[mentioned]bool{}, map[int64]int64{}}
	batch.Queue("SELECT concept_id, memory_id FROM graph.memory_concepts WHERE namespace = $1 AND memory_id = ANY($2)", namespace, memories).Query(func(rows pgx.Rows) error {
		var at mentioned
		_, err := pgx.ForEachRow(rows, []any{&at.concept, &at.memory}, func() error {
			c.had[at] = true
			return nil
		})
		return err
	})
	return c
}

// put counts a mention that the memory has now.
func (c *mentionCounts) put(memory uuid.UUID, concept int64) {
	at := mentioned{concept, memory}
	if _, had := c.had[at]; !had {
		c.more[concept]++
	}
	c.had[at] = false
}

// dropOthers counts the mentions that were not put again as gone.
func (c *mentionCounts) dropOthers() {
	for at, gone := range c.had {
		if gone {
			c.more[at.concept]--
		}
	}
}

// queue queues the statement that changes the counts.
func (c *mentionCounts) queue(batch *pgx.Batch, namespace string) {
	ids := slices.Sorted(maps.Keys(c.more))
	more := make([]int64, len(ids))
	for i, id := range ids {
		more[i] = c.more[id]
	}
	batch.Queue("SELECT graph.count_mentions($1, $2, $3)", namespace, ids, more)
}

// touchPostgres adds memories to the graph.
const touchPostgres = `
	INSERT INTO graph.link_ends (namespace, memory_id, key) SELECT n.name, e.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[]) AS e WHERE n.name = $1
	ON CONFLICT (namespace, memory_id) DO UPDATE SET key = excluded.key`

// preparePostgres locks the namespace's graph, removes the facts that documents no longer state, and adds their concepts. It
// returns the concepts that the texts may name and that were there before, the ends of the memories' remaining facts, and the
// mentions to count from.
func preparePostgres(ctx context.Context, tx pgx.Tx, namespace string, docs []document, fresh bool) (known map[int64]bool, ends map[uuid.UUID][]int64, counts *mentionCounts, err error) {
	concepts := map[int64]Concept{}
	var phrases []phrase
	var memories []uuid.UUID
	var digests []int64
	for _, d := range docs {
		memories, digests = append(memories, d.record.ID), append(digests, digest(d.record))
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
	batch := &pgx.Batch{}
	postgres.SetNamespace(batch, namespace)
	batch.Queue("SELECT graph.lock_namespace($1)", namespace)
	if !fresh {
		batch.Queue(`
		DELETE FROM graph.facts f USING unnest($2::uuid[], $3::bigint[]) AS m (id, digest)
		WHERE f.namespace = $1 AND f.memory_id = m.id AND (f.origin = 'text' OR f.origin = 'model'
			AND NOT EXISTS (SELECT FROM graph.extractions x WHERE x.namespace = $1 AND x.memory_id = m.id AND x.digest = m.digest))`,
			namespace, memories, digests)
	}
	if known, err = knownPostgres(ctx, tx, batch, namespace, phrases); err != nil {
		return nil, nil, nil, err
	}
	batch = &pgx.Batch{}
	batch.Queue(`
		INSERT INTO graph.concepts (namespace, id, key, name, kind)
		SELECT n.name, c.* FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS c WHERE n.name = $1
		ON CONFLICT (namespace, id) DO NOTHING`, namespace, ids, keys, names, kinds)
	ends = map[uuid.UUID][]int64{}
	if fresh {
		return known, ends, &mentionCounts{map[mentioned]bool{}, map[int64]int64{}}, tx.SendBatch(ctx, batch).Close()
	}
	batch.Queue("SELECT memory_id, source_id, target_id FROM graph.facts WHERE namespace = $1 AND memory_id = ANY($2)", namespace, memories).
		Query(func(rows pgx.Rows) error {
			var memory uuid.UUID
			var source, target int64
			_, err := pgx.ForEachRow(rows, []any{&memory, &source, &target}, func() error {
				ends[memory] = append(ends[memory], source, target)
				return nil
			})
			return err
		})
	counts = mentionsOf(batch, namespace, memories)
	return known, ends, counts, tx.SendBatch(ctx, batch).Close()
}

// knownPostgres returns which phrases are known concepts, after the statements of a batch. If the namespace has fewer concepts than there
// are phrases, it returns them all: that is faster than to look up each.
func knownPostgres(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, namespace string, phrases []phrase) (map[int64]bool, error) {
	known, ids := map[int64]bool{}, conceptIDs(phrases)
	collect := func(rows pgx.Rows) error {
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			known[id] = true
			return nil
		})
		return err
	}
	batch.Queue(`SELECT id FROM graph.concepts WHERE namespace = $1
		AND NOT EXISTS (SELECT FROM graph.concepts WHERE namespace = $1 LIMIT 1 OFFSET $2)`, namespace, len(ids)).Query(collect)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil || len(known) > 0 {
		return known, err
	}
	rows, err := tx.Query(ctx, "SELECT id FROM graph.concepts WHERE namespace = $1 AND id = ANY($2)", namespace, ids)
	if err != nil {
		return nil, err
	}
	return known, collect(rows)
}

// optional is nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
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

// Status implements leg.Searcher.
func (p *Postgres) Status(ctx context.Context, namespace string) (leg.Status, error) {
	var indexed, excluded int64
	if err := postgres.In(p.Or(p.pool), namespace).QueryRow(ctx, `
		SELECT (SELECT count(*) FROM graph.link_ends WHERE namespace = $1),
			(SELECT count(*) FROM memory.memories WHERE namespace = $1 AND sensitive)`, namespace).Scan(&indexed, &excluded); err != nil {
		return leg.Status{}, err
	}
	pending, err := queue.NewPostgres(p.Or(p.pool)).Status(ctx, indexName, namespace)
	return status(indexed, excluded, pending), err
}
