package graph

import (
	"context"
	"database/sql"

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

// NewSQLite returns the graph of a database; q reports pending tasks.
func NewSQLite(db *sqlite.DB, q queue.Store, cfg Config) *SQLite {
	s := &SQLite{Follower: queue.Follow(q, indexName), db: db, queue: q}
	s.searcher = newSearcher(s, nil, cfg)
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

// putSQLite replaces the documents of one namespace. It skips documents that are outdated or
// sensitive.
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

// nextVersionSQLite increments the graph's version.
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
	for _, e := range d.aliases(mentions) {
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

// knownSQLite returns the mentions of each known concept, by id.
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

// liveSQLite is sqlite.Live at the query's time.
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
