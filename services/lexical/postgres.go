package lexical

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/postgres"
	"github.com/triskele/triskele/services/record"
)

// textSearch is the text search configuration that both the index and the queries are made with.
const textSearch = "english"

// planning holds for each search. The query is planned with its values, since how common its terms are, and how large
// its namespace is, decides which index to use; a generic plan guesses the same for all. A sequential scan reads every
// tsvector of the partition, and compiling a plan takes longer than running it.
var planning = map[string]string{"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "jit": "off"}

// PostgresIndex writes the index in the record's own transaction.
type PostgresIndex struct{}

// Put adds or replaces the records' entries.
func (PostgresIndex) Put(ctx context.Context, tx pgx.Tx, records []record.Record) error {
	n := len(records)
	namespaces, ids := make([]string, n), make([]uuid.UUID, n)
	texts, keywords, tags, categories := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, r := range records {
		namespaces[i], ids[i] = r.Namespace, r.ID
		texts[i], keywords[i], tags[i], categories[i] = r.Content+"\n"+r.Title, strings.Join(r.Keywords, "\n"), strings.Join(r.Tags, "\n"), r.Category
	}
	// In order, so that two transactions with the same memories do not wait for each other. An update that leaves the
	// words alone leaves the GIN index alone.
	_, err := tx.Exec(ctx, `
		INSERT INTO lexical.documents AS d (namespace, memory_id, tsv)
		SELECT namespace, memory_id, setweight(to_tsvector('`+textSearch+`', texts), 'A') || setweight(to_tsvector('`+textSearch+`', keywords), 'B')
			|| setweight(to_tsvector('`+textSearch+`', tags), 'C') || setweight(to_tsvector('`+textSearch+`', category), 'D')
		FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[]) AS t (namespace, memory_id, texts, keywords, tags, category)
		ORDER BY namespace, memory_id
		ON CONFLICT (namespace, memory_id) DO UPDATE SET tsv = excluded.tsv WHERE d.tsv IS DISTINCT FROM excluded.tsv`,
		namespaces, ids, texts, keywords, tags, categories)
	return err
}

// Postgres searches by ts_rank over weighted tsvectors.
type Postgres struct {
	pool *pgxpool.Pool
	cfg  Config
}

var _ leg.Searcher = (*Postgres)(nil)

// NewPostgres returns the leg for a database.
func NewPostgres(pool *pgxpool.Pool, cfg Config) *Postgres { return &Postgres{pool, cfg} }

// Search implements leg.Searcher. First come the memories with all terms of the query; if they are fewer than the depth,
// those with any follow, as far as they rank at least Config.OrBroadenMinRank. Scores compare within each part only. Of a
// query with more than maxTerms terms no memory is expected to have all.
func (p *Postgres) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	const kind = triskelev1.ScoreKind_SCORE_KIND_TS_RANK
	if q.Text == "" {
		return abstained(kind, "the query has no text"), nil
	}
	var (
		result   = leg.Result{ScoreKind: kind}
		distinct int // terms of the query
		complete bool
	)
	err := postgres.Search(ctx, p.pool, q.Namespace, planning, func(tx pgx.Tx) error {
		var terms []string
		var err error
		if terms, distinct, err = queryLexemes(ctx, tx, q.Text); err != nil || len(terms) == 0 {
			return err
		}
		var all string
		if distinct == len(terms) {
			all = tsquery(terms, " & ")
			statement, args := search(q, all, "", 0)
			if result.Hits, err = collect(ctx, tx, statement, args); err != nil {
				return err
			}
			if complete = distinct == 1 || len(result.Hits) == q.Depth; complete {
				return nil
			}
		}
		found := len(result.Hits)
		rest := q
		rest.Depth -= found
		statement, args := search(rest, tsquery(terms, " | "), all, p.cfg.OrBroadenMinRank)
		some, err := collect(ctx, tx, statement, args)
		if err != nil {
			return err
		}
		result.Hits, complete = append(result.Hits, some...), true
		if all == "" {
			result.Reason = fmt.Sprintf("searched for any of %d of the %d terms", len(terms), distinct)
		} else {
			result.Reason = fmt.Sprintf("all terms matched %s, broadened to any term", memories(found))
		}
		return nil
	})
	switch {
	case err != nil && !complete && len(result.Hits) > 0 && postgres.IsTimeout(err):
		result.State = triskelev1.LegState_LEG_STATE_TRUNCATED
		result.Reason = fmt.Sprintf("all terms matched %s; time ran out before broadening to any term", memories(len(result.Hits)))
	case err != nil:
		return leg.Result{}, err
	case distinct == 0:
		return abstained(kind, "the query has no searchable words"), nil
	}
	return result, nil
}

// queryLexemes returns up to maxTerms distinct terms of a text, and how many there are. It stands in for
// plainto_tsquery, whose query repeats what the text repeats and knows no bound: the time an index takes for it grows
// with the square of its length, to 0.7 s for 2,000 words.
func queryLexemes(ctx context.Context, tx pgx.Tx, text string) (lexemes []string, distinct int, err error) {
	rows, err := tx.Query(ctx, `SELECT lexeme, count(*) OVER () FROM unnest(to_tsvector('`+textSearch+`', $1))
		ORDER BY cardinality(positions) DESC, positions[1], lexeme LIMIT $2`, text, maxTerms)
	if err != nil {
		return nil, 0, err
	}
	lexemes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (lexeme string, err error) {
		err = row.Scan(&lexeme, &distinct)
		return lexeme, err
	})
	return lexemes, distinct, err
}

// lexemeQuoting escapes what ends or escapes a quoted lexeme in a tsquery.
var lexemeQuoting = strings.NewReplacer(`'`, `''`, `\`, `\\`)

// tsquery joins lexemes by an operator, whatever characters they contain.
func tsquery(lexemes []string, operator string) string {
	quoted := make([]string, len(lexemes))
	for i, lexeme := range lexemes {
		quoted[i] = "'" + lexemeQuoting.Replace(lexeme) + "'"
	}
	return strings.Join(quoted, operator)
}

// search returns the statement for the best memories that match one tsquery and, unless it is empty, not another.
// Ranking is done, and sorted, before the first memory is looked at, so that of the wide rows only those of the best are
// read.
func search(q leg.Query, query, except string, minRank float64) (string, postgres.Args) {
	var args postgres.Args
	namespace, match := args.Add(q.Namespace), args.Add(query)+"::tsquery"
	matching := "tsv @@ " + match
	if except != "" {
		matching += " AND NOT tsv @@ " + args.Add(except) + "::tsquery"
	}
	passing := "score >= " + args.Add(minRank)
	if q.MinScore != nil {
		passing += " AND score >= " + args.Add(*q.MinScore)
	}
	return fmt.Sprintf(`
		SELECT m.id, ranked.score, m.importance, m.created_at
		FROM (
			SELECT memory_id, score FROM (
				SELECT memory_id, ts_rank(tsv, %s)::float8 AS score FROM lexical.documents WHERE namespace = %s AND %s OFFSET 0
			) matched WHERE %s ORDER BY score DESC OFFSET 0
		) ranked
		JOIN memory.memories m ON m.namespace = %[2]s AND m.id = ranked.memory_id
		WHERE %[5]s
		ORDER BY ranked.score DESC, m.importance DESC, m.created_at DESC, m.id LIMIT %[6]s`,
		match, namespace, matching, passing, postgres.Live(q.Filter, "m", &args), args.Add(q.Depth)), args
}

func collect(ctx context.Context, tx pgx.Tx, statement string, args postgres.Args) ([]leg.Hit, error) {
	rows, err := tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanHit)
}

func scanHit(row pgx.CollectableRow) (leg.Hit, error) {
	var hit leg.Hit
	err := row.Scan(&hit.ID, &hit.Score, &hit.Importance, &hit.CreatedAt)
	hit.CreatedAt = hit.CreatedAt.UTC()
	return hit, err
}

func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return fmt.Sprintf("%d memories", n)
}

// Status implements leg.Searcher. Nothing is ever pending: the index is written with the record.
func (p *Postgres) Status(ctx context.Context, namespace string) (leg.Status, error) {
	status := leg.Status{Model: "ts_rank/" + textSearch}
	err := postgres.In(p.pool, namespace).QueryRow(ctx, `SELECT count(*) FROM lexical.documents WHERE namespace = $1`, namespace).Scan(&status.Indexed)
	return status, err
}
