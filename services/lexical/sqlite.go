package lexical

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLiteIndex writes the index in the record's own transaction.
type SQLiteIndex struct{}

// Put adds or replaces the records' entries.
func (SQLiteIndex) Put(ctx context.Context, tx *sql.Tx, records []record.Record) error {
	var statements [4]*sql.Stmt
	for i, text := range []string{
		`INSERT INTO lexical_namespaces (name) VALUES (?1) ON CONFLICT DO NOTHING`,
		`INSERT INTO lexical_documents (id, namespace, memory_id)
		SELECT 1 + coalesce((SELECT max(id) FROM lexical_documents WHERE id >= n.number << 40 AND id < (n.number + 1) << 40), n.number << 40), n.name, ?2
		FROM lexical_namespaces n WHERE n.name = ?1
		ON CONFLICT (namespace, memory_id) DO NOTHING`,
		`INSERT OR REPLACE INTO lexical_fts (rowid, content, keywords, tags, category)
		SELECT id, ?3, ?4, ?5, ?6 FROM lexical_documents WHERE namespace = ?1 AND memory_id = ?2`,
		`INSERT OR REPLACE INTO lexical_hashes (namespace, memory_id, content, title) VALUES (?, ?, ?, ?)`,
	} {
		statement, err := tx.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		defer func() { _ = statement.Close() }()
		statements[i] = statement
	}
	number, document, entry, hashes := statements[0], statements[1], statements[2], statements[3]
	settings := map[string]Settings{}
	for _, r := range records {
		if _, known := settings[r.Namespace]; !known {
			s, err := settingsOf(ctx, tx, r.Namespace)
			if err != nil {
				return err
			}
			settings[r.Namespace] = s
		}
		language := settings[r.Namespace].language()
		if _, err := number.ExecContext(ctx, r.Namespace); err != nil {
			return err
		}
		if _, err := document.ExecContext(ctx, r.Namespace, r.ID[:]); err != nil {
			return err
		}
		texts := fields(r)
		if _, err := entry.ExecContext(ctx, r.Namespace, r.ID[:], language.terms(texts[0].text), language.terms(texts[1].text),
			language.terms(texts[2].text), language.terms(texts[3].text)); err != nil {
			return err
		}
		if _, err := hashes.ExecContext(ctx, r.Namespace, r.ID[:], hashOf(r.Content), hashOf(r.Title)); err != nil {
			return err
		}
	}
	return nil
}

// terms returns a text's terms, separated by spaces.
func (l language) terms(text string) string {
	var b strings.Builder
	for _, t := range l.tokens(text) {
		b.WriteString(t.term)
		b.WriteByte(' ')
	}
	return b.String()
}

// settingsOf returns a namespace's settings, or the default ones.
func settingsOf(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, namespace string) (Settings, error) {
	var s Settings
	var scorer string
	err := db.QueryRowContext(ctx, `SELECT language, k1, b, prefix, coalesce(scorer, '') FROM lexical_settings WHERE namespace = ?`, namespace).
		Scan(&s.Language, &s.K1, &s.B, &s.Prefix, &scorer)
	if errors.Is(err, sql.ErrNoRows) {
		return DefaultSettings(), nil
	}
	s.Scorer = ScorerByName(scorer)
	return s, err
}

// SQLite searches by BM25 over an FTS5 index. Document frequencies and the average length are those of the whole file, not of
// a namespace.
type SQLite struct{ db *sqlite.DB }

var _ Leg = (*SQLite)(nil)

// NewSQLite returns the leg for a database.
func NewSQLite(db *sqlite.DB) *SQLite { return &SQLite{db} }

// Search implements leg.Searcher. It ranks memories with any term of the query by BM25.
func (s *SQLite) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	match, result, err := s.prepare(ctx, q)
	if err != nil || match == "" {
		return result, err
	}
	candidates := 2*q.Depth + 100 // makes up for memories that are not live, and leaves room for ties
	if q.Filter.Narrow() {
		candidates = -1
	}
	hits, complete, err := s.search(ctx, q, match, candidates)
	if err == nil && !complete {
		hits, _, err = s.search(ctx, q, match, -1)
	}
	if err != nil {
		return leg.Result{}, err
	}
	result.Hits = hits
	if !q.MarkExact {
		return result, nil
	}
	matches, err := s.exactMatches(ctx, q, quoted(q.Text))
	if err != nil {
		return leg.Result{}, err
	}
	return result, markExact(q, &result, matches, func(ids []uuid.UUID) ([]leg.Score, error) {
		return s.scores(ctx, q.Namespace, match, ids)
	})
}

// prepare returns the FTS5 query for a text, or "" if the text has no words. It also returns the result without its hits.
func (s *SQLite) prepare(ctx context.Context, q leg.Query) (match string, result leg.Result, err error) {
	result.ScoreKind = triskelev1.ScoreKind_SCORE_KIND_BM25
	settings, err := settingsOf(ctx, s.db.Read, q.Namespace)
	if err != nil {
		return "", result, err
	}
	understood := understand(q.Text, settings)
	if understood.distinct == 0 {
		return "", abstained(result.ScoreKind, noWords), nil
	}
	terms, err := s.rarest(ctx, understood.terms)
	if err != nil {
		return "", result, err
	}
	if cmp.Or(q.Scorer, settings.Scorer) == triskelev1.Scorer_SCORER_TS_RANK {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, "ranked by bm25: this store has no ts_rank"
	}
	if len(terms) < understood.distinct {
		result.Reason = fmt.Sprintf("searched for %d of the %d terms", len(terms), understood.distinct)
	}
	return ftsQuery(terms, understood), result, nil
}

// ftsScore is the negated score of a memory: lower is better.
const ftsScore = "bm25(lexical_fts, 1.0, 0.4, 0.2, 0.1)"

// search scores all matches, and looks up the memories of the best candidates only, because that costs more. -1 means all.
// The hits are complete if no other candidate can be among them.
func (s *SQLite) search(ctx context.Context, q leg.Query, match string, candidates int) (hits []leg.Hit, complete bool, err error) {
	var args sqlite.Args
	namespace := args.Add(q.Namespace)
	limit := args.Add(candidates)
	// An unknown namespace has the number 0, whose range of rows is empty.
	statement := `
		WITH candidates AS MATERIALIZED (
			SELECT rowid AS id, ` + ftsScore + ` AS score FROM lexical_fts
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
	// The driver can cancel a statement only before its first row. Sorting does all the work before the first row.
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

// rarest returns the terms to search for. If there are more than maxTerms, it keeps those of the highest weight.
func (s *SQLite) rarest(ctx context.Context, terms []queryTerm) ([]queryTerm, error) {
	if len(terms) <= maxTerms {
		return terms, nil
	}
	words := make([]string, len(terms))
	for i, t := range terms {
		words[i] = t.term
	}
	var args sqlite.Args
	rows, err := s.db.Read.QueryContext(ctx, `SELECT term, doc, (SELECT count(*) FROM lexical_documents) FROM lexical_vocabulary
		WHERE term IN (SELECT value FROM json_each(`+args.AddJSON(words)+`))`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	weights := make(map[string]float64, len(terms))
	for rows.Next() {
		var term string
		var df, n int64
		if err := rows.Scan(&term, &df, &n); err != nil {
			return nil, err
		}
		weights[term] = idf(n, df)
	}
	terms = slices.Clone(terms)
	slices.SortStableFunc(terms, func(a, b queryTerm) int {
		return cmp.Compare(weights[b.term]*float64(b.uses), weights[a.term]*float64(a.uses))
	})
	return terms[:maxTerms], rows.Err()
}

// ftsQuery returns an FTS5 query for any of the terms or the query's phrases. All terms are quoted, so that none can be taken
// for syntax. Terms contain no quotation marks.
func ftsQuery(terms []queryTerm, q query) string {
	var alternatives []string
	for _, t := range terms {
		alternatives = append(alternatives, `"`+t.term+`"`)
	}
	for _, phrase := range q.phrases {
		words := make([]string, len(phrase))
		for i, t := range phrase {
			words[i] = t.term
		}
		alternatives = append(alternatives, `"`+strings.Join(words, " ")+`"`)
	}
	if q.prefix != "" {
		alternatives = append(alternatives, `"`+q.prefix+`" *`)
	}
	return strings.Join(alternatives, " OR ")
}

// Status implements leg.Searcher. Nothing is ever pending, because the index is written in the record's transaction.
func (s *SQLite) Status(ctx context.Context, namespace string) (leg.Status, error) {
	status := leg.Status{Model: "fts5 bm25"}
	err := s.db.Read.QueryRowContext(ctx, `SELECT count(*) FROM lexical_documents WHERE namespace = ?`, namespace).Scan(&status.Indexed)
	return status, err
}
