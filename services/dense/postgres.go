package dense

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgvector/pgvector-go"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

// Parameters of the HNSW search, measured in docs/bench/dense.md.
const (
	// ef_search is efPerHit per hit, at least minEf, in a partition of efPartition vectors. It grows with the partition
	// to the power efGrowth. pgvector's limit is maxEf.
	efPerHit, minEf, maxEf = 6, 200, 1000
	efPartition, efGrowth  = 20_000, 0.4
	// maxScan bounds the vectors of an index scan. Beyond it, an exact scan is cheaper.
	maxScan = 20_000
	// defaultExactUpTo vectors are compared exactly faster than by the index (make bench-dense).
	defaultExactUpTo = 12_000
	// A namespace's size is cached for seenFor if it is seenFrom vectors or more.
	seenFor, seenFrom = time.Minute, 500
	// maxSeen bounds the cached sizes.
	maxSeen = 4096
)

// Postgres searches dense.vectors: exactly for few vectors, through an HNSW index for many. A namespace that has been
// searched long enough is read into memory and searched there, as on SQLite.
type Postgres struct {
	// MaxBytes is Config.VectorMemory in bytes. Set it before the first search.
	MaxBytes int64
	// ExactUpTo is the number of a namespace's or filter's memories that are compared exactly. Above it the index
	// is used. Set it before the first search.
	ExactUpTo int

	queue.Follower
	*postgres.Standby // for searches
	pool              *pgxpool.Pool
	embedder          embed.Embedder
	model             int64 // id in dense.models
	models            postgresModels
	seen              *lru.Cache[string, sighting] // sizes by namespace, from seenFrom vectors
	cache             cache
	scratch           sync.Pool       // of *scratch
	background        context.Context // bounds reading into memory
}

var (
	_ leg.Searcher   = (*Postgres)(nil)
	_ leg.AsyncIndex = (*Postgres)(nil)
	_ queue.Indexer  = (*Postgres)(nil)
)

// NewPostgres returns a store for the embedder's model. It registers and indexes the model if none is active. Another
// active model is an error. Searches read from the standby, unless it is nil. Reading vectors into memory ends
// with ctx.
func NewPostgres(ctx context.Context, pool *pgxpool.Pool, standby *postgres.Standby, embedder embed.Embedder, tasks queue.Store, config Config) (*Postgres, error) {
	if err := checkModel(embedder.Model()); err != nil {
		return nil, err
	}
	models := postgresModels{pool}
	model, err := models.start(ctx, standby.Or(pool), embedder.Model())
	if err != nil {
		return nil, err
	}
	seen, err := lru.New[string, sighting](maxSeen)
	if err != nil {
		return nil, err
	}
	return &Postgres{
		MaxBytes: config.bytes(), ExactUpTo: defaultExactUpTo, Follower: queue.Follow(tasks, indexName), Standby: standby, pool: pool, embedder: embedder, model: model, models: models, seen: seen,
		scratch: sync.Pool{New: func() any { return new(scratch) }}, background: ctx,
	}, nil
}

// Index implements queue.Indexer. It pauses when the model is not active.
func (p *Postgres) Index(ctx context.Context, records []record.Record) error {
	return index(ctx, p.models, p.embedder, p.model, records)
}

// Knows implements leg.AsyncIndex.
func (p *Postgres) Knows(ctx context.Context, namespace string, sequence int64) (known, gaveUp bool, err error) {
	return knows(ctx, p.models, p.Follower, p.model, namespace, sequence)
}

// Search implements leg.Searcher. Each kind of search is one round trip.
func (p *Postgres) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	vector, reason, err := queryVector(ctx, p.embedder, q)
	if err != nil {
		return leg.Result{}, err
	}
	if vector == nil {
		return abstain(reason), nil
	}
	result := found(q, p.embedder.Model(), vector, reason)
	s := search{Postgres: p, q: q, vector: vector}
	hits, cut, could, err := s.inMemory(ctx)
	if err == nil && !could {
		start := time.Now()
		hits, err = s.nearest(ctx)
		s.earn(time.Since(start))
	}
	if err != nil {
		return leg.Result{}, err
	}
	result.Hits = aboveMinScore(hits, q)
	if cut != "" {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_TRUNCATED, cut
	}
	return result, markOutdated(ctx, postgresModels{p.Or(p.pool)}, p.embedder.Model(), s.status, &result)
}

// search is one query.
type search struct {
	*Postgres
	q      leg.Query
	vector []float32
	// Results of run besides the hits.
	status    Status // of the model
	compared  int64  // vectors compared, if exact
	partition int64  // approximate vectors in the partition, if exact
}

// nearest tries the likely cheapest kind of search first and picks the next by its result.
func (s *search) nearest(ctx context.Context) ([]leg.Hit, error) {
	if !s.q.Filter.Narrow() {
		if hits, all, err := s.all(ctx); err != nil || all {
			return hits, err
		}
	}
	size, _ := s.sighting()
	ef := s.ef(size.partition)
	hits, err := s.approximate(ctx, ef, false)
	if err != nil || len(hits) == s.q.Depth {
		return hits, err
	}
	// Nearer vectors fail the filter, are not live, or are of other namespaces in the partition. At the same rate,
	// so many must be visited:
	needed := s.q.Depth * ef / max(len(hits), 1)
	switch {
	case needed+needed/2 <= maxEf:
		hits, err = s.approximate(ctx, needed+needed/2, false)
	default: // few pass, perhaps few enough for an exact search
		var all bool
		if hits, all, err = s.exact(ctx, s.ExactUpTo); err != nil || all {
			return hits, err
		}
		hits, err = s.approximate(ctx, ef, true)
	}
	if err != nil || len(hits) == s.q.Depth {
		return hits, err
	}
	hits, _, err = s.exact(ctx, math.MaxInt32) // the index may miss hits
	return hits, err
}

// sighting is the approximate size of a namespace and its partition.
type sighting struct {
	at                 time.Time
	vectors, partition int64
}

// sighting returns a namespace's recent size, if known.
func (s *search) sighting() (sighting, bool) {
	if size, ok := s.seen.Get(s.q.Namespace); ok && time.Since(size.at) < seenFor {
		return size, true
	}
	return sighting{}, false
}

// all compares all vectors of the namespace. It returns false if there are too many.
func (s *search) all(ctx context.Context) (hits []leg.Hit, all bool, err error) {
	size, known := s.sighting()
	if known && size.vectors > int64(s.ExactUpTo) {
		return nil, false, nil
	}
	if known {
		if hits, all, err = s.top(ctx); err != nil || all {
			return hits, all, err
		}
	}
	if hits, all, err = s.exact(ctx, s.ExactUpTo); err == nil && (s.compared >= seenFrom || !all) {
		s.seen.Add(s.q.Namespace, sighting{time.Now(), s.compared, s.partition})
	}
	return hits, all, err
}

// ef returns ef_search for a partition: larger ones need more for the same recall.
func (s *search) ef(partition int64) int {
	growth := math.Pow(max(1, float64(partition)/efPartition), efGrowth)
	return min(max(int(efPerHit*growth*float64(s.q.Depth)), minEf), maxEf)
}

// top compares all vectors of the namespace at half of exact's cost, because it joins only the best. It returns false
// if these do not suffice; then the hits are invalid.
func (s *search) top(ctx context.Context) (hits []leg.Hit, suffice bool, err error) {
	best := 2*s.q.Depth + 8 // some are not live
	var args postgres.Args
	namespace, query, limit := args.Add(s.q.Namespace), args.Add(pgvector.NewHalfVector(s.vector)), args.Add(best)
	// Ties with the last score may be missing.
	hits, err = s.run(ctx, nil, fmt.Sprintf(`
		WITH top AS MATERIALIZED (
			SELECT memory_id, round((1 - (embedding <=> %[1]s::halfvec)) * %[2]d) / %[2]d AS score
			FROM dense.vectors WHERE namespace = %[3]s AND model_id = %[4]d ORDER BY score DESC LIMIT %[5]s
		), best AS (
			SELECT t.memory_id, t.score, m.importance, m.created_at
			FROM top t JOIN memory.memories m ON m.namespace = %[3]s AND m.id = t.memory_id
			WHERE %[6]s AND (t.score > (SELECT min(score) FROM top) OR (SELECT count(*) FROM top) < %[5]s)
		)
		SELECT (SELECT status FROM dense.models WHERE id = %[4]d), (SELECT count(*) FROM top), NULL::bigint, best.*
		FROM (VALUES (1)) one LEFT JOIN best ON true
		ORDER BY score DESC, importance DESC, created_at DESC, memory_id LIMIT %[7]s`,
		query, scoreUnits, namespace, s.model, limit, postgres.Live(s.q.Filter, "m", &args), args.Add(s.q.Depth)), args)
	return hits, len(hits) == s.q.Depth || s.compared < int64(best), err
}

// exact compares up to limit memories. It returns false if there are more; then the
// hits are invalid.
func (s *search) exact(ctx context.Context, limit int) (hits []leg.Hit, all bool, err error) {
	var args postgres.Args
	namespace, query, depth := args.Add(s.q.Namespace), args.Add(pgvector.NewHalfVector(s.vector)), args.Add(s.q.Depth)
	live := postgres.Live(s.q.Filter, "m", &args)
	narrow := ""
	if s.q.Filter.Narrow() {
		narrow = "JOIN memory.memories m ON m.namespace = v.namespace AND m.id = v.memory_id AND " + live
	}
	// Without a filter most memories are live, so join only the best.
	hits, err = s.run(ctx, nil, fmt.Sprintf(`
		WITH scored AS MATERIALIZED (
			SELECT v.memory_id, v.tableoid AS part, round((1 - (v.embedding <=> %[1]s::halfvec)) * %[2]d) / %[2]d AS score
			FROM dense.vectors v %[3]s WHERE v.namespace = %[4]s AND v.model_id = %[5]d LIMIT %[6]s
		), best AS MATERIALIZED (
			SELECT s.memory_id, s.score, m.importance, m.created_at
			FROM (SELECT memory_id, score FROM scored ORDER BY score DESC OFFSET 0) s
			JOIN memory.memories m ON m.namespace = %[4]s AND m.id = s.memory_id
			WHERE %[7]s ORDER BY s.score DESC FETCH FIRST %[8]s ROWS WITH TIES
		)
		SELECT (SELECT status FROM dense.models WHERE id = %[5]d), (SELECT count(*) FROM scored),
			(SELECT reltuples::bigint FROM pg_class WHERE oid = (SELECT part FROM scored LIMIT 1)), best.*
		FROM (VALUES (1)) one LEFT JOIN best ON true
		ORDER BY score DESC, importance DESC, created_at DESC, memory_id LIMIT %[8]s`,
		query, scoreUnits, narrow, namespace, s.model, args.Add(limit+1), live, depth), args)
	return hits, s.compared <= int64(limit), err
}

// approximate searches the HNSW index. The statement must repeat the index's expression and condition exactly. It may
// miss hits. With iterate, the scan goes beyond ef until enough are found.
func (s *search) approximate(ctx context.Context, ef int, iterate bool) ([]leg.Hit, error) {
	settings := map[string]string{"hnsw.ef_search": strconv.Itoa(ef), "hnsw.iterative_scan": "off", "hnsw.max_scan_tuples": strconv.Itoa(maxScan)}
	if iterate {
		settings["hnsw.iterative_scan"] = "relaxed_order" // sorted again below
	}
	model := s.embedder.Model()
	compared := s.vector
	if model.QueryDimensions > 0 {
		compared = s.vector[:model.QueryDimensions]
	}
	var args postgres.Args
	namespace, query, near := args.Add(s.q.Namespace), args.Add(pgvector.NewHalfVector(s.vector)), args.Add(pgvector.NewHalfVector(compared))
	return s.run(ctx, settings, fmt.Sprintf(`
		WITH nearest AS MATERIALIZED (
			SELECT v.memory_id, v.embedding, m.importance, m.created_at
			FROM dense.vectors v JOIN memory.memories m ON m.namespace = v.namespace AND m.id = v.memory_id
			WHERE v.namespace = %[1]s AND v.model_id = %[2]d AND %[3]s
			ORDER BY %[4]s <#> %[5]s::halfvec LIMIT %[6]s
		), best AS (
			SELECT memory_id, round((1 - (embedding <=> %[7]s::halfvec)) * %[8]d) / %[8]d AS score, importance, created_at FROM nearest
		)
		SELECT (SELECT status FROM dense.models WHERE id = %[2]d), NULL::bigint, NULL::bigint, best.*
		FROM (VALUES (1)) one LEFT JOIN best ON true
		ORDER BY score DESC, importance DESC, created_at DESC, memory_id`,
		namespace, s.model, postgres.Live(s.q.Filter, "m", &args), indexed(model), near, args.Add(s.q.Depth), query, scoreUnits), args)
}

// run runs a search statement. Its columns are the model's status, the vectors compared, the vectors in the partition, and
// a hit, or NULLs without one.
func (s *search) run(ctx context.Context, settings map[string]string, statement string, args postgres.Args) (hits []leg.Hit, err error) {
	all := map[string]string{"jit": "off"} // compiling takes longer than the search
	maps.Copy(all, settings)
	rows, err := postgres.In(s.Or(s.pool), s.q.Namespace).Searching(all).Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var status *Status
		var compared, partition *int64
		var id *uuid.UUID
		var score, importance *float64
		var created *time.Time
		if err := rows.Scan(&status, &compared, &partition, &id, &score, &importance, &created); err != nil {
			return nil, err
		}
		s.status, s.compared, s.partition = orZero(status), orZero(compared), orZero(partition)
		if id != nil {
			hits = append(hits, leg.Hit{ID: *id, Score: *score, Importance: *importance, CreatedAt: created.UTC()})
		}
	}
	return hits, rows.Err()
}

// orZero returns zero for NULL.
func orZero[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
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
