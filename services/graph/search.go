package graph

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

// store is what a search needs of an engine.
type store interface {
	source
	// walk searches by hop decay; phrases are those of the query.
	walk(ctx context.Context, q leg.Query, phrases []phrase) (leg.Result, error)
	// pick returns the memories among the given ones that a query may find, without scores and in no order.
	pick(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Hit, error)
	vectorStore
}

// searcher searches a store's graph in either way.
type searcher struct {
	store       store
	config      Config
	replicas    *replicas
	calibration *calibration
}

func newSearcher(s store, config Config) searcher {
	r := reader{source: s, model: config.modelName()}
	if r.model != "" {
		r.dims = config.Embedder.Model().Dimensions
	}
	return searcher{s, config, newReplicas(r, config.MaxArcs), &calibration{}}
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
		var found *ranking
		means := s.meaningOf(ctx, q)
		if len(ps) == 0 && len(means.vector) == 0 {
			return abstained(reasonNoWords, traversal), nil
		}
		ready, err := s.replicas.with(ctx, q.Namespace, func(n *network) { found = s.rank(n, q, text, ps, means) })
		if err != nil {
			return leg.Result{}, err
		}
		if ready {
			return s.hits(ctx, q, found)
		}
	}
	if len(ps) == 0 {
		return abstained(reasonNoWords, traversal), nil
	}
	result, err := s.store.walk(ctx, q, ps)
	if err == nil && traversal == triskelev1.Traversal_TRAVERSAL_PAGERANK && result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, reasonNotInMemory
	}
	return result, err
}

// ranking is what a walk through a network found: memories, best first, that are still to pass the filter.
type ranking struct {
	ids    []uuid.UUID
	scores map[uuid.UUID]float64
	match  map[uuid.UUID]int // how many entities that the query names each mentions
	// coverage is the share of the query's words with which it names things that the namespace knows something about.
	coverage float64
	paths    map[uuid.UUID][]waypoint // if they are to be explained
}

// waypoint is a stop of a path, by its place outside of the network.
type waypoint struct {
	relation string
	concept  int64
	memory   uuid.UUID // uuid.Nil for a concept
}

// rank walks from the concepts that the query names or, if it names none, from what is nearest in meaning, and from the
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
	for _, v := range slices.Sorted(maps.Keys(meant)) { // in order, so that the same add up to the same
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
	found := w.ranking(q)
	found.coverage = n.coverage(text, ps, starts, time)
	return found
}

// seedWeights scales the scores of the best seeds to 0 .. seedWeight, the worst of all seeds given being 0.
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

// ranking lists the memories reached.
func (w *walker) ranking(q leg.Query) *ranking {
	type scored struct {
		at    int32
		score float64
	}
	var list []scored
	for _, v := range w.touched {
		if !v.isConcept() && w.n.live(v.place(), w.time) && !w.n.stale(v.place(), w.time) {
			list = append(list, scored{v.place(), w.score[v]})
		}
	}
	slices.SortFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(math.Round(b.score*precision), math.Round(a.score*precision)),
			slices.Compare(w.n.memories[b.at].ID[:], w.n.memories[a.at].ID[:]))
	})
	list = list[:min(len(list), candidates(q))]
	r := &ranking{scores: map[uuid.UUID]float64{}, match: map[uuid.UUID]int{}, paths: map[uuid.UUID][]waypoint{}}
	for _, s := range list {
		m := &w.n.memories[s.at]
		r.ids = append(r.ids, m.ID)
		r.scores[m.ID] = s.score
		for _, a := range m.mentions {
			if w.starts[conceptNodeAt(a.to)] && w.n.entity(a.to, w.time) {
				r.match[m.ID]++
			}
		}
		if w.explain {
			r.paths[m.ID] = w.path(memoryAt(s.at))
		}
	}
	return r
}

// path returns the way by which most of a node's mass first came, from a start to the node.
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

// hits turns a ranking into an answer: what passes the filter, in the order of the scores.
func (s *searcher) hits(ctx context.Context, q leg.Query, r *ranking) (leg.Result, error) {
	if r == nil {
		return abstained(reasonNotLinked, triskelev1.Traversal_TRAVERSAL_PAGERANK), nil
	}
	picked, err := s.store.pick(ctx, q, r.ids)
	if err != nil {
		return leg.Result{}, err
	}
	floor := minScore(q)
	picked = slices.DeleteFunc(picked, func(h leg.Hit) bool { return r.scores[h.ID] < floor })
	for i := range picked {
		picked[i].Score, picked[i].Concepts = r.scores[picked[i].ID], r.match[picked[i].ID]
	}
	slices.SortFunc(picked, func(a, b leg.Hit) int {
		return cmp.Or(cmp.Compare(math.Round(b.Score*precision), math.Round(a.Score*precision)), cmp.Compare(b.Importance, a.Importance),
			b.CreatedAt.Compare(a.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	picked = picked[:min(len(picked), q.Depth)]
	result := leg.Result{Hits: picked, ScoreKind: scoreKind(triskelev1.Traversal_TRAVERSAL_PAGERANK), Coverage: r.coverage}
	if q.Explain {
		result.Paths, err = s.paths(ctx, q.Namespace, picked, r)
	}
	return result, err
}

// paths are the ways to the hits, with the names of the concepts on them.
func (s *searcher) paths(ctx context.Context, namespace string, hits []leg.Hit, r *ranking) ([][]leg.Step, error) {
	var ids []int64
	for _, h := range hits {
		for _, stop := range r.paths[h.ID] {
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
	out := make([][]leg.Step, len(hits))
	for i, h := range hits {
		for _, stop := range r.paths[h.ID] {
			out[i] = append(out[i], leg.Step{Relation: stop.relation, Concept: texts[stop.concept].name, Memory: stop.memory})
		}
	}
	return out, nil
}
