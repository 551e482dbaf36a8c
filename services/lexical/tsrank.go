package lexical

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

// planning are the planner's settings for searches. The best index depends on the frequency of the terms and the size of the namespace.
// A sequential scan would read the whole partition.
var planning = map[string]string{"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off"}

// inSQL calls fn in a transaction that searches a namespace, with the namespace's settings.
func (l *Leg) inSQL(ctx context.Context, q leg.Query, fn func(pgx.Tx, Settings) error) error {
	settings := DefaultSettings()
	first := func(batch *pgx.Batch) {
		batch.Queue(selectSettings, q.Namespace).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, settings.targets(), func() error { return nil })
			return err
		})
	}
	return postgres.SearchAfter(ctx, l.Or(l.store.Pool), q.Namespace, planning, first, func(tx pgx.Tx) error { return fn(tx, settings) })
}

// searchInSQL searches by ts_rank. why is the reason.
func (l *Leg) searchInSQL(ctx context.Context, q leg.Query, why error) (result leg.Result, err error) {
	kind := triskelev1.ScoreKind_SCORE_KIND_TS_RANK
	err = l.inSQL(ctx, q, func(tx pgx.Tx, settings Settings) (err error) {
		understood := understand(q.Text, settings)
		if understood.distinct == 0 {
			result = leg.Abstained(kind, noWords)
			return nil
		}
		result, err = l.searchByRank(ctx, tx, q, understood)
		result.ScoreKind = kind
		if result.State == triskelev1.LegState_LEG_STATE_UNSPECIFIED && cmp.Or(q.Scorer, settings.Scorer, ScorerByName(l.cfg.Scorer)) != triskelev1.Scorer_SCORER_TS_RANK {
			result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, "ranked by ts_rank: "+why.Error()
		}
		if err != nil || !q.MarkExact {
			return err
		}
		matches, err := exactMatches(ctx, tx, q, settings)
		if err == nil {
			err = markExact(q, &result, matches, func(ids []uuid.UUID) ([]leg.Hit, error) { return l.ranksOf(ctx, tx, q, understood, ids) })
		}
		if err != nil && len(result.Hits) > 0 && postgres.IsTimeout(err) {
			result.State, result.Reason = triskelev1.LegState_LEG_STATE_TRUNCATED, "time ran out before exact matches were marked"
		}
		return err
	})
	if err != nil && !(result.State == triskelev1.LegState_LEG_STATE_TRUNCATED && postgres.IsTimeout(err)) {
		return leg.Result{}, err
	}
	return result, nil
}

// exactMatches is bm25.exactMatches in SQL: a memory has all terms of the text that it equals.
func exactMatches(ctx context.Context, tx pgx.Tx, q leg.Query, settings Settings) ([]leg.Hit, error) {
	var alternatives []string
	var hashes [][]byte
	for hash, text := range quoted(q.Text) {
		hashes = append(hashes, binary.BigEndian.AppendUint64(nil, hash))
		terms := slice.Map(settings.language().tokens(text), func(t token) string { return lexeme(t.term) })
		alternatives = append(alternatives, strings.Join(terms[:min(len(terms), maxTerms)], " & "))
	}
	args := postgres.Args{q.Namespace, hashes, strings.Join(alternatives, " | "), maxEqual}
	live := postgres.Live(q.Filter, "m", &args)
	return leg.HitsInSQL(ctx, tx, `
		SELECT m.id, 0::float8, m.importance, m.created_at FROM (
			SELECT memory_id FROM lexical.documents WHERE namespace = $1 AND tsv @@ $3::tsquery
				AND (substring(terms FROM 2 FOR 8) = ANY($2) OR substring(terms FROM 10 FOR 8) = ANY($2)) OFFSET 0
		) d CROSS JOIN LATERAL (
			SELECT id, importance, created_at FROM memory.memories m WHERE m.namespace = $1 AND m.id = d.memory_id AND `+live+` OFFSET 0
		) m ORDER BY m.created_at DESC, m.id LIMIT $4`, args...)
}

// searchByRank ranks by ts_rank over weighted tsvectors. Memories with all terms of the query come first. If they are fewer
// than the depth, memories with any term follow, if their rank is at least Config.OrBroadenMinRank. Scores compare only
// within each of the two groups. A query of more than maxTerms terms has the second group alone.
func (l *Leg) searchByRank(ctx context.Context, tx pgx.Tx, q leg.Query, understood query) (result leg.Result, err error) {
	terms := understood.lexemes()
	var all string
	if understood.distinct == len(terms) {
		all = strings.Join(terms, " & ")
		statement, args := rank(q, all, "", 0)
		if result.Hits, err = leg.HitsInSQL(ctx, tx, statement, args...); err != nil || understood.distinct == 1 || len(result.Hits) == q.Depth {
			return result, err
		}
	}
	found := len(result.Hits)
	rest := q
	rest.Depth -= found
	statement, args := rank(rest, strings.Join(terms, " | "), all, l.cfg.OrBroadenMinRank)
	some, err := leg.HitsInSQL(ctx, tx, statement, args...)
	switch {
	case err != nil && found > 0 && postgres.IsTimeout(err):
		result.State = triskelev1.LegState_LEG_STATE_TRUNCATED
		result.Reason = fmt.Sprintf("all terms matched %s; time ran out before broadening to any term", memories(found))
	case err != nil:
	case all == "":
		result.Reason = fmt.Sprintf("searched for any of %d of the %d terms", len(terms), understood.distinct)
	default:
		result.Reason = fmt.Sprintf("all terms matched %s, broadened to any term", memories(found))
	}
	result.Hits = append(result.Hits, some...)
	return result, err
}

// lexemes returns the terms that are searched for, quoted.
func (q query) lexemes() []string {
	return slice.Map(mostUsed(q.terms, maxTerms), func(t queryTerm) string { return lexeme(t.term) })
}

// rank returns the statement for the best memories that match one tsquery and do not match another, except. An empty except
// excludes none. Matches are ranked and sorted before memories are read, so that only the best memories' wide rows are read.
func rank(q leg.Query, query, except string, minRank float64) (string, postgres.Args) {
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

func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return fmt.Sprintf("%d memories", n)
}

// ranksOf returns the same ts_rank as searchByRank, of all terms if the memory has them, else of any; 0 below the minimum.
func (l *Leg) ranksOf(ctx context.Context, tx pgx.Tx, q leg.Query, understood query, ids []uuid.UUID) ([]leg.Hit, error) {
	terms := understood.lexemes()
	if len(terms) == 0 {
		return nil, nil
	}
	all, some := strings.Join(terms, " & "), strings.Join(terms, " | ")
	if understood.distinct > len(terms) {
		all = some
	}
	return leg.HitsInSQL(ctx, tx, `
		SELECT memory_id, CASE WHEN tsv @@ $3::tsquery THEN ts_rank(tsv, $3::tsquery)::float8
			WHEN ts_rank(tsv, $4::tsquery) >= $5 THEN ts_rank(tsv, $4::tsquery)::float8 ELSE 0 END
		FROM lexical.documents WHERE namespace = $1 AND memory_id = ANY($2)`, q.Namespace, ids, all, some, l.cfg.OrBroadenMinRank)
}
