package graph

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/triskele/triskele/services/leg"
)

const (
	// damping is the share of a node's mass that is passed on, as in HippoRAG 2 (Gutiérrez et al., 2025).
	damping = 0.5
	// unit is the mass of all seeds. Masses are integers, so that the order of sums decides no rank.
	unit = 1 << 60
	// minMass is the least residual to push for each arc that leaves a node, maxArcs bounds the arcs of a search.
	minMass = unit / 1_000_000
	maxArcs = 200_000
	// namedRelation is the weight of facts with a relation in the query.
	namedRelation = 4
)

// node is a memory or a concept, by its place in a network.
type node uint32

func memoryAt(i uint32) node      { return node(i << 1) }
func conceptNodeAt(i uint32) node { return node(i<<1 | 1) }

func (v node) isConcept() bool { return v&1 == 1 }
func (v node) place() uint32   { return uint32(v >> 1) }

// walker computes personalised PageRank by forward push (Andersen, Chung, Lang: "Local graph partitioning using PageRank
// vectors", FOCS 2006). It works level by level, so that the order of rows does not change the result. The work depends
// on the mass, not on the size of the graph.
//
// A node with less than minMass for each of its arcs keeps it as residual. The scores are lower than exact ones, never higher: over all
// nodes together by at most damping times the residuals that are left. What a node still owes a neighbour is less than minMass.
// Only a walk of more than maxArcs arcs may leave more.
//
// A concept splits its mass equally between the memories it is the title of, all memories that mention it, and its facts.
// A fact passes half to its other end and half to its evidence. A memory splits its mass equally between its concepts,
// by salience and specificity, and its authors' links. Concepts of a single memory and hubs are skipped.
// Hubs pass nothing on, unless the query names them.
type walker struct {
	n        *network
	time     moment
	named    func(relation string) bool // reports whether the query names a relation
	least    int                        // memories skip concepts with fewer mentions
	hub      int                        // concepts with more mentions are hubs
	starts   map[node]bool
	maxLinks int

	leastSpecific, mostSpecific float64 // by hub and least

	*scratch
	from  map[node]hop // the hop with the most mass when a node was first reached; nil without explain
	level int32
	arcs  int
}

// scratch holds a search's buffers. It is pooled.
type scratch struct {
	visits     []visit  // by node
	answers    []answer // by memory: passable or not
	touched    []node
	next       []node // reached in this level, each once
	mass       []int64
	weights    []float64
	neighbours []neighbour
	facts      []*factRow
	shared     []uint8  // by concept: trigrams shared with a phrase; 0 between phrases
	sharing    []uint32 // concepts that share some
}

// visit is a node's state.
type visit struct {
	score, residual int64
	reached         int32 // the level that reached it last
}

// answer is a cached yes or no.
type answer uint8

const (
	unasked answer = iota
	yes
	no
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// begin takes clean buffers; end returns them.
func (w *walker) begin() {
	w.scratch = scratches.Get().(*scratch)
	if n := 2 * max(len(w.n.memories), len(w.n.concepts)); len(w.visits) < n {
		w.visits = make([]visit, n)
	}
	if n := len(w.n.memories); len(w.answers) < n {
		w.answers = make([]answer, n)
	}
	w.leastSpecific, w.mostSpecific = specificity(int64(w.hub)), specificity(int64(w.least))
}

func (w *walker) end() {
	for _, v := range w.touched {
		w.visits[v] = visit{}
	}
	clear(w.answers)
	w.touched = w.touched[:0]
	scratches.Put(w.scratch)
	w.scratch = nil
}

// start adds mass to a start node.
func (w *walker) start(v node, mass int64) {
	w.touched = append(w.touched, v)
	w.visits[v].reached = -1 // before any level
	w.visits[v].residual += mass
	if w.from != nil {
		w.from[v] = hop{before: v}
	}
}

// hop is a step to a node.
type hop struct {
	before node
	via    string // a relation
	mass   int64
	level  int32
}

// Relations of steps without a fact.
const (
	viaMention = "mentioned in"
	viaTitle   = "title of"
	viaNames   = "mentions"
	viaLinked  = "linked from"
)

// inverse names a relation from its other end.
func inverse(relation string) string { return "is " + relation + " of" }

// run pushes the seeds' mass, scaled to unit, and leaves the nodes' scores in w.visits.
func (w *walker) run(seeds []seed) {
	const fine = 1 << 40 // seeds are rounded to integers before they are summed
	of := map[node]int64{}
	var total int64
	for _, s := range seeds {
		weight := int64(s.weight * fine)
		of[s.node] += weight
		total += weight
	}
	frontier := slices.Sorted(maps.Keys(of))
	for _, v := range frontier {
		w.start(v, int64(float64(of[v])/float64(max(total, 1))*unit))
	}
	for len(frontier) > 0 && w.arcs < maxArcs {
		w.level++
		w.mass = w.mass[:0]
		for _, v := range frontier {
			w.mass = append(w.mass, w.visits[v].residual)
			w.visits[v].residual = 0
		}
		w.next = w.next[:0]
		for i, v := range frontier {
			passed := int64(damping * float64(w.mass[i]))
			w.visits[v].score += w.mass[i] - passed
			w.spread(v, float64(passed))
		}
		frontier = frontier[:0]
		for _, v := range w.next {
			if w.due(v) {
				frontier = append(frontier, v)
			}
		}
	}
	for _, v := range w.touched {
		w.visits[v].score += int64((1 - damping) * float64(w.visits[v].residual))
		w.visits[v].residual = 0
	}
}

// due reports whether a node's residual is at least minMass for each arc that leaves it.
func (w *walker) due(v node) bool {
	residual := w.visits[v].residual
	if residual < minMass {
		return false
	}
	degree := 0
	if at := v.place(); v.isConcept() {
		degree = len(w.n.concepts[at].mentions) + len(w.n.concepts[at].facts)
	} else {
		degree = len(w.n.memories[at].mentions) + len(w.n.memories[at].Links)
	}
	return residual >= minMass*int64(degree)
}

func (w *walker) give(from, to node, part float64, via string) {
	w.arcs++
	mass := int64(part)
	at := &w.visits[to]
	if at.reached != w.level {
		if at.reached == 0 {
			w.touched = append(w.touched, to)
		}
		at.reached = w.level
		w.next = append(w.next, to)
	}
	at.residual += mass
	if w.from == nil {
		return
	}
	if way, known := w.from[to]; !known || way.level == w.level && mass > way.mass {
		w.from[to] = hop{from, via, mass, w.level}
	}
}

func (w *walker) spread(v node, mass float64) {
	if v.isConcept() {
		w.spreadConcept(v, mass)
	} else {
		w.spreadMemory(v, mass)
	}
}

func (w *walker) spreadConcept(v node, mass float64) {
	row := &w.n.concepts[v.place()]
	if len(row.mentions) > w.hub && !w.starts[v] {
		return
	}
	var pages, mentions float64
	for _, a := range row.mentions {
		if w.passable(a.to) {
			mentions += float64(a.salience)
			if a.salience >= salienceTitle {
				pages++
			}
		}
	}
	w.arcs += len(row.mentions) + len(row.facts)
	var factSum float64
	w.facts, w.weights = w.facts[:0], w.weights[:0] // valid ones
	for _, f := range row.facts {
		if w.n.holds(f, w.time) {
			weight := 1.
			if w.named(f.Relation) {
				weight = namedRelation
			}
			w.facts, w.weights = append(w.facts, f), append(w.weights, weight)
			factSum += weight
		}
	}
	share := mass / max(1, present(pages)+present(mentions)+present(factSum))
	for _, a := range row.mentions {
		if !w.passable(a.to) {
			continue
		}
		if a.salience >= salienceTitle {
			w.give(v, memoryAt(a.to), share/pages, viaTitle)
		}
		w.give(v, memoryAt(a.to), share*float64(a.salience)/mentions, viaMention)
	}
	for i, fact := range w.facts {
		part := share * w.weights[i] / factSum / 2
		other, via := fact.target, fact.Relation
		if other == v.place() {
			if other = fact.source; w.from != nil {
				via = inverse(via)
			}
		}
		w.give(v, conceptNodeAt(other), part, via)
		w.give(v, memoryAt(fact.memory), part, fact.Relation)
	}
}

// passable reports whether a memory is live and not stale.
func (w *walker) passable(memory uint32) bool {
	known := &w.answers[memory]
	if *known == unasked {
		*known = no
		if w.n.live(memory, w.time) && !w.n.stale(memory, w.time) {
			*known = yes
		}
	}
	return *known == yes
}

func (w *walker) spreadMemory(v node, mass float64) {
	memory := &w.n.memories[v.place()]
	var sum float64
	w.weights = w.weights[:0]
	for _, a := range memory.mentions {
		weight := w.n.specific[a.to]
		if weight < w.leastSpecific || weight > w.mostSpecific {
			weight = 0
		}
		weight *= float64(a.salience)
		w.weights = append(w.weights, weight)
		sum += weight
	}
	links := w.n.links(w.neighbours[:0], v.place(), w.time, w.maxLinks)
	w.neighbours = links
	share := mass / max(1, present(sum)+present(float64(len(links))))
	for i, a := range memory.mentions {
		if weight := w.weights[i]; weight > 0 {
			w.give(v, conceptNodeAt(a.to), share*weight/sum, viaNames)
		}
	}
	for _, l := range links {
		w.give(v, memoryAt(l.memory), share/float64(len(links)), l.via)
	}
}

// neighbour is a memory linked by an author.
type neighbour struct {
	memory uint32
	via    string
}

// links appends the live memories linked with a memory in either direction, or none if there are more than most.
func (n *network) links(to []neighbour, memory uint32, t moment, most int) []neighbour {
	m, linkers := &n.memories[memory], n.linkersOf(memory)
	if len(m.Links)+len(linkers) > most {
		return to
	}
	for _, l := range m.Links {
		if target, known := n.ends.Find(l.Target); known && n.live(target, t) {
			to = append(to, neighbour{target, l.Relation})
		}
	}
	for _, from := range linkers {
		if n.live(from, t) {
			to = append(to, neighbour{from, viaLinked})
		}
	}
	return to
}

// present is 1 for amount > 0, else 0.
func present(amount float64) float64 {
	if amount > 0 {
		return 1
	}
	return 0
}

// relationsNamed returns whether a query names a relation: each of its words but stop words shares its stem with one of the query.
func relationsNamed(query []word) func(relation string) bool {
	const stem = 5 // common prefix, as in "founder" and "founded"
	known := map[string]bool{}
	return func(relation string) bool {
		named, seen := known[relation]
		if !seen {
			said := slices.DeleteFunc(words(relation, maxNameWords), func(w word) bool { return stopWord(w.fold) })
			named = len(said) > 0 && !slices.ContainsFunc(said, func(w word) bool {
				return !slices.ContainsFunc(query, func(q word) bool {
					return q.fold == w.fold || len(w.fold) >= stem && strings.HasPrefix(q.fold, w.fold[:stem])
				})
			})
			known[relation] = named
		}
		return named
	}
}

// rank walks from the concepts that the query names, else from the most similar concepts and facts; nil if nothing links.
func (n *network) rank(ctx context.Context, q leg.Query, pass func(row uint32) bool, text []word, ps []phrase, means meaning) *leg.Result {
	time := momentOf(q.AsOf, q.Filter.IncludeSuperseded)
	starts := n.link(ctx, text, ps, time)
	seeds := starts
	if len(starts) == 0 {
		seeds = n.meant(means, time)
	}
	if len(seeds) == 0 {
		return nil
	}
	w := walker{
		n: n, time: time, named: relationsNamed(text), least: 2, hub: n.hub(), starts: map[node]bool{}, maxLinks: maxDegree,
	}
	if q.Explain {
		w.from = map[node]hop{}
	}
	for _, s := range starts {
		w.starts[s.node] = true
	}
	w.begin()
	defer w.end()
	w.run(seeds)
	w.evenPages()
	found := w.ranking(q, pass)
	found.Coverage = n.coverage(text, ps, starts)
	return found
}

// evenPages raises memories with the same named title to the best one's score. The name is ambiguous, so importance and then
// recency decide.
func (w *walker) evenPages() {
	for _, v := range slices.SortedFunc(maps.Keys(w.starts), func(a, b node) int { return w.n.byID(a.place(), b.place()) }) {
		var pages []node
		var best int64
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

// ranking returns the best memories that pass.
func (w *walker) ranking(q leg.Query, pass func(row uint32) bool) *leg.Result {
	best := leg.TopRows(q.Depth, w.n.rows)
	for _, v := range w.touched {
		if at := v.place(); !v.isConcept() && pass(at) && w.passable(at) {
			best.Add(scored(at, float64(w.visits[v].score)/unit))
		}
	}
	found := best.Sorted()
	r := &leg.Result{Hits: q.Hits(w.n.rows, found)}
	entities := maps.Clone(w.starts)
	maps.DeleteFunc(entities, func(v node, _ bool) bool { return !w.n.entity(v.place(), w.time) })
	for i := range r.Hits {
		row := found[i].Row
		if w.from != nil {
			r.Paths = append(r.Paths, w.path(memoryAt(row)))
		}
		for _, a := range w.n.memories[row].mentions {
			if entities[conceptNodeAt(a.to)] {
				r.Hits[i].Concepts++
			}
		}
	}
	return r
}

// path returns the hops from a start to a node, by the most mass on first reach, with the keys of concepts.
func (w *walker) path(v node) []leg.Step {
	var out []leg.Step
	for {
		way := w.from[v]
		step := leg.Step{Relation: way.via}
		if at := v.place(); v.isConcept() {
			step.Concept = w.n.concepts[at].key
		} else {
			step.Memory = w.n.rows.IDs[at]
		}
		out = append(out, step)
		if way.before == v {
			break
		}
		v = way.before
	}
	slices.Reverse(out)
	return out
}
