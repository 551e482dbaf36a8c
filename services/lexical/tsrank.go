package lexical

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/postgres"
)

// rankPlanning holds for each search by ts_rank. The query is planned with its values, since how common its terms are, and how large
// its namespace is, decides which index to use; a generic plan guesses the same for all. A sequential scan reads every
// tsvector of the partition, and compiling a plan takes longer than running it.
var rankPlanning = map[string]string{"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "jit": "off"}

// searchByRank ranks by ts_rank over weighted tsvectors. First come the memories with all terms of the query; if they are
// fewer than the depth, those with any follow, as far as they rank at least Config.OrBroadenMinRank. Scores compare within
// each part only. Of a query with more than maxTerms terms no memory is expected to have all.
func (p *Postgres) searchByRank(ctx context.Context, q leg.Query) (leg.Result, error) {
	const kind = triskelev1.ScoreKind_SCORE_KIND_TS_RANK
	var (
		result   = leg.Result{ScoreKind: kind}
		distinct int // terms of the query
		complete bool
	)
	err := postgres.Search(ctx, p.pool, q.Namespace, rankPlanning, func(tx pgx.Tx) error {
		settings, err := readSettings(ctx, tx, q.Namespace)
		if err != nil {
			return err
		}
		understood := understand(q.Text, settings)
		distinct = understood.distinct
		if distinct == 0 {
			return nil
		}
		terms := mostUsed(understood.terms, maxTerms)
		var all string
		if distinct == len(terms) {
			all = tsquery(terms, " & ")
			statement, args := rank(q, all, "", 0)
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
		statement, args := rank(rest, tsquery(terms, " | "), all, p.cfg.OrBroadenMinRank)
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
		return abstained(kind, noWords), nil
	}
	return result, nil
}

// tsquery joins terms by an operator, whatever characters they contain.
func tsquery(terms []wanted, operator string) string {
	var b strings.Builder
	for i, t := range terms {
		if i > 0 {
			b.WriteString(operator)
		}
		writeLexeme(&b, t.term)
	}
	return b.String()
}

// rank returns the statement for the best memories that match one tsquery and, unless it is empty, not another.
// Ranking is done, and sorted, before the first memory is looked at, so that of the wide rows only those of the best are
// read.
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
