package dense

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
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
	models := NewPostgresModels(pool)
	reads := func() sqldb.DB { return sqldb.DB{Postgres: standby.Or(pool)} }
	model, err := models.start(ctx, reads().In(postgres.AllNamespaces), embedder.Model())
	if err != nil {
		return nil, err
	}
	p := &Postgres{
		ExactUpTo: defaultExactUpTo, searcher: newSearcher(images, embedder, tasks, models, stored{model: model, decode: appendSent}),
		Standby: standby, pool: pool, index: hnswIndex{background: ctx},
	}
	p.reads, p.tasks = reads, func() queue.Store { return queue.NewPostgres(standby.Or(pool)) }
	p.loading, p.fallback = 0.3, p
	return p, nil
}
