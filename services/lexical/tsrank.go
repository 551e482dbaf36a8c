package lexical

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

// searchByRank ranks by ts_rank over weighted tsvectors. Memories with all terms of the query come first. If they are fewer
// than the depth, memories with any term follow, if their rank is at least Config.OrBroadenMinRank. Scores compare only
// within each of the two groups. A query of more than maxTerms terms has the second group alone.
func (p *Postgres) searchByRank(ctx context.Context, tx pgx.Tx, q leg.Query, understood query) (result leg.Result, err error) {
	terms := mostUsed(understood.terms, maxTerms)
	var all string
	if understood.distinct == len(terms) {
		all = tsquery(terms, " & ")
		statement, args := rank(q, all, "", 0)
		if result.Hits, err = collect(ctx, tx, statement, args); err != nil || understood.distinct == 1 || len(result.Hits) == q.Depth {
			return result, err
		}
	}
	found := len(result.Hits)
	rest := q
	rest.Depth -= found
	statement, args := rank(rest, tsquery(terms, " | "), all, p.cfg.OrBroadenMinRank)
	some, err := collect(ctx, tx, statement, args)
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

// tsquery returns a tsquery of terms joined by an operator.
func tsquery(terms []queryTerm, operator string) string {
	var b strings.Builder
	for i, t := range terms {
		if i > 0 {
			b.WriteString(operator)
		}
		writeLexeme(&b, t.term)
	}
	return b.String()
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
	hit.Own, hit.CreatedAt = hit.Score, hit.CreatedAt.UTC()
	return hit, err
}

func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return fmt.Sprintf("%d memories", n)
}
