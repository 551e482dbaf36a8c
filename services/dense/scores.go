package dense

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqlite"
)

var (
	_ leg.Scorer = (*Postgres)(nil)
	_ leg.Scorer = (*SQLite)(nil)
)

const cosine = triskelev1.ScoreKind_SCORE_KIND_COSINE

// Scores implements leg.Scorer.
func (p *Postgres) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Score, triskelev1.ScoreKind, error) {
	vector, _, err := queryVector(ctx, p.embedder, q)
	if err != nil || vector == nil {
		return nil, cosine, err
	}
	var scores []leg.Score
	err = postgres.Search(ctx, p.Or(p.pool), q.Namespace, map[string]string{"jit": "off"}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, fmt.Sprintf(`
			SELECT memory_id, round((1 - (embedding <=> $1::halfvec)) * %[1]d) / %[1]d
			FROM dense.vectors WHERE namespace = $2 AND model_id = %[2]d AND memory_id = ANY($3)`, scoreUnits, p.model),
			pgvector.NewHalfVector(vector), q.Namespace, ids)
		if err != nil {
			return err
		}
		scores, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (score leg.Score, err error) {
			return score, row.Scan(&score.ID, &score.Score)
		})
		return err
	})
	return scores, cosine, err
}

// Scores implements leg.Scorer.
func (s *SQLite) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Score, triskelev1.ScoreKind, error) {
	vector, _, err := queryVector(ctx, s.embedder, q)
	if err != nil || vector == nil {
		return nil, cosine, err
	}
	query := prepared(vector)
	var args sqlite.Args
	rows, err := s.db.Read.QueryContext(ctx, fmt.Sprintf(`
		SELECT v.memory_id, v.embedding FROM json_each(%s) wanted
		CROSS JOIN dense_vectors v ON v.namespace = %s AND v.memory_id = unhex(wanted.value, '-') AND v.model_id = %s`,
		args.AddJSON(ids), args.Add(q.Namespace), args.Add(s.model)), args...)
	if err != nil {
		return nil, cosine, err
	}
	var scores []leg.Score
	halves := make([]uint16, 0, len(query))
	err = scanRows(rows, func() error {
		var id uuid.UUID
		var embedding sql.RawBytes
		if err := rows.Scan(&id, &embedding); err != nil {
			return err
		}
		of, scale, err := appendHalves(halves[:0], embedding, len(query))
		if err != nil {
			return fmt.Errorf("vector of memory %s: %w", id, err)
		}
		scores = append(scores, leg.Score{ID: id, Score: fromUnits(toUnits(halfDot(query, of) * scale))})
		return nil
	})
	return scores, cosine, err
}
