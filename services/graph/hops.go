package graph

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
)

// hopWalk searches a network by hop decay. Each hop passes a share of the concepts' weights to concepts of the same memories and to the
// other ends of facts. A memory's score sums its concepts' weights, and it lends part of that along authors' links.
type hopWalk struct {
	n    *network
	time moment
	ways map[way]float64 // contribution of each step; nil without explain
}

// note records a step's contribution.
func (h *hopWalk) note(w way, share float64) {
	if h.ways != nil {
		h.ways[w] += share
	}
}

// hops searches by hop decay. It returns nil if no concept is known.
func (n *network) hops(q leg.Query, pass func(row uint32) bool, ps []phrase) *leg.Result {
	starts := n.starts(ps)
	if len(starts) == 0 {
		return nil
	}
	h := &hopWalk{n: n, time: momentOf(q.AsOf, q.Filter.IncludeSuperseded)}
	if q.Explain {
		h.ways = map[way]float64{}
	}
	frontier := map[uint32]float64{}
	for _, c := range starts {
		frontier[n.concept[c.concept]] = specificity(c.mentions)
	}
	scores, seen := map[uint32]float64{}, map[uint32]bool{}
	for hop := 0; len(frontier) > 0; hop++ {
		bound, degree := maxMentions, startDegree*maxDegree
		if hop > 0 {
			bound, degree = maxDegree, maxDegree
		}
		h.mentioned(frontier, bound, scores)
		if hop == maxHops {
			break
		}
		frontier = h.next(frontier, degree, seen)
	}
	h.linked(h.best(scores, candidates(q)), scores)
	found := leg.TopRows(q.Depth, n.rows)
	for at, score := range scores {
		if pass(at) && n.live(at, h.time) && !n.stale(at, h.time) {
			found.Add(scored(at, score))
		}
	}
	r := &leg.Result{Hits: q.Hits(n.rows, found.Sorted())}
	if q.Explain {
		r.Paths = routes(h.ways, r.Hits)
	}
	return r
}

// starts returns the query's known concepts.
func (n *network) starts(ps []phrase) []start {
	known := map[int64]int64{}
	for _, p := range ps {
		if at, there := n.concept[p.concept]; there && len(n.concepts[at].mentions) > 0 {
			known[p.concept] = int64(len(n.concepts[at].mentions))
		}
	}
	return link(ps, known, int64(n.indexed))
}

// next returns the heaviest unseen concepts one hop from the frontier. Those with more than degree mentions pass nothing on.
func (h *hopWalk) next(frontier map[uint32]float64, degree int, seen map[uint32]bool) map[uint32]float64 {
	for c := range frontier {
		seen[c] = true
	}
	weights := map[uint32]float64{}
	for _, c := range h.inOrder(frontier) {
		concept := &h.n.concepts[c]
		if len(concept.mentions) > degree {
			continue
		}
		give := func(other uint32, weight float64, relation string, back bool) {
			if share := frontier[c] * weight / float64(len(concept.mentions)); !seen[other] {
				weights[other] += hopDecay * share
				h.note(way{concept: h.n.concepts[other].id, fromConcept: concept.id, key: concept.key, relation: relation, back: back}, share)
			}
		}
		for _, a := range concept.mentions {
			if h.n.live(a.to, moment{at: h.time.at}) {
				h.together(c, a.to, give)
			}
		}
		for _, f := range concept.facts {
			switch {
			case !h.n.holds(f, h.time):
			case f.source == c:
				give(f.target, 1, f.Relation, false)
			default:
				give(f.source, 1, f.Relation, true)
			}
		}
	}
	heaviest := h.inOrder(weights)
	slices.SortStableFunc(heaviest, func(a, b uint32) int { return cmp.Compare(rounded(weights[b]), rounded(weights[a])) })
	out := map[uint32]float64{}
	for _, c := range heaviest[:min(len(heaviest), maxFrontier)] {
		out[c] = weights[c]
	}
	return out
}

// together gives weight to a memory's other salient concepts, if this one is salient too. A stated fact replaces the co-mention.
func (h *hopWalk) together(c, memory uint32, give func(uint32, float64, string, bool)) {
	var top []arc
	for _, a := range h.n.memories[memory].mentions {
		if a.salience >= salienceResolved {
			top = append(top, a)
		}
	}
	slices.SortStableFunc(top, func(a, b arc) int { return cmp.Compare(b.salience, a.salience) })
	top = top[:min(len(top), maxPaired)]
	own := slices.IndexFunc(top, func(a arc) bool { return a.to == c })
	if own < 0 {
		return
	}
	facts := h.n.memories[memory].Facts
	for _, a := range top {
		stated := func(f factRow) bool { return f.source == c && f.target == a.to || f.source == a.to && f.target == c }
		if a.to != c && !slices.ContainsFunc(facts, stated) {
			give(a.to, float64(a.salience)*float64(top[own].salience)/float64(len(top)-1), coMention, false)
		}
	}
}

// mentioned scores the newest memories of each concept, at most bound.
func (h *hopWalk) mentioned(frontier map[uint32]float64, bound int, scores map[uint32]float64) {
	for _, c := range h.inOrder(frontier) {
		concept := &h.n.concepts[c]
		weight := frontier[c] * h.n.specific[c]
		mentions := concept.mentions
		if len(mentions) > bound {
			mentions = slices.Clone(mentions)
			slices.SortFunc(mentions, func(a, b arc) int { return -h.compareMemories(a.to, b.to) })
			mentions = mentions[:bound]
		}
		for _, a := range mentions {
			via := viaMention
			if a.salience >= salienceTitle {
				via = viaTitle
			}
			scores[a.to] += weight * float64(a.salience)
			h.note(way{memory: h.n.rows.IDs[a.to], fromConcept: concept.id, key: concept.key, relation: via}, weight*float64(a.salience))
		}
	}
}

// best keeps the best memories in scores and returns them in order.
func (h *hopWalk) best(scores map[uint32]float64, limit int) []uint32 {
	list := slices.SortedFunc(maps.Keys(scores), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(rounded(scores[b]), rounded(scores[a])), -h.compareMemories(a, b))
	})
	for _, at := range list[min(len(list), limit):] {
		delete(scores, at)
	}
	return list[:min(len(list), limit)]
}

// linked adds the shares of memories linked by authors with the best ones.
func (h *hopWalk) linked(best []uint32, scores map[uint32]float64) {
	best = best[:min(len(best), maxFrontier)]
	lent := make([]float64, len(best))
	for i, at := range best {
		lent[i] = scores[at]
	}
	for i, at := range best {
		m := &h.n.memories[at]
		if expires := h.n.rows.Expires[at]; !h.n.live(at, h.time) || expires > 0 && expires <= h.time.ends {
			continue
		}
		share := hopDecay * lent[i] / float64(len(m.Links)+len(h.n.linkersOf(at)))
		for _, l := range h.n.links(nil, at, h.time, maxDegree) {
			scores[l.memory] += share
			h.note(way{memory: h.n.rows.IDs[l.memory], fromMemory: h.n.rows.IDs[at], relation: l.via}, share)
		}
	}
}

// inOrder sorts concepts by id, so that sums are reproducible.
func (h *hopWalk) inOrder(weights map[uint32]float64) []uint32 {
	return slices.SortedFunc(maps.Keys(weights), h.n.byID)
}

func (h *hopWalk) compareMemories(a, b uint32) int {
	return compareIDs(h.n.rows.IDs[a], h.n.rows.IDs[b])
}

// viaTogether relates two co-mentioned concepts.
const viaTogether = "mentioned with"

// way is a step of a hop-decay walk, from a concept or memory to a concept or memory. A nil memory means a concept.
type way struct {
	concept, fromConcept int64
	key                  string // of fromConcept
	memory, fromMemory   uuid.UUID
	relation             string
	back                 bool    // against the relation's direction
	share                float64 // contribution to the target's score or weight; 0 in keys of a map that has it
}

// via names the step.
func (w way) via() string {
	switch {
	case w.fromMemory != uuid.Nil && w.back:
		return viaLinked
	case w.relation == coMention:
		return viaTogether
	case w.back:
		return inverse(w.relation)
	}
	return w.relation
}

// better orders ways by their contribution.
func (w way) better(other way) bool {
	return cmp.Or(cmp.Compare(rounded(other.share), rounded(w.share)), cmp.Compare(w.fromConcept, other.fromConcept),
		compareIDs(w.fromMemory, other.fromMemory), cmp.Compare(w.via(), other.via())) < 0
}

// routes returns the path to each hit with the largest contributions, from a concept of the query, with the keys of concepts.
func routes(ways map[way]float64, hits []leg.Hit) [][]leg.Step {
	type place struct {
		concept int64
		memory  uuid.UUID
		lent    bool // by another memory
	}
	best := map[place]way{}
	for w, share := range ways {
		w.share = share
		to := place{w.concept, w.memory, w.fromMemory != uuid.Nil}
		if known, there := best[to]; !there || w.better(known) {
			best[to] = w
		}
	}
	out := make([][]leg.Step, len(hits))
	for i, hit := range hits {
		last, found := best[place{memory: hit.ID}]
		var path []leg.Step
		if lent, linked := best[place{memory: hit.ID, lent: true}]; linked && (!found || lent.better(last)) {
			path = append(path, leg.Step{Relation: lent.via(), Memory: hit.ID})
			hit.ID = lent.fromMemory
			last, found = best[place{memory: hit.ID}]
		}
		if !found {
			continue
		}
		path = append(path, leg.Step{Relation: last.via(), Memory: hit.ID})
		for more := true; more; {
			step := leg.Step{Concept: last.key}
			last, more = best[place{concept: last.fromConcept}]
			step.Relation = last.via()
			path = append(path, step)
		}
		slices.Reverse(path)
		out[i] = path
	}
	return out
}
