package lexical

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

var (
	_ leg.Scorer = (*Postgres)(nil)
	_ leg.Scorer = (*SQLite)(nil)
)

// Scores implements leg.Scorer. A memory without a term of the query scores 0.
func (p *Postgres) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Score, triskelev1.ScoreKind, error) {
	scores, err := p.images.scores(ctx, q, ids)
	if !inSQL(err) {
		return scores, triskelev1.ScoreKind_SCORE_KIND_BM25, err
	}
	err = p.inSQL(ctx, q, func(tx pgx.Tx, settings Settings) (err error) {
		scores, err = p.ranksOf(ctx, tx, q, understand(q.Text, settings), ids)
		return err
	})
	return scores, triskelev1.ScoreKind_SCORE_KIND_TS_RANK, err
}

// Scores implements leg.Scorer. A memory without a term of the query scores 0. There are no scores if the namespace is not in memory.
func (s *SQLite) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Score, triskelev1.ScoreKind, error) {
	scores, err := s.images.scores(ctx, q, ids)
	if inSQL(err) {
		err = nil // there is no SQL search here
	}
	return scores, triskelev1.ScoreKind_SCORE_KIND_BM25, err
}

// ranksOf returns the same ts_rank as searchByRank: for all terms if the memory has them, else for any. Ranks below
// Config.OrBroadenMinRank become 0.
func (p *Postgres) ranksOf(ctx context.Context, tx pgx.Tx, q leg.Query, understood query, ids []uuid.UUID) ([]leg.Score, error) {
	terms := mostUsed(understood.terms, maxTerms)
	if len(terms) == 0 {
		return nil, nil
	}
	all, some := tsquery(terms, " & "), tsquery(terms, " | ")
	if understood.distinct > len(terms) {
		all = some
	}
	rows, err := tx.Query(ctx, `
		SELECT memory_id, CASE WHEN tsv @@ $3::tsquery THEN ts_rank(tsv, $3::tsquery)::float8
			WHEN ts_rank(tsv, $4::tsquery) >= $5 THEN ts_rank(tsv, $4::tsquery)::float8 ELSE 0 END
		FROM lexical.documents WHERE namespace = $1 AND memory_id = ANY($2)`, q.Namespace, ids, all, some, p.cfg.OrBroadenMinRank)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (score leg.Score, err error) {
		err = row.Scan(&score.ID, &score.Score)
		score.Own = score.Score
		return score, err
	})
}
