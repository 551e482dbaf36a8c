package dense

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Postgres searches the vectors of dense.vectors in memory, and in the database while a namespace is not in memory.
type Postgres struct {
	// ExactUpTo is the number of a namespace's or filter's memories that are compared exactly in the database. Above it the
	// index is used, if there is one. Set it before the first search.
	ExactUpTo int

	searcher
	*postgres.Standby // for searches
	pool              *pgxpool.Pool
	index             hnswIndex
}

// NewPostgres returns a store for the embedder's model. It registers the model if none is active. Another active model is an
// error. Searches read from the standby, unless it is nil. Building an index for namespaces that are too large for memory ends
// with ctx.
func NewPostgres(ctx context.Context, pool *pgxpool.Pool, images *replica.Set, standby *postgres.Standby, embedder embed.Embedder, tasks queue.Store) (*Postgres, error) {
	if err := checkModel(embedder.Model()); err != nil {
		return nil, err
	}
	models := postgresModels{pool}
	model, err := models.start(ctx, standby.Or(pool), embedder.Model())
	if err != nil {
		return nil, err
	}
	p := &Postgres{
		ExactUpTo: defaultExactUpTo, searcher: newSearcher(images, embedder, tasks, models, stored{model: model, decode: appendSent}),
		Standby: standby, pool: pool, index: hnswIndex{background: ctx},
	}
	p.loading, p.fallback = 0.3, p
	return p, nil
}

// Prepare implements memory.Derived.
func (p *Postgres) Prepare(ctx context.Context, records []record.Record) (sqldb.Putter, error) {
	embeddings, err := p.prepare(ctx, records)
	return func(ctx context.Context, tx sqldb.Tx, stored map[record.Key]bool) error {
		return postgresModels{p.pool}.putIn(ctx, tx.Postgres.Tx, tx.Postgres.Changes, p.model, embeddings(stored), Active)
	}, err
}

// Status implements leg.Searcher.
func (p *Postgres) Status(ctx context.Context, namespace string) (leg.Status, error) {
	tasks, err := queue.NewPostgres(p.Or(p.pool)).Status(ctx, indexName, namespace)
	if err != nil {
		return leg.Status{}, err
	}
	var indexed, excluded int64
	err = postgres.In(p.Or(p.pool), namespace).QueryRow(ctx, `
		SELECT (SELECT count(*) FROM dense.vectors WHERE namespace = $1 AND model_id = $2),
			(SELECT count(*) FROM memory.memories m WHERE m.namespace = $1 AND m.sensitive
				AND NOT EXISTS (SELECT FROM dense.model_rows r WHERE r.model_id = $2 AND r.sensitive))`, namespace, p.model).Scan(&indexed, &excluded)
	return status(p.embedder.Model(), tasks, indexed, excluded), err
}
