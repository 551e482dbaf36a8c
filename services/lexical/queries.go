package lexical

import (
	"context"

	"github.com/triskele/triskele/services/postgres"
)

// RankQueries returns, for statements of others, the tsqueries by which ts_rank searches for a text: memories with all of its
// terms, and, if these are too few, memories with some. It is "" where there is nothing to search for.
func RankQueries(ctx context.Context, db postgres.Batcher, namespace, text string) (all, some string, err error) {
	settings, err := readSettings(ctx, db, namespace)
	if err != nil {
		return "", "", err
	}
	understood := understand(text, settings)
	terms := mostUsed(understood.terms, maxTerms)
	if understood.distinct == len(terms) {
		all = tsquery(terms, " & ")
	}
	if understood.distinct > 1 {
		some = tsquery(terms, " | ")
	}
	return all, some, nil
}
