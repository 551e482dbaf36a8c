package lexical

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/record"
	"github.com/triskele/triskele/services/sqlite"
)

// spareCandidates is how many candidates beyond twice the depth are first looked up: they make up for memories that are
// no longer live and leave room for ties.
const spareCandidates = 100

// SQLiteIndex writes the index in the record's own transaction.
type SQLiteIndex struct{}

// Put adds or replaces the records' entries.
func (SQLiteIndex) Put(ctx context.Context, tx *sql.Tx, records []record.Record) error {
	var statements [3]*sql.Stmt
	for i, text := range []string{
		`INSERT INTO lexical_namespaces (name) VALUES (?1) ON CONFLICT DO NOTHING`,
		`INSERT INTO lexical_documents (id, namespace, memory_id)
		SELECT 1 + coalesce((SELECT max(id) FROM lexical_documents WHERE id >= n.number << 40 AND id < (n.number + 1) << 40), n.number << 40), n.name, ?2
		FROM lexical_namespaces n WHERE n.name = ?1
		ON CONFLICT (namespace, memory_id) DO NOTHING`,
		`INSERT OR REPLACE INTO lexical_fts (rowid, content, keywords, tags, category)
		SELECT id, ?3, ?4, ?5, ?6 FROM lexical_documents WHERE namespace = ?1 AND memory_id = ?2`,
	} {
		statement, err := tx.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		defer func() { _ = statement.Close() }()
		statements[i] = statement
	}
	number, document, entry := statements[0], statements[1], statements[2]
	for _, r := range records {
		if _, err := number.ExecContext(ctx, r.Namespace); err != nil {
			return err
		}
		if _, err := document.ExecContext(ctx, r.Namespace, r.ID[:]); err != nil {
			return err
		}
		if _, err := entry.ExecContext(ctx, r.Namespace, r.ID[:], r.Content+"\n"+r.Title, strings.Join(r.Keywords, "\n"),
			strings.Join(r.Tags, "\n"), r.Category); err != nil {
			return err
		}
	}
	return nil
}

// SQLite searches by BM25 over an FTS5 index. How rare a term is, and how long a document is on average, is taken over
// all namespaces of the file.
type SQLite struct{ db *sqlite.DB }

var _ leg.Searcher = (*SQLite)(nil)

// NewSQLite returns the leg for a database. The settings there are concern ts_rank.
func NewSQLite(db *sqlite.DB, _ Config) *SQLite { return &SQLite{db} }

// Search implements leg.Searcher: memories with any term of the query, by BM25.
func (s *SQLite) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	const kind = triskelev1.ScoreKind_SCORE_KIND_BM25
	if q.Text == "" {
		return abstained(kind, "the query has no text"), nil
	}
	terms, distinct := queryTerms(q.Text)
	if len(terms) == 0 {
		return abstained(kind, "the query has no searchable words"), nil
	}
	result := leg.Result{ScoreKind: kind}
	if len(terms) < distinct {
		result.Reason = fmt.Sprintf("searched for %d of the %d terms", len(terms), distinct)
	}
	candidates := 2*q.Depth + spareCandidates
	if q.Filter.Narrow() {
		candidates = -1
	}
	hits, complete, err := s.search(ctx, q, match(terms), candidates)
	if err == nil && !complete {
		hits, _, err = s.search(ctx, q, match(terms), -1)
	}
	if err != nil {
		return leg.Result{}, err
	}
	result.Hits = hits
	return result, nil
}

// search looks up the memories of the best candidates only, of all with -1, since it costs more than their scores do.
// The hits are complete if no candidate beyond could be among them.
func (s *SQLite) search(ctx context.Context, q leg.Query, match string, candidates int) (hits []leg.Hit, complete bool, err error) {
	var args sqlite.Args
	namespace := args.Add(q.Namespace)
	limit := args.Add(candidates)
	// An unknown namespace has number 0 and no documents. bm25() is negated: its least value is the best.
	statement := `
		WITH candidates AS MATERIALIZED (
			SELECT rowid AS id, bm25(lexical_fts, 1.0, 0.4, 0.2, 0.1) AS score FROM lexical_fts
			WHERE lexical_fts MATCH ` + args.Add(match) + `
				AND rowid >= coalesce((SELECT number FROM lexical_namespaces WHERE name = ` + namespace + `), 0) << 40
				AND rowid < (coalesce((SELECT number FROM lexical_namespaces WHERE name = ` + namespace + `), 0) + 1) << 40
			ORDER BY score LIMIT ` + limit + `
		)
		SELECT m.id, -c.score, m.importance, m.created_at, (SELECT count(*) FROM candidates), (SELECT -max(score) FROM candidates)
		FROM candidates c
		CROSS JOIN lexical_documents d ON d.id = c.id
		CROSS JOIN memories m ON m.namespace = d.namespace AND m.id = d.memory_id
		WHERE ` + sqlite.Live(q.Filter, "m", &args)
	if q.MinScore != nil {
		statement += " AND -c.score >= " + args.Add(*q.MinScore)
	}
	// The driver stops a statement at the end of ctx only until the first row: sorting puts all the work before it.
	statement += " ORDER BY c.score, m.importance DESC, m.created_at DESC, m.id LIMIT " + args.Add(q.Depth)
	rows, err := s.db.Read.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	var found int
	var worst float64
	for rows.Next() {
		var hit leg.Hit
		var created sql.NullInt64
		if err := rows.Scan(&hit.ID, &hit.Score, &hit.Importance, &created, &found, &worst); err != nil {
			return nil, false, err
		}
		hit.CreatedAt = sqlite.Time(created)
		hits = append(hits, hit)
	}
	complete = len(hits) > 0 && found < candidates || len(hits) == q.Depth && hits[len(hits)-1].Score > worst
	return hits, complete || candidates < 0, rows.Err()
}

// match returns an FTS5 query for any of the terms. Each is quoted, so none can be taken for syntax.
func match(terms []string) string { return `"` + strings.Join(terms, `" OR "`) + `"` }

// Status implements leg.Searcher. Nothing is ever pending: the index is written with the record.
func (s *SQLite) Status(ctx context.Context, namespace string) (leg.Status, error) {
	status := leg.Status{Model: "fts5 bm25/porter"}
	err := s.db.Read.QueryRowContext(ctx, `SELECT count(*) FROM lexical_documents WHERE namespace = ?`, namespace).Scan(&status.Indexed)
	return status, err
}
