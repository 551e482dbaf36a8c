package dense

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/postgres"
	"github.com/triskele/triskele/services/queue"
	"github.com/triskele/triskele/services/record"
)

// iterative is how an HNSW index goes on when what it found is filtered out: the order it loses is restored by sorting.
const iterative = "relaxed_order"

// Postgres searches the vectors in dense.vectors: exactly where few come into question, else through an HNSW index.
type Postgres struct {
	// ExactUpTo is how many memories of a namespace, or of those that pass a filter, are compared one by one. Above it
	// the index answers. Set it before the first search.
	ExactUpTo int

	queue.Follower
	pool     *pgxpool.Pool
	embedder embed.Embedder
	tasks    queue.Store
	model    int64 // of the embedder, in dense.models
	models   postgresModels
}

var (
	_ leg.Searcher  = (*Postgres)(nil)
	_ leg.Freshness = (*Postgres)(nil)
	_ queue.Indexer = (*Postgres)(nil)
)

// NewPostgres returns a store for the embedder's model, which it registers and creates an index for if the database has
// no active model yet. Another active model is an error.
func NewPostgres(ctx context.Context, pool *pgxpool.Pool, embedder embed.Embedder, tasks queue.Store) (*Postgres, error) {
	if err := checkModel(embedder.Model()); err != nil {
		return nil, err
	}
	models := postgresModels{pool}
	model, err := models.start(ctx, embedder.Model())
	if err != nil {
		return nil, err
	}
	return &Postgres{ExactUpTo: 2000, Follower: queue.Follow(tasks, indexName), pool: pool, embedder: embedder, tasks: tasks, model: model, models: models}, nil
}

// Index implements queue.Indexer. It is paused when the model is no longer active.
func (p *Postgres) Index(ctx context.Context, records []record.Record) error {
	return index(ctx, p.models, p.embedder, p.model, records)
}

// Knows implements leg.Freshness.
func (p *Postgres) Knows(ctx context.Context, namespace string, sequence int64) (known, gaveUp bool, err error) {
	return knows(ctx, p.models, p.Follower, p.model, namespace, sequence)
}

// Search implements leg.Searcher.
func (p *Postgres) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	vector, reason, err := queryVector(ctx, p.embedder, q)
	if err != nil {
		return leg.Result{}, err
	}
	if vector == nil {
		return abstain(reason), nil
	}
	settings := map[string]string{
		"hnsw.ef_search":      strconv.Itoa(min(max(q.Depth, 100), 1000)),
		"hnsw.iterative_scan": iterative, // a partition holds many namespaces, and not all memories are live
		"jit":                 "off",     // takes longer to compile than the search to run
	}
	if q.Filter.Narrow() {
		settings["hnsw.ef_search"] = strconv.Itoa(min(max(4*q.Depth, 100), 1000))
		settings["hnsw.iterative_scan"] = "off" // see nearest
	}
	var hits []leg.Hit
	var status Status
	err = postgres.Search(ctx, p.pool, q.Namespace, settings, func(tx pgx.Tx) error {
		var n int
		err := tx.QueryRow(ctx, fmt.Sprintf(`
			SELECT count(*), coalesce((SELECT status FROM dense.models WHERE id = %[1]d), '')
			FROM (SELECT FROM dense.vectors WHERE namespace = $1 AND model_id = %[1]d LIMIT $2) v`, p.model),
			q.Namespace, p.ExactUpTo+1).Scan(&n, &status)
		if err != nil {
			return err
		}
		hits, err = p.nearest(ctx, tx, q, pgvector.NewHalfVector(vector), n)
		return err
	})
	if err != nil {
		return leg.Result{}, err
	}
	result := found(q, p.embedder.Model(), vector, reason)
	result.Hits = aboveMinScore(hits, q)
	return result, markOutdated(ctx, p.models, p.embedder.Model(), status, &result)
}

// nearest chooses the way that is likely to be cheapest, and the next one if that finds too little. n is how many vectors
// the namespace has, counted up to one more than are compared one by one.
func (p *Postgres) nearest(ctx context.Context, tx pgx.Tx, q leg.Query, vector pgvector.HalfVector, n int) ([]leg.Hit, error) {
	if n <= p.ExactUpTo {
		hits, _, err := p.exact(ctx, tx, q, vector, math.MaxInt32)
		return hits, err
	}
	if q.Filter.Narrow() {
		// Enough of the nearest pass the filter unless it is a narrow one; then those that pass may be few, and else the
		// index has to be followed further.
		if hits, err := p.approximate(ctx, tx, q, vector); err != nil || len(hits) == q.Depth {
			return hits, err
		}
		if hits, all, err := p.exact(ctx, tx, q, vector, p.ExactUpTo); err != nil || all {
			return hits, err
		}
		if _, err := tx.Exec(ctx, `SELECT set_config('hnsw.iterative_scan', $1, true)`, iterative); err != nil {
			return nil, err
		}
	}
	if hits, err := p.approximate(ctx, tx, q, vector); err != nil || len(hits) == q.Depth {
		return hits, err
	}
	// The index gives up after hnsw.max_scan_tuples; there may be more.
	hits, _, err := p.exact(ctx, tx, q, vector, math.MaxInt32)
	return hits, err
}

// exact compares the query with up to limit memories and says whether those are all that come into question; if not, the
// hits mean nothing.
func (p *Postgres) exact(ctx context.Context, tx pgx.Tx, q leg.Query, vector pgvector.HalfVector, limit int) (hits []leg.Hit, all bool, err error) {
	var args postgres.Args
	namespace, query, depth := args.Add(q.Namespace), args.Add(vector), args.Add(q.Depth)
	live := postgres.Live(q.Filter, "m", &args)
	narrow := ""
	if q.Filter.Narrow() {
		narrow = "JOIN memory.memories m ON m.namespace = v.namespace AND m.id = v.memory_id AND " + live
	}
	// Without a filter most memories are live, so only those that rank high are looked up.
	rows, err := tx.Query(ctx, fmt.Sprintf(`
		WITH scored AS MATERIALIZED (
			SELECT v.memory_id, round((1 - (v.embedding <=> %[1]s::halfvec)) * %[2]d) / %[2]d AS score
			FROM dense.vectors v %[3]s WHERE v.namespace = %[4]s AND v.model_id = %[5]d LIMIT %[6]s
		), best AS MATERIALIZED (
			SELECT s.memory_id, s.score, m.importance, m.created_at
			FROM (SELECT memory_id, score FROM scored ORDER BY score DESC OFFSET 0) s
			JOIN memory.memories m ON m.namespace = %[4]s AND m.id = s.memory_id
			WHERE %[7]s ORDER BY s.score DESC FETCH FIRST %[8]s ROWS WITH TIES
		)
		SELECT memory_id, score, importance, created_at, (SELECT count(*) FROM scored)
		FROM best ORDER BY score DESC, importance DESC, created_at DESC, memory_id LIMIT %[8]s`,
		query, scoreUnits, narrow, namespace, p.model, args.Add(limit+1), live, depth), args...)
	if err != nil {
		return nil, false, err
	}
	var compared int
	hits, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (hit leg.Hit, err error) {
		err = row.Scan(&hit.ID, &hit.Score, &hit.Importance, &hit.CreatedAt, &compared)
		hit.CreatedAt = hit.CreatedAt.UTC()
		return hit, err
	})
	return hits, compared <= limit, err
}

// approximate asks the HNSW index, whose expression and condition the statement has to repeat to the letter. It may find
// less than there is.
func (p *Postgres) approximate(ctx context.Context, tx pgx.Tx, q leg.Query, vector pgvector.HalfVector) ([]leg.Hit, error) {
	var args postgres.Args
	namespace, query := args.Add(q.Namespace), args.Add(vector)
	rows, err := tx.Query(ctx, fmt.Sprintf(`
		WITH nearest AS MATERIALIZED (
			SELECT v.memory_id, v.embedding::halfvec(%[1]d) <=> %[2]s::halfvec AS distance, m.importance, m.created_at
			FROM dense.vectors v JOIN memory.memories m ON m.namespace = v.namespace AND m.id = v.memory_id
			WHERE v.namespace = %[3]s AND v.model_id = %[4]d AND %[5]s
			ORDER BY v.embedding::halfvec(%[1]d) <=> %[2]s::halfvec LIMIT %[6]s
		)
		SELECT memory_id, round((1 - distance) * %[7]d) / %[7]d AS score, importance, created_at
		FROM nearest ORDER BY score DESC, importance DESC, created_at DESC, memory_id`,
		p.embedder.Model().Dimensions, query, namespace, p.model, postgres.Live(q.Filter, "m", &args), args.Add(q.Depth), scoreUnits), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (hit leg.Hit, err error) {
		err = row.Scan(&hit.ID, &hit.Score, &hit.Importance, &hit.CreatedAt)
		hit.CreatedAt = hit.CreatedAt.UTC()
		return hit, err
	})
}

// Status implements leg.Searcher.
func (p *Postgres) Status(ctx context.Context, namespace string) (leg.Status, error) {
	tasks, err := p.tasks.Status(ctx, indexName, namespace)
	if err != nil {
		return leg.Status{}, err
	}
	var indexed, excluded int64
	err = postgres.In(p.pool, namespace).QueryRow(ctx, `
		SELECT (SELECT count(*) FROM dense.vectors WHERE namespace = $1 AND model_id = $2),
			(SELECT count(*) FROM memory.memories m WHERE m.namespace = $1 AND m.sensitive
				AND NOT EXISTS (SELECT FROM dense.model_rows r WHERE r.model_id = $2 AND r.sensitive))`, namespace, p.model).Scan(&indexed, &excluded)
	return status(p.embedder.Model(), tasks, indexed, excluded), err
}
