package dense

import (
	"context"

	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/services/leg"
)

// ScoreUnits is how many units of score make 1: scores are rounded to whole ones.
const ScoreUnits = scoreUnits

// Compared is what an exact search compares, for statements of others: the vectors of a model, and a query's with them.
type Compared struct {
	Model  int64
	Vector *pgvector.HalfVector // nil if the query has none
	Reason string               // why not, or that the fallback embedder made it
}

// Compared returns what a search for a query compares.
func (p *Postgres) Compared(ctx context.Context, q leg.Query) (Compared, error) {
	c := Compared{Model: p.model}
	vector, reason, err := queryVector(ctx, p.embedder, q)
	if err == nil && vector != nil {
		half := pgvector.NewHalfVector(vector)
		c.Vector = &half
	}
	c.Reason = reason
	return c, err
}
