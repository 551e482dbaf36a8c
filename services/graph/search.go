package graph

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// namesShare is the share of a search's remaining time for reading the names of a path's concepts.
const namesShare = 0.5

// tableWalker searches by hop decay in SQL. With q.Explain it also returns the path of
// each hit.
type tableWalker interface {
	walk(ctx context.Context, q leg.Query, phrases []phrase) (leg.Result, [][]waypoint, error)
}

// searcher searches by PageRank or hop decay.
type searcher struct {
	engine      engine
	tables      tableWalker // nil if the engine searches only in memory
	images      *replica.Set
	share       float64 // of a search's time, to wait for loading
	config      Config
	calibration *calibration
}

func newSearcher(e engine, tables tableWalker, images *replica.Set, read readFunc, config Config) searcher {
	r := reader{read: read, model: config.modelName()}
	if r.model != "" {
		r.dims = config.Embedder.Model().Dimensions
	}
	images.Register(indexName, replica.Graph, func(rows *replica.Rows) replica.Part { return newNetwork(rows, r) })
	share := 0.5 // the SQL search gets the rest
	if tables == nil {
		share = 0.9
	}
	return searcher{e, tables, images, share, config, &calibration{}}
}

// Search implements leg.Searcher. Only a query without linked names is embedded.
func (s *searcher) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	q.Traversal = cmp.Or(q.Traversal, s.config.Traversal)
	text := words(q.Text, maxQueryWords)
	ps := phrases(text, maxNameWords)
	var result leg.Result
	var err error
	linked := false
	if len(ps) > 0 {
		result, linked, err = s.inMemory(ctx, q, text, ps, meaning{})
	} else {
		result = abstained(reasonNoWords, q.Traversal)
	}
	if err == nil && !linked && q.Traversal == triskelev1.Traversal_TRAVERSAL_PAGERANK {
		if means := s.meaningOf(ctx, q); len(means.vector) > 0 {
			result, _, err = s.inMemory(ctx, q, text, ps, means)
		}
	}
	if errors.Is(err, replica.ErrCold) || errors.Is(err, replica.ErrTooLarge) {
		return s.fallback(ctx, q, ps, err)
	}
	return result, err
}

// fallback searches in SQL, or finds nothing, for a reason.
func (s *searcher) fallback(ctx context.Context, q leg.Query, ps []phrase, reason error) (leg.Result, error) {
	switch {
	case len(ps) == 0:
		return abstained(reasonNoWords, q.Traversal), nil
	case s.tables == nil:
		return leg.Result{State: triskelev1.LegState_LEG_STATE_TRUNCATED, Reason: reason.Error(), ScoreKind: scoreKind(q.Traversal)}, nil
	}
	result, paths, err := s.tables.walk(ctx, q, ps)
	if err == nil && len(paths) > 0 {
		result.Paths = s.steps(ctx, q.Namespace, paths)
	}
	if err == nil && result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, reason.Error()+searchedInSQL
	}
	return result, err
}

// inMemory searches the namespace's image. It reports whether the query links to a concept.
func (s *searcher) inMemory(ctx context.Context, q leg.Query, text []word, ps []phrase, means meaning) (leg.Result, bool, error) {
	result, found, err := s.inView(ctx, q, text, ps, means)
	if found != nil && q.Explain {
		result.Paths = s.steps(ctx, q.Namespace, found.paths)
	}
	return result, found != nil, err
}

// inView does so without the names of paths. Its ranking is nil if the query links to no concept.
func (s *searcher) inView(ctx context.Context, q leg.Query, text []word, ps []phrase, means meaning) (leg.Result, *ranking, error) {
	view, err := s.images.View(ctx, q.Namespace, replica.Need{Part: indexName, Filter: q.Filter, AsOf: q.AsOf, AtLeast: q.AtLeast, Question: q.Text}, s.share)
	if err != nil {
		return leg.Result{}, nil, err
	}
	defer view.Close()
	var found *ranking
	if n := view.Part.(*network); q.Traversal == triskelev1.Traversal_TRAVERSAL_PAGERANK {
		found = s.rank(n, q, view.Has, text, ps, means)
	} else {
		found = s.hops(n, q, view.Has, ps)
	}
	result := abstained(reasonNotLinked, q.Traversal)
	if found != nil {
		result = leg.Result{Hits: found.hits, ScoreKind: scoreKind(q.Traversal), Coverage: found.coverage}
	}
	result.From(view)
	return result, found, nil
}

// Status implements leg.Searcher.
func (s *searcher) Status(ctx context.Context, namespace string) (leg.Status, error) {
	status := leg.Status{Model: model}
	if err := ask(ctx, s.engine.searched(), namespace, dialects{
		"SELECT (SELECT count(*) FROM graph.link_ends WHERE namespace = $1), (SELECT count(*) FROM memory.memories WHERE namespace = $1 AND sensitive)",
		"SELECT (SELECT count(*) FROM graph_memories WHERE namespace = ?1), (SELECT count(*) FROM memories WHERE namespace = ?1 AND sensitive)",
	}, []any{&status.Indexed, &status.Excluded}); err != nil {
		return leg.Status{}, err
	}
	tasks, err := s.engine.tasks().Status(ctx, indexName, namespace)
	status.Pending, status.Dead, status.Lag = tasks.Pending, tasks.Dead, tasks.Lag
	return status, err
}

// ranking is the result of a search in memory.
type ranking struct {
	hits  []leg.Hit
	paths [][]waypoint // of hits, with explain
	// coverage is the share of the query inside titles.
	coverage float64
}

// rounded makes scores comparable.
func rounded(score float64) int64 { return int64(math.Round(score * precision)) }

// best collects the best memories. Scores are rounded, so that the order of summation decides no rank.
type best struct {
	rows  *replica.Rows
	depth int
	floor float64
	list  []scored
	least int64 // least score to be added
}

type scored struct {
	row uint32
	key int64 // the score times precision
}

func newBest(rows *replica.Rows, q leg.Query) *best {
	return &best{rows: rows, depth: q.Depth, floor: minScore(q), least: math.MinInt64}
}

func (b *best) add(row uint32, key int64) {
	if key < b.least || float64(key)/precision < b.floor {
		return
	}
	if b.list = append(b.list, scored{row, key}); len(b.list) == 2*b.depth {
		b.trim()
		b.least = b.list[b.depth-1].key
	}
}

func (b *best) trim() {
	slices.SortFunc(b.list, b.compare)
	b.list = b.list[:min(len(b.list), b.depth)]
}

// compare is leg.CompareHits.
func (b *best) compare(x, y scored) int {
	if x.key != y.key {
		return cmp.Compare(y.key, x.key)
	}
	return leg.CompareRows(b.rows, x.row, y.row)
}

// ranking returns the hits. path is nil without explain.
func (b *best) ranking(path func(row uint32) []waypoint) *ranking {
	b.trim()
	r := &ranking{hits: make([]leg.Hit, len(b.list))}
	for i, s := range b.list {
		r.hits[i] = leg.HitAt(b.rows, s.row, float64(s.key)/precision)
		if path != nil {
			r.paths = append(r.paths, path(s.row))
		}
	}
	return r
}

// waypoint is a stop of a path.
type waypoint struct {
	relation string
	concept  int64
	key      string    // of the concept, if known
	memory   uuid.UUID // uuid.Nil for a concept
}

// steps adds the concepts' names to paths. If the database does not answer, it adds their keys.
func (s *searcher) steps(ctx context.Context, namespace string, paths [][]waypoint) [][]leg.Step {
	var ids []int64
	for _, path := range paths {
		for _, stop := range path {
			if stop.memory == uuid.Nil {
				ids = append(ids, stop.concept)
			}
		}
	}
	slices.Sort(ids)
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(namesShare*float64(time.Until(deadline))))
		defer cancel()
	}
	names, _ := s.names(ctx, namespace, slices.Compact(ids)) // keys do without
	out := make([][]leg.Step, len(paths))
	for i, path := range paths {
		for _, stop := range path {
			out[i] = append(out[i], leg.Step{Relation: stop.relation, Concept: cmp.Or(names[stop.concept], stop.key), Memory: stop.memory})
		}
	}
	return out
}

// names returns the names of concepts that exist.
func (s *searcher) names(ctx context.Context, namespace string, ids []int64) (map[int64]string, error) {
	out := map[int64]string{}
	var id int64
	var name string
	b := &batch{namespace: namespace}
	b.query(dialects{
		"SELECT id, name FROM graph.concepts WHERE namespace = $1 AND id = ANY($2)",
		"SELECT c.id, c.name FROM json_each(?2) j CROSS JOIN graph_concepts c ON c.namespace = ?1 AND c.id = j.value",
	}, []any{&id, &name}, func() { out[id] = name }, ids)
	return out, s.engine.searched().send(ctx, b)
}
