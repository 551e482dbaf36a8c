package dense

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Parameters of searches in the database, measured in docs/bench/dense.md.
const (
	// ef_search is efPerHit per hit, at least minEf. pgvector's limit is maxEf. Namespaces that need an index are large.
	efPerHit, minEf, maxEf = 20, 200, 1000
	// maxScan bounds the vectors of an index scan. Beyond it, an exact scan is cheaper.
	maxScan = 20_000
	// defaultExactUpTo vectors are compared exactly faster than by the index (make bench-dense).
	defaultExactUpTo = 12_000
)

// searchInSQL searches the stored vectors. cause is why the namespace is not in memory.
func (l *Leg) searchInSQL(ctx context.Context, q leg.Query, vector []float32, cause error) (hits []leg.Hit, cut string, err error) {
	s := search{l, q, vector}
	hits, all, err := s.exact(ctx, l.ExactUpTo)
	if err == nil && !all {
		rest, cancel := context.WithTimeout(ctx, restOf(ctx)) // leaves time to answer with these hits
		defer cancel()
		if others, failed := s.others(rest, cause); postgres.IsTimeout(failed) && ctx.Err() == nil {
			cut = fmt.Sprintf("only %d vectors were compared in time", l.ExactUpTo+1)
		} else {
			hits, err = others, failed
		}
	}
	return slices.DeleteFunc(hits, func(hit leg.Hit) bool { return q.MinScore != nil && hit.Score < *q.MinScore }), cut, err
}

// restOf is the time that comparing all vectors may take.
func restOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Minute
	}
	left := time.Until(deadline)
	return left - max(left/20, 5*time.Millisecond)
}

// others searches what an exact search of the first vectors has left: through the index, which is built once a namespace is known to be
// too large for memory.
func (s search) others(ctx context.Context, cause error) (hits []leg.Hit, err error) {
	built, err := s.hasIndex(ctx)
	switch {
	case err != nil:
		return nil, err
	case !built && errors.Is(cause, replica.ErrTooLarge):
		s.wantIndex()
	case built:
		if hits, err = s.approximate(ctx); err != nil || len(hits) == s.q.Depth {
			return hits, err
		}
	}
	hits, _, err = s.exact(ctx, math.MaxInt32) // the index may miss hits
	return hits, err
}

// scoresInSQL returns the scores of memories.
func (l *Leg) scoresInSQL(ctx context.Context, namespace string, vector []float32, ids []uuid.UUID) (scores []leg.Hit, err error) {
	err = postgres.Search(ctx, l.Or(l.models.store.Pool), namespace, nil, func(tx pgx.Tx) error {
		scores, err = leg.HitsInSQL(ctx, tx, fmt.Sprintf(`
			SELECT memory_id, round((1 - (embedding <=> $1::halfvec)) * %[1]d) / %[1]d
			FROM dense.vectors WHERE namespace = $2 AND model_id = %[2]d AND memory_id = ANY($3)`, scoreUnits, l.model),
			pgvector.NewHalfVector(vector), namespace, ids)
		return err
	})
	return scores, err
}

// search is one query.
type search struct {
	*Leg
	q      leg.Query
	vector []float32
}

// exact compares up to limit memories. It returns false if there are more; then the hits are invalid.
func (s search) exact(ctx context.Context, limit int) (hits []leg.Hit, all bool, err error) {
	var args postgres.Args
	namespace, query, depth := args.Add(s.q.Namespace), args.Add(pgvector.NewHalfVector(s.vector)), args.Add(s.q.Depth)
	live := postgres.Live(s.q.Filter, "m", &args)
	narrow := ""
	if s.q.Filter.Narrow() {
		narrow = "JOIN memory.memories m ON m.namespace = v.namespace AND m.id = v.memory_id AND " + live
	}
	// Without a filter most memories are live, so join only the best.
	hits, compared, err := s.run(ctx, nil, fmt.Sprintf(`
		WITH scored AS MATERIALIZED (
			SELECT v.memory_id, round((1 - (v.embedding <=> %[1]s::halfvec)) * %[2]d) / %[2]d AS score
			FROM dense.vectors v %[3]s WHERE v.namespace = %[4]s AND v.model_id = %[5]d LIMIT %[6]s
		), best AS MATERIALIZED (
			SELECT s.memory_id, s.score, m.importance, m.created_at
			FROM (SELECT memory_id, score FROM scored ORDER BY score DESC OFFSET 0) s
			JOIN memory.memories m ON m.namespace = %[4]s AND m.id = s.memory_id
			WHERE %[7]s ORDER BY s.score DESC FETCH FIRST %[8]s ROWS WITH TIES
		)
		SELECT (SELECT count(*) FROM scored), memory_id, coalesce(score, 0) AS score, coalesce(importance, 0) AS importance, created_at
		FROM (VALUES (1)) one LEFT JOIN best ON true
		ORDER BY score DESC, importance DESC, created_at DESC, memory_id LIMIT %[8]s`,
		query, scoreUnits, narrow, namespace, s.model, args.Add(limit+1), live, depth), args)
	return hits, compared <= limit, err
}

// approximate searches the HNSW index. The statement must repeat the index's expression and condition exactly. It may
// miss hits. Under a filter, the scan goes on until enough are found.
func (s search) approximate(ctx context.Context) ([]leg.Hit, error) {
	settings := map[string]string{
		"hnsw.ef_search": strconv.Itoa(min(max(efPerHit*s.q.Depth, minEf), maxEf)), "hnsw.max_scan_tuples": strconv.Itoa(maxScan),
		"hnsw.iterative_scan": "relaxed_order", // sorted again below
	}
	model := s.embedder.Model()
	compared := s.vector
	if model.QueryDimensions > 0 {
		compared = s.vector[:model.QueryDimensions]
	}
	var args postgres.Args
	namespace, query, near := args.Add(s.q.Namespace), args.Add(pgvector.NewHalfVector(s.vector)), args.Add(pgvector.NewHalfVector(compared))
	hits, _, err := s.run(ctx, settings, fmt.Sprintf(`
		WITH nearest AS MATERIALIZED (
			SELECT v.memory_id, v.embedding, m.importance, m.created_at
			FROM dense.vectors v JOIN memory.memories m ON m.namespace = v.namespace AND m.id = v.memory_id
			WHERE v.namespace = %[1]s AND v.model_id = %[2]d AND %[3]s
			ORDER BY %[4]s <#> %[5]s::halfvec LIMIT %[6]s
		)
		SELECT 0::bigint, memory_id, round((1 - (embedding <=> %[7]s::halfvec)) * %[8]d) / %[8]d AS score, importance, created_at FROM nearest
		ORDER BY score DESC, importance DESC, created_at DESC, memory_id`,
		namespace, s.model, postgres.Live(s.q.Filter, "m", &args), indexed(model), near, args.Add(s.q.Depth), query, scoreUnits), args)
	return hits, err
}

// run runs a search statement. Its columns are the number of vectors compared, and a hit, whose id is NULL if there is none.
func (s search) run(ctx context.Context, settings map[string]string, statement string, args postgres.Args) (hits []leg.Hit, compared int, err error) {
	_, err = postgres.Query(ctx, postgres.In(s.models.store.Searched().Postgres, s.q.Namespace).Searching(settings), statement, args, func(row pgx.CollectableRow) (_ struct{}, err error) {
		var hit leg.Hit
		err = sqldb.FromPostgres(row)(&compared, &hit.ID, &hit.Score, &hit.Importance, &hit.CreatedAt)
		if hit.Own = hit.Score; hit.ID != uuid.Nil {
			hits = append(hits, hit)
		}
		return struct{}{}, err
	})
	return hits, compared, err
}

// hnswIndex is the HNSW index of a model's vectors. It is built when a namespace is found too large for memory.
type hnswIndex struct {
	background context.Context // bounds building
	building   sync.Mutex
	again      time.Time // when building is tried again; guarded by building
}

// tryAgain is when building is tried again, and besideAgain is after another process was found to build.
const tryAgain, besideAgain = 10 * time.Minute, 10 * time.Second

// hasIndex reports whether there is an index.
func (l *Leg) hasIndex(ctx context.Context) (valid bool, err error) {
	err = l.Or(l.models.store.Pool).QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_index WHERE indisvalid AND indexrelid = to_regclass($1))`,
		fmt.Sprintf("dense.vectors_near_%d", l.model)).Scan(&valid)
	return valid, err
}

// wantIndex has the index built in the background, unless that was tried lately.
func (l *Leg) wantIndex() {
	x := &l.index
	if !x.building.TryLock() {
		return
	}
	if time.Now().Before(x.again) {
		x.building.Unlock()
		return
	}
	x.again = time.Now().Add(tryAgain)
	go func() {
		defer x.building.Unlock()
		err := panics.Catch(x.background, nil, "build a vector index", func() error { return l.buildIndex(x.background) })
		if errors.Is(err, errNotAlone) {
			x.again = time.Now().Add(besideAgain)
		} else if err != nil && x.background.Err() == nil {
			slog.WarnContext(x.background, "vectors of a namespace that is too large for memory are compared one by one: an index cannot be built; "+
				"more memory for searches, or `triskele reembed` by the tables' owner, helps", "error", err.Error())
		}
	}()
}

// buildIndex notes that the active model's index is wanted, for this and later models, and builds it.
func (l *Leg) buildIndex(ctx context.Context) error {
	if tag, err := l.models.store.Pool.Exec(ctx, `UPDATE dense.models SET indexed = true WHERE id = $1 AND status = 'active'`, l.model); err != nil || tag.RowsAffected() == 0 {
		return err
	}
	return l.models.alone(ctx, func() error { return l.models.prepare(ctx, l.model, l.embedder.Model()) })
}
