package graph

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLite is the graph in a SQLite file.
type SQLite struct {
	queue.Follower
	searcher
	db    *sqlite.DB
	queue queue.Store
}

var (
	_ leg.Searcher   = (*SQLite)(nil)
	_ leg.AsyncIndex = (*SQLite)(nil)
	_ queue.Indexer  = (*SQLite)(nil)
)

// NewSQLite returns the graph in a database; the queue is asked for what is pending.
func NewSQLite(db *sqlite.DB, q queue.Store, cfg Config) *SQLite {
	s := &SQLite{Follower: queue.Follow(q, indexName), db: db, queue: q}
	s.searcher = newSearcher(s, cfg)
	return s
}

// Index implements queue.Indexer.
func (s *SQLite) Index(ctx context.Context, records []record.Record) error {
	namespaces, documents := documents(records)
	if err := s.db.Update(ctx, func(tx *sql.Tx) error {
		for _, ns := range namespaces {
			if err := putSQLite(ctx, tx, ns, documents[ns]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return s.embedAll(ctx, namespaces, documents)
}

// putSQLite replaces what the graph knows from the documents, all of one namespace, leaving out those whose memory has
// changed since or is sensitive.
func putSQLite(ctx context.Context, tx *sql.Tx, namespace string, docs []document) error {
	var current []document
	var phrases []phrase
	concepts := [][4]any{} // id, key, name, kind
	for _, d := range docs {
		var fresh bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM memories WHERE namespace = ? AND id = ? AND revision = ? AND NOT sensitive)",
			namespace, d.record.ID[:], d.record.Revision).Scan(&fresh); err != nil {
			return err
		}
		if !fresh {
			continue
		}
		current, phrases = append(current, d), append(phrases, d.phrases...)
		for _, c := range d.concepts {
			concepts = append(concepts, [4]any{conceptID(c.Key), c.Key, c.Name, c.Kind})
		}
	}
	var args sqlite.Args
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO graph_concepts (namespace, id, key, name, kind)
		SELECT `+args.Add(namespace)+`, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(`+args.AddJSON(concepts)+`) WHERE true
		ON CONFLICT (namespace, id) DO NOTHING`, args...); err != nil {
		return err
	}
	known, err := knownSQLite(ctx, tx, namespace, conceptIDs(phrases))
	if err != nil || len(current) == 0 {
		return err
	}
	version, err := nextVersionSQLite(ctx, tx, namespace)
	if err != nil {
		return err
	}
	for _, d := range current {
		if err := putDocument(ctx, tx, d, d.mentions(known), version); err != nil {
			return err
		}
	}
	return nil
}

// nextVersionSQLite counts a change of a namespace's graph.
func nextVersionSQLite(ctx context.Context, tx *sql.Tx, namespace string) (version int64, err error) {
	err = tx.QueryRowContext(ctx, `
		INSERT INTO graph_versions (namespace, version, removed) VALUES (?, 1, 0)
		ON CONFLICT (namespace) DO UPDATE SET version = version + 1 RETURNING version`, namespace).Scan(&version)
	return version, err
}

func putDocument(ctx context.Context, tx *sql.Tx, d document, mentions []mention, version int64) error {
	mentioned := make([][2]any, len(mentions)) // concept, salience
	for i, m := range mentions {
		mentioned[i] = [2]any{m.concept, m.salience}
	}
	linked := [][4]any{} // source, target, weight, relation
	for _, e := range d.edges(mentions) {
		linked = append(linked, [4]any{e.source, e.target, e.weight, e.relation})
	}
	authored := [][2]any{} // target, relation
	for _, l := range authorLinks(d.record) {
		authored = append(authored, [2]any{l.target, l.relation})
	}
	from, to := validity(d.record)
	var args sqlite.Args
	var (
		namespace = args.Add(d.record.Namespace)
		memory    = args.Add(d.record.ID[:])
		revision  = args.Add(d.record.Revision)
		concepts  = args.AddJSON(mentioned)
		pairs     = args.AddJSON(linked)
		validFrom = args.Add(sqlite.Micros(from))
		validTo   = args.Add(sqlite.Micros(to))
		end       = args.Add(endKey(d.record.ID))
		change    = args.Add(version)
		links     = args.AddJSON(authored)
		read      = args.Add(digest(d.record))
	)
	for _, statement := range []string{
		`DELETE FROM graph_concept_edges INDEXED BY graph_concept_edges_by_memory WHERE namespace = ` + namespace + ` AND memory_id = ` + memory + ` AND origin = 'model'
			AND NOT EXISTS (SELECT 1 FROM graph_extractions x WHERE x.namespace = ` + namespace + ` AND x.memory_id = ` + memory + ` AND x.digest = ` + read + `)`,
		`INSERT INTO graph_memory_concepts (namespace, concept_id, memory_id, salience, revision)
			SELECT ` + namespace + `, value ->> 0, ` + memory + `, value ->> 1, ` + revision + ` FROM json_each(` + concepts + `) WHERE true
			ON CONFLICT (namespace, concept_id, memory_id) DO UPDATE SET salience = excluded.salience, revision = excluded.revision`,
		`DELETE FROM graph_memory_concepts INDEXED BY graph_memory_concepts_by_memory WHERE namespace = ` + namespace + ` AND memory_id = ` + memory + `
			AND concept_id NOT IN (SELECT value ->> 0 FROM json_each(` + concepts + `))
			AND NOT EXISTS (SELECT 1 FROM graph_concept_edges e INDEXED BY graph_concept_edges_by_memory WHERE e.namespace = ` + namespace + `
				AND e.memory_id = ` + memory + ` AND e.origin <> 'text' AND concept_id IN (e.source_id, e.target_id))`,
		`DELETE FROM graph_concept_edges INDEXED BY graph_concept_edges_by_memory WHERE namespace = ` + namespace + ` AND memory_id = ` + memory + ` AND origin = 'text'`,
		`UPDATE graph_concept_edges INDEXED BY graph_concept_edges_by_memory SET valid_to = coalesce(min(stated_to, ` + validTo + `), stated_to, ` + validTo + `)
			WHERE namespace = ` + namespace + ` AND memory_id = ` + memory + ` AND origin <> 'text'`,
		`INSERT INTO graph_concept_edges (namespace, source_id, target_id, relation, memory_id, weight, valid_from, valid_to)
			SELECT ` + namespace + `, value ->> 0, value ->> 1, value ->> 3, ` + memory + `, value ->> 2, ` + validFrom + `, ` + validTo + `
			FROM json_each(` + pairs + `) WHERE true ON CONFLICT DO NOTHING`,
		`INSERT INTO graph_link_ends (namespace, memory_id, key, version) VALUES (` + namespace + `, ` + memory + `, ` + end + `, ` + change + `)
			ON CONFLICT (namespace, memory_id) DO UPDATE SET version = excluded.version`,
		`DELETE FROM graph_memory_links WHERE namespace = ` + namespace + ` AND source_id = ` + memory,
		`INSERT INTO graph_memory_links (namespace, source_id, target_key, relation)
			SELECT ` + namespace + `, ` + memory + `, value ->> 0, value ->> 1 FROM json_each(` + links + `)`,
	} {
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	return nil
}

// knownSQLite returns how many memories mention each of the given concepts that exist.
func knownSQLite(ctx context.Context, tx *sql.Tx, namespace string, ids []int64) (map[int64]int64, error) {
	var args sqlite.Args
	rows, err := tx.QueryContext(ctx, `
		SELECT c.id, c.mentions FROM json_each(`+args.AddJSON(ids)+`) j
		CROSS JOIN graph_concepts c ON c.namespace = `+args.Add(namespace)+` AND c.id = j.value`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	known := map[int64]int64{}
	for rows.Next() {
		var id, mentions int64
		if err := rows.Scan(&id, &mentions); err != nil {
			return nil, err
		}
		known[id] = mentions
	}
	return known, rows.Err()
}

// walk implements store.
func (s *SQLite) walk(ctx context.Context, q leg.Query, phrases []phrase) (leg.Result, [][]waypoint, error) {
	tx, err := s.db.Read.BeginTx(ctx, nil)
	if err != nil {
		return leg.Result{}, nil, err
	}
	defer func() { _ = tx.Rollback() }()
	known, err := knownSQLite(ctx, tx, q.Namespace, conceptIDs(phrases))
	if err != nil {
		return leg.Result{}, nil, err
	}
	starts, err := link(phrases, known, func() (n int64, err error) {
		err = tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM memories WHERE namespace = ? LIMIT ?)", q.Namespace, hubCount).Scan(&n)
		return n, err
	})
	if err != nil {
		return leg.Result{}, nil, err
	}
	if len(starts) == 0 {
		return abstained(reasonNotLinked, triskelev1.Traversal_TRAVERSAL_HOP_DECAY), nil, nil
	}
	hits, err := s.hops(ctx, tx, q, starts)
	if err != nil {
		return leg.Result{}, nil, err
	}
	if !q.Explain {
		return found(hits), nil, nil
	}
	paths, err := s.paths(ctx, tx, q, starts, idsOf(hits))
	return found(hits), paths, err
}

// hops is Postgres.hops.
func (s *SQLite) hops(ctx context.Context, tx *sql.Tx, q leg.Query, starts []start) ([]leg.Hit, error) {
	var args sqlite.Args
	tables, in, err := s.hopDecay(q, starts, &args)
	if err != nil {
		return nil, err
	}
	floor, live, depth := args.Add(minScore(q)), liveSQLite(q, q.Filter, &args), args.Add(q.Depth)
	rows, err := tx.QueryContext(ctx, "WITH RECURSIVE "+tables+`
		SELECT m.id, s.score, m.importance, m.created_at
		FROM total s CROSS JOIN memories m ON m.namespace = `+in.namespace+` AND m.id = s.memory_id
		WHERE s.score >= `+floor+` AND `+live+` AND `+currentSQLite(q, in.namespace, in.holds)+`
		ORDER BY round(s.score * `+args.Add(float64(precision))+`) DESC, m.importance DESC, m.created_at DESC, m.id
		LIMIT `+depth, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var hits []leg.Hit
	for rows.Next() {
		var h leg.Hit
		var id uuid.UUID
		var created sql.NullInt64
		if err := rows.Scan(&id, &h.Score, &h.Importance, &created); err != nil {
			return nil, err
		}
		h.ID, h.CreatedAt = id, sqlite.Time(created)
		hits = append(hits, h)
	}
	return hits, rows.Err()
}

// hopDecay is Postgres.hopDecay up to the scores, in total; a hop's concepts are a JSON object of weights by id, and those of
// the hops before it the start of such an object.
func (s *SQLite) hopDecay(q leg.Query, starts []start, args *sqlite.Args) (tables string, in placeholders, err error) {
	first := map[int64]float64{}
	for _, c := range starts {
		first[c.concept] = specificity(c.mentions)
	}
	text, err := json.Marshal(first)
	if err != nil {
		return "", placeholders{}, err
	}
	var (
		namespace   = args.Add(q.Namespace)
		startList   = args.Add(string(text))
		hops        = args.Add(s.config.Hops)
		decay       = args.Add(s.config.Decay)
		degree      = args.Add(s.config.MaxDegree)
		startDegree = args.Add(startDegree)
		frontier    = args.Add(s.config.Frontier)
		rounding    = args.Add(float64(precision))
		e           = args.Add(math.E)
		mentions    = args.Add(maxMentions)
		candidates  = args.Add(candidates(q))
		leading     = liveSQLite(q, record.Filter{}, args)
		holds       = holdsSQLite(q, namespace, args)
	)
	return `
		walk (hop, frontier, seen) AS (
			SELECT 0, ` + startList + `, ''
			UNION ALL
			SELECT w.hop + 1, (
				SELECT json_group_object(b.id, b.weight) FROM (
					SELECT n.other AS id, ` + decay + ` * sum(n.weight) AS weight
					FROM (
						SELECT e.target_id AS other, f.value * e.weight / c.mentions AS weight
						FROM json_each(w.frontier) f
						CROSS JOIN graph_concepts c ON c.namespace = ` + namespace + ` AND c.id = CAST(f.key AS INTEGER)
							AND c.mentions <= ` + degree + ` * CASE w.hop WHEN 0 THEN ` + startDegree + ` ELSE 1 END
						CROSS JOIN graph_concept_edges e INDEXED BY graph_concept_edges_by_source ON e.namespace = ` + namespace + ` AND e.source_id = c.id AND ` + holds + `
						UNION ALL
						SELECT e.source_id, f.value * e.weight / c.mentions
						FROM json_each(w.frontier) f
						CROSS JOIN graph_concepts c ON c.namespace = ` + namespace + ` AND c.id = CAST(f.key AS INTEGER)
							AND c.mentions <= ` + degree + ` * CASE w.hop WHEN 0 THEN ` + startDegree + ` ELSE 1 END
						CROSS JOIN graph_concept_edges e INDEXED BY graph_concept_edges_by_target ON e.namespace = ` + namespace + ` AND e.target_id = c.id AND ` + holds + `
						UNION ALL -- what has been reached is marked by a NULL: a look-up per group would parse the list each time
						SELECT CAST(key AS INTEGER), NULL FROM json_each('{' || w.seen || substr(w.frontier, 2))
					) n
					GROUP BY n.other HAVING count(n.weight) = count(*)
					ORDER BY round(` + decay + ` * sum(n.weight) * ` + rounding + `) DESC, n.other
					LIMIT ` + frontier + `
				) b
			), w.seen || substr(w.frontier, 2, length(w.frontier) - 2) || ','
			FROM walk w WHERE w.hop < ` + hops + ` AND w.frontier <> '{}'
		), reached AS MATERIALIZED (
			SELECT c.id, f.value / ln(` + e + ` + c.mentions) AS weight,
				coalesce(CASE w.hop
					WHEN 0 THEN (
						SELECT memory_id FROM graph_memory_concepts WHERE namespace = ` + namespace + ` AND concept_id = c.id
						ORDER BY memory_id DESC LIMIT 1 OFFSET ` + mentions + ` - 1
					) ELSE (
						SELECT memory_id FROM graph_memory_concepts WHERE namespace = ` + namespace + ` AND concept_id = c.id
						ORDER BY memory_id DESC LIMIT 1 OFFSET ` + degree + ` - 1
					) END, x'') AS oldest
			FROM walk w CROSS JOIN json_each(w.frontier) f
			CROSS JOIN graph_concepts c ON c.namespace = ` + namespace + ` AND c.id = CAST(f.key AS INTEGER)
		), scored AS MATERIALIZED (
			SELECT mc.memory_id, sum(r.weight * mc.salience) AS score
			FROM reached r
			CROSS JOIN graph_memory_concepts mc ON mc.namespace = ` + namespace + ` AND mc.concept_id = r.id AND mc.memory_id >= r.oldest
			GROUP BY mc.memory_id
			ORDER BY round(sum(r.weight * mc.salience) * ` + rounding + `) DESC, mc.memory_id DESC
			LIMIT ` + candidates + `
		), leads AS MATERIALIZED (
			SELECT s.memory_id, s.score, e.key
			FROM (SELECT * FROM scored LIMIT ` + frontier + `) s
			CROSS JOIN memories m ON m.namespace = ` + namespace + ` AND m.id = s.memory_id AND ` + leading + `
			CROSS JOIN graph_link_ends e ON e.namespace = ` + namespace + ` AND e.memory_id = s.memory_id
		), spread AS MATERIALIZED (
			SELECT memory_id, key, score, (
				SELECT count(*) FROM (SELECT 1 FROM graph_memory_links WHERE namespace = ` + namespace + ` AND source_id = l.memory_id LIMIT ` + degree + ` + 1)
			) + (
				SELECT count(*) FROM (SELECT 1 FROM graph_memory_links WHERE namespace = ` + namespace + ` AND target_key = l.key LIMIT ` + degree + ` + 1)
			) AS degree
			FROM leads l
		), total AS MATERIALIZED (
			SELECT memory_id, sum(score) AS score FROM (
				SELECT memory_id, score FROM scored
				UNION ALL
				SELECT e.memory_id, ` + decay + ` * s.score / s.degree
				FROM spread s
				CROSS JOIN graph_memory_links l ON l.namespace = ` + namespace + ` AND l.source_id = s.memory_id
				CROSS JOIN graph_link_ends e ON e.namespace = ` + namespace + ` AND e.key = l.target_key
				WHERE s.degree <= ` + degree + `
				UNION ALL
				SELECT l.source_id, ` + decay + ` * s.score / s.degree
				FROM spread s
				CROSS JOIN graph_memory_links l ON l.namespace = ` + namespace + ` AND l.target_key = s.key
				WHERE s.degree <= ` + degree + `
			) GROUP BY memory_id
		)`, placeholders{namespace, decay, degree, startDegree, holds}, nil
}

// liveSQLite is sqlite.Live, or the same as of the query's time.
func liveSQLite(q leg.Query, f record.Filter, args *sqlite.Args) string {
	f.IncludeSuperseded = q.Filter.IncludeSuperseded
	if q.AsOf.IsZero() {
		return sqlite.Live(f, "m", args)
	}
	at := args.Add(q.AsOf.UnixMicro())
	where := "coalesce(m.occurred_at, m.created_at) <= " + at + " AND (m.expires_at IS NULL OR m.expires_at > " + at + ")"
	if !f.IncludeSuperseded {
		where += " AND (m.superseded_by IS NULL OR m.updated_at > " + at + ")"
	}
	return where + sqlite.Matches(f, "m", args)
}

// holdsSQLite is holdsPostgres.
func holdsSQLite(q leg.Query, namespace string, args *sqlite.Args) string {
	holds := func(alias string) string { return alias + ".valid_to IS NULL" }
	if !q.AsOf.IsZero() {
		at := args.Add(q.AsOf.UnixMicro())
		holds = func(alias string) string {
			return alias + ".valid_from <= " + at + " AND (" + alias + ".valid_to IS NULL OR " + alias + ".valid_to > " + at + ")"
		}
	}
	return holds("e") + ` AND NOT (e.single AND EXISTS (
		SELECT 1 FROM graph_concept_edges n INDEXED BY sqlite_autoindex_graph_concept_edges_1
		WHERE n.namespace = ` + namespace + ` AND n.source_id = e.source_id AND n.relation = e.relation AND n.single AND n.target_id <> e.target_id
			AND (n.valid_from, n.memory_id) > (e.valid_from, e.memory_id) AND ` + holds("n") + `))`
}

// currentSQLite is currentPostgres.
func currentSQLite(q leg.Query, namespace, holds string) string {
	if q.Filter.IncludeSuperseded {
		return "true"
	}
	facts := "SELECT 1 FROM graph_concept_edges e INDEXED BY graph_concept_edges_by_memory WHERE e.namespace = " + namespace +
		" AND e.memory_id = m.id AND e.relation <> '" + coMention + "'"
	return "(NOT EXISTS (" + facts + ") OR EXISTS (" + facts + " AND (e.relation = '" + AliasRelation + "' OR " + holds + ")))"
}

// Status implements leg.Searcher.
func (s *SQLite) Status(ctx context.Context, namespace string) (leg.Status, error) {
	var indexed, excluded int64
	if err := s.db.Read.QueryRowContext(ctx, `
		SELECT (SELECT count(DISTINCT memory_id) FROM graph_memory_concepts WHERE namespace = ?1),
			(SELECT count(*) FROM memories WHERE namespace = ?1 AND sensitive)`, namespace).Scan(&indexed, &excluded); err != nil {
		return leg.Status{}, err
	}
	pending, err := s.queue.Status(ctx, indexName, namespace)
	return status(indexed, excluded, pending), err
}
