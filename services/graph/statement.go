package graph

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/postgres"
)

// HopDecay searches by hop decay as part of a larger statement: common table expressions for a WITH RECURSIVE, the last of
// which, hop_decay, has the id, score, importance, created_at and rank, from 1, of what a query finds. tables is "" if the
// search abstains, for that reason.
func (p *Postgres) HopDecay(ctx context.Context, tx pgx.Tx, q leg.Query, args *postgres.Args) (tables, reason string, err error) {
	named := phrases(words(q.Text, maxQueryWords), maxNameWords)
	if len(named) == 0 {
		return "", reasonNoWords, nil
	}
	starts, err := startsPostgres(ctx, tx, q.Namespace, named)
	if err != nil {
		return "", "", err
	}
	if len(starts) == 0 {
		return "", reasonNotLinked, nil
	}
	tables, _ = p.hopDecay(q, starts, args)
	return tables, "", nil
}

// Explain returns how a search by hop decay comes to memories; nothing for those that it does not find.
func (p *Postgres) Explain(ctx context.Context, q leg.Query, memories []uuid.UUID) ([][]leg.Step, error) {
	var paths [][]waypoint
	err := postgres.Search(ctx, p.Or(p.pool), q.Namespace, planning, func(tx pgx.Tx) error {
		starts, err := startsPostgres(ctx, tx, q.Namespace, phrases(words(q.Text, maxQueryWords), maxNameWords))
		if err == nil {
			paths, err = p.paths(ctx, tx, q, starts, memories)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.steps(ctx, q.Namespace, paths)
}
