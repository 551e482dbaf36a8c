package graph

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

// store is the engine of a search.
type store interface {
	source
	// pick returns the memories among ids that pass the query's filter, unscored and unordered. The state is from
	// before the read.
	pick(ctx context.Context, q leg.Query, ids []uuid.UUID) (state, []leg.Hit, error)
	vectorStore
}

// tableWalker searches by hop decay in SQL. With q.Explain it also returns the path of
// each hit.
type tableWalker interface {
	walk(ctx context.Context, q leg.Query, phrases []phrase) (leg.Result, [][]waypoint, error)
}

// searcher searches by PageRank or hop decay.
type searcher struct {
	store       store
	tables      tableWalker // nil if the engine searches only in memory
	config      Config
	replicas    *replicas
	calibration *calibration
}

func newSearcher(s store, tables tableWalker, config Config) searcher {
	r := reader{source: s, model: config.modelName()}
	if r.model != "" {
		r.dims = config.Embedder.Model().Dimensions
	}
	share := 0.5 // share of a search's time for loading; the SQL search gets the rest
	if tables == nil {
		share = 0.9
	}
	return searcher{s, tables, config, newReplicas(r, config.MaxArcs, share), &calibration{}}
}

// Search implements leg.Searcher.
func (s *searcher) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	traversal := q.Traversal
	if traversal == triskelev1.Traversal_TRAVERSAL_UNSPECIFIED {
		traversal = s.config.Traversal
	}
	text := words(q.Text, maxQueryWords)
	ps := phrases(text, maxNameWords)
	if traversal == triskelev1.Traversal_TRAVERSAL_PAGERANK {
		if result, ready, err := s.pageRank(ctx, q, text, ps); ready || err != nil {
			return result, err
		}
	}
	if len(ps) == 0 {
		return abstained(reasonNoWords, traversal), nil
	}
	if s.tables == nil {
		return s.hopDecay(ctx, q, traversal, ps)
	}
	result, paths, err := s.tables.walk(ctx, q, ps)
	if err == nil && len(paths) > 0 {
		result.Paths, err = s.steps(ctx, q.Namespace, paths)
	}
	if err == nil && traversal == triskelev1.Traversal_TRAVERSAL_PAGERANK && result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, reasonNotInMemory
	}
	return result, err
}

// hopDecay searches the network by hop decay. It returns TRUNCATED for a PageRank search without a network.
func (s *searcher) hopDecay(ctx context.Context, q leg.Query, traversal triskelev1.Traversal, ps []phrase) (leg.Result, error) {
	var found *ranking
	if traversal == triskelev1.Traversal_TRAVERSAL_HOP_DECAY {
		ready, err := s.replicas.with(ctx, q.Namespace, func(n *network) { found = s.hops(n, q, ps) })
		if err != nil {
			return leg.Result{}, err
		}
		if ready {
			_, result, err := s.hits(ctx, q, found, traversal)
			return result, err
		}
	}
	return leg.Result{State: triskelev1.LegState_LEG_STATE_TRUNCATED, Reason: reasonNotLoaded, ScoreKind: scoreKind(traversal)}, nil
}

// pageRank searches the network and reports whether it could. It walks the cached network first, and repeats if the state
// read with the hits shows a change. Only a query without linked names is embedded.
func (s *searcher) pageRank(ctx context.Context, q leg.Query, text []word, ps []phrase) (leg.Result, bool, error) {
	var found *ranking
	var means meaning
	walk := func(n *network) { found = s.rank(n, q, text, ps, means) }
	embed := sync.OnceValue(func() meaning { return s.meaningOf(ctx, q) })
	at, warm := s.replicas.last(q.Namespace, walk)
	if found == nil {
		if means = embed(); len(ps) == 0 && len(means.vector) == 0 {
			return abstained(reasonNoWords, triskelev1.Traversal_TRAVERSAL_PAGERANK), true, nil
		}
		at, warm = s.replicas.last(q.Namespace, walk)
	}
	if warm {
		if now, result, err := s.hits(ctx, q, found, triskelev1.Traversal_TRAVERSAL_PAGERANK); at.covers(now) || err != nil {
			return result, true, err
		}
	}
	means = embed() // linked names may be gone
	ready, err := s.replicas.with(ctx, q.Namespace, walk)
	if !ready || err != nil {
		return leg.Result{}, false, err
	}
	_, result, err := s.hits(ctx, q, found, triskelev1.Traversal_TRAVERSAL_PAGERANK)
	return result, true, err
}

// ranking lists a walk's memories, best first, before the filter.
type ranking struct {
	list []reached
	// coverage is the share of the query inside titles.
	coverage float64
}

// reached is a memory with its score.
type reached struct {
	id    uuid.UUID
	score float64
	match int        // number of the query's entities that it mentions
	path  []waypoint // with explain
}

// rounded makes scores comparable.
func rounded(score float64) int64 { return int64(math.Round(score * precision)) }

// waypoint is a stop of a path.
type waypoint struct {
	relation string
	concept  int64
	memory   uuid.UUID // uuid.Nil for a concept
}

// rank walks from the concepts that the query names, else from the most similar concepts and facts, and from the
// seeds. It returns nil if nothing links.
func (s *searcher) rank(n *network, q leg.Query, text []word, ps []phrase, means meaning) *ranking {
	time := momentOf(q.AsOf, q.Filter.IncludeSuperseded)
	starts := n.link(text, ps, time)
	meant := map[node]float64{}
	if len(starts) == 0 {
		meant = n.meant(means, time)
	}
	if len(starts) == 0 && len(meant) == 0 {
		return nil
	}
	w := walker{
		n: n, time: time, named: relationsNamed(text), least: 2, hub: n.hub(), starts: map[node]bool{},
		explain: q.Explain, maxLinks: s.config.MaxDegree,
	}
	seeds := map[node]float64{}
	var total float64
	for _, c := range starts {
		total += c.weight
	}
	for _, v := range slices.Sorted(maps.Keys(meant)) { // sorted, for reproducible sums
		total += meant[v]
	}
	for _, c := range starts {
		v := conceptNodeAt(c.concept)
		w.starts[v] = true
		seeds[v] += c.weight / total
	}
	for v, weight := range meant {
		seeds[v] += weight / total
	}
	for id, weight := range seedWeights(q.Seeds) {
		if at, known := n.memory[id]; known && weight > 0 && n.live(at, time) {
			seeds[memoryAt(at)] += weight
		}
	}
	w.begin()
	defer w.end()
	w.run(seeds)
	w.evenPages()
	found := w.ranking(q)
	found.coverage = n.coverage(text, ps, starts)
	return found
}

// seedWeights scales the best seeds' scores to 0 .. seedWeight; the worst given seed is 0.
func seedWeights(seeds []leg.Seed) map[uuid.UUID]float64 {
	if len(seeds) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(seeds), func(a, b leg.Seed) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), slices.Compare(a.ID[:], b.ID[:]))
	})
	high, low := sorted[0].Score, sorted[len(sorted)-1].Score
	out := map[uuid.UUID]float64{}
	for _, s := range sorted[:min(len(sorted), maxSeeds)] {
		out[s.ID] = seedWeight
		if high > low {
			out[s.ID] *= (s.Score - low) / (high - low)
		}
	}
	return out
}

// evenPages raises memories with the same named title to the best one's score. The name is ambiguous, so importance and
// then recency decide.
func (w *walker) evenPages() {
	for _, v := range slices.Sorted(maps.Keys(w.starts)) {
		var pages []node
		best := 0.
		for _, a := range w.n.concepts[v.place()].mentions {
			if page := memoryAt(a.to); a.salience >= salienceTitle && w.passable(a.to) && w.visits[page].score > 0 {
				pages = append(pages, page)
				best = max(best, w.visits[page].score)
			}
		}
		for _, page := range pages {
			w.visits[page].score = best
		}
	}
}

// ranking lists the best memories, up to candidates.
func (w *walker) ranking(q leg.Query) *ranking {
	type scored struct {
		at  int32
		key int64 // the score, rounded
	}
	better := func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.key, a.key), bytes.Compare(w.n.memories[b.at].ID[:], w.n.memories[a.at].ID[:]))
	}
	var list []scored
	limit := candidates(q)
	least := int64(math.MinInt64) // least score to be listed
	for _, v := range w.touched {
		if v.isConcept() {
			continue
		}
		key := rounded(w.visits[v].score)
		if key < least || !w.passable(v.place()) {
			continue
		}
		if list = append(list, scored{v.place(), key}); len(list) == 2*limit {
			slices.SortFunc(list, better)
			list = list[:limit]
			least = list[limit-1].key
		}
	}
	slices.SortFunc(list, better)
	list = list[:min(len(list), limit)]
	r := &ranking{list: make([]reached, len(list))}
	for i, s := range list {
		m := &w.n.memories[s.at]
		r.list[i] = reached{id: m.ID, score: w.visits[memoryAt(s.at)].score}
		for _, a := range m.mentions {
			if w.starts[conceptNodeAt(a.to)] && w.n.entity(a.to, w.time) {
				r.list[i].match++
			}
		}
		if w.explain {
			r.list[i].path = w.path(memoryAt(s.at))
		}
	}
	return r
}

// path returns the hops from a start to a node, by the most mass on first reach.
func (w *walker) path(v node) []waypoint {
	var out []waypoint
	for {
		way := w.from[v]
		stop := waypoint{relation: way.via}
		if v.isConcept() {
			stop.concept = w.n.concepts[v.place()].id
		} else {
			stop.memory = w.n.memories[v.place()].ID
		}
		out = append(out, stop)
		if way.before == v {
			break
		}
		v = way.before
	}
	slices.Reverse(out)
	return out
}

// hits filters a ranking, sorts it and returns the result. It also returns the graph's current
// state.
func (s *searcher) hits(ctx context.Context, q leg.Query, r *ranking, traversal triskelev1.Traversal) (state, leg.Result, error) {
	if r == nil {
		now, err := s.store.state(ctx, q.Namespace)
		return now, abstained(reasonNotLinked, traversal), err
	}
	list := r.list
	for floor := minScore(q); len(list) > 0 && list[len(list)-1].score < floor; {
		list = list[:len(list)-1]
	}
	places := make(map[uuid.UUID]*reached, len(list))
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].id
		places[ids[i]] = &list[i]
	}
	few := enough(list, q)
	now, hits, err := s.store.pick(ctx, q, ids[:few])
	if err == nil && len(hits) < q.Depth && few < len(ids) {
		var more []leg.Hit
		_, more, err = s.store.pick(ctx, q, ids[few:])
		hits = append(hits, more...)
	}
	if err != nil {
		return state{}, leg.Result{}, err
	}
	for i := range hits {
		from := places[hits[i].ID]
		hits[i].Score, hits[i].Concepts = from.score, from.match
	}
	slices.SortFunc(hits, func(a, b leg.Hit) int {
		return cmp.Or(cmp.Compare(rounded(b.Score), rounded(a.Score)), cmp.Compare(b.Importance, a.Importance),
			b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	hits = hits[:min(len(hits), q.Depth)]
	result := leg.Result{Hits: hits, ScoreKind: scoreKind(traversal), Coverage: r.coverage}
	if !q.Explain {
		return now, result, nil
	}
	paths := make([][]waypoint, len(hits))
	for i, h := range hits {
		paths[i] = places[h.ID].path
	}
	result.Paths, err = s.steps(ctx, q.Namespace, paths)
	return now, result, err
}

// enough is how many memories to look up first: twice the query's depth, plus ties with the last score. A narrow filter
// needs all.
func enough(list []reached, q leg.Query) int {
	if q.Filter.Narrow() {
		return len(list)
	}
	n := min(2*q.Depth, len(list))
	for 0 < n && n < len(list) && rounded(list[n].score) == rounded(list[n-1].score) {
		n++
	}
	return n
}

// steps adds the concepts' names to paths.
func (s *searcher) steps(ctx context.Context, namespace string, paths [][]waypoint) ([][]leg.Step, error) {
	var ids []int64
	for _, path := range paths {
		for _, stop := range path {
			if stop.memory == uuid.Nil {
				ids = append(ids, stop.concept)
			}
		}
	}
	slices.Sort(ids)
	texts, err := s.store.texts(ctx, namespace, "", slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	out := make([][]leg.Step, len(paths))
	for i, path := range paths {
		for _, stop := range path {
			out[i] = append(out[i], leg.Step{Relation: stop.relation, Concept: texts[stop.concept].name, Memory: stop.memory})
		}
	}
	return out, nil
}
