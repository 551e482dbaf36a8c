package graph

import (
	"slices"
	"strings"
)

const (
	// damping is how much of a node's mass goes on; the rest stays. HippoRAG 2 (Gutiérrez et al., 2025) has 0.5 too.
	damping = 0.5
	// seedWeight is what the best memory among a search's seeds weighs, beside concepts of the query that weigh 1 together.
	// The same paper gives passages 0.05 of their score.
	seedWeight = 0.05
	// minMass is the least mass that is pushed on, maxArcs how many arcs one search crosses.
	minMass = 1e-6
	maxArcs = 400_000
	// namedRelation is how much more a fact weighs whose relation the query names.
	namedRelation = 4
)

// node is a memory or a concept of a network, by its place there.
type node int32

func memoryAt(i int32) node      { return node(i << 1) }
func conceptNodeAt(i int32) node { return node(i<<1 | 1) }

func (v node) isConcept() bool { return v&1 == 1 }
func (v node) place() int32    { return int32(v >> 1) }

// walker computes personalised PageRank by forward push (Andersen, Chung, Lang: "Local graph partitioning using PageRank
// vectors", FOCS 2006), level by level, so that the order of the rows has no say in the result. The work depends on the
// mass that is spread, not on the size of the graph.
//
// From a concept mass goes, in equal shares, to the memories that it is the title of, to all that mention it, and over the
// facts it is part of: half to the other end, half to the evidence. From a memory it goes, in equal shares, to the concepts
// it mentions, by salience and specificity, and over the links of authors. Concepts of a single memory lead nowhere, and
// those of too many memories are reached but lead no further, unless the query names them.
type walker struct {
	n        *network
	time     moment
	named    func(relation string) bool // whether the query names a relation
	hub      int                        // a concept that more memories mention is a hub
	starts   map[node]bool
	explain  bool
	maxLinks int

	score, residual map[node]float64
	from            map[node]hop // the way in, by which most of the mass came when the node was first reached
	level           int
	next            []node
	arcs            int
}

// hop is the way to a node from the one before.
type hop struct {
	before node
	via    string // a relation
	mass   float64
	level  int
}

// relations of steps that are no facts.
const (
	viaMention = "mentioned in"
	viaTitle   = "title of"
	viaNames   = "mentions"
	viaLinked  = "linked from"
)

// run spreads the seeds' mass, 1 in total, and leaves the scores of all nodes reached in w.score.
func (w *walker) run(seeds map[node]float64) {
	w.score, w.residual, w.from = map[node]float64{}, map[node]float64{}, map[node]hop{}
	var total float64
	frontier := make([]node, 0, len(seeds))
	for v := range seeds {
		frontier = append(frontier, v)
	}
	slices.Sort(frontier)
	for _, v := range frontier {
		total += seeds[v]
	}
	for _, v := range frontier {
		w.residual[v] = seeds[v] / total
		w.from[v] = hop{before: v}
	}
	for len(frontier) > 0 && w.arcs < maxArcs {
		w.level++
		mass := make([]float64, len(frontier))
		for i, v := range frontier {
			mass[i] = w.residual[v]
			delete(w.residual, v)
		}
		w.next = w.next[:0]
		for i, v := range frontier {
			w.score[v] += (1 - damping) * mass[i]
			w.spread(v, damping*mass[i])
		}
		frontier = frontier[:0]
		for _, v := range w.next {
			if w.residual[v] >= minMass {
				frontier = append(frontier, v)
			}
		}
		slices.Sort(frontier)
		frontier = slices.Compact(frontier)
	}
	for v, mass := range w.residual {
		w.score[v] += (1 - damping) * mass
	}
}

func (w *walker) give(from, to node, mass float64, via string) {
	w.arcs++
	w.residual[to] += mass
	w.next = append(w.next, to)
	if w.explain {
		if way, known := w.from[to]; !known || way.level == w.level && mass > way.mass {
			w.from[to] = hop{from, via, mass, w.level}
		}
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
	var pages []int32
	var mentions []arc // to memories, despite the name
	var sum float64
	for _, m := range row.mentions {
		w.arcs++
		if !w.n.live(m, w.time) || w.n.stale(m, w.time) {
			continue
		}
		salience := w.n.memories[m].salience(v.place())
		if salience >= salienceTitle {
			pages = append(pages, m)
		}
		mentions = append(mentions, arc{m, salience})
		sum += float64(salience)
	}
	var facts []factRef
	var factSum float64
	for _, f := range row.facts {
		w.arcs++
		if w.n.holds(f, w.time) {
			facts = append(facts, f)
			factSum += w.factWeight(f)
		}
	}
	share := mass / max(1, present(len(pages))+present(len(mentions))+present(len(facts)))
	for _, m := range pages {
		w.give(v, memoryAt(m), share/float64(len(pages)), viaTitle)
	}
	for _, m := range mentions {
		w.give(v, memoryAt(m.concept), share*float64(m.salience)/sum, viaMention)
	}
	for _, f := range facts {
		fact := &w.n.memories[f.memory].Facts[f.fact]
		part := share * w.factWeight(f) / factSum / 2
		other, via := fact.Target, fact.Relation
		if other == row.id {
			other, via = fact.Source, "is "+fact.Relation+" of"
		}
		w.give(v, conceptNodeAt(w.n.concept[other]), part, via)
		w.give(v, memoryAt(f.memory), part, fact.Relation)
	}
}

func (w *walker) factWeight(r factRef) float64 {
	if f := &w.n.memories[r.memory].Facts[r.fact]; w.named(f.Relation) {
		return namedRelation
	}
	return 1
}

func (w *walker) spreadMemory(v node, mass float64) {
	memory := &w.n.memories[v.place()]
	var sum float64
	weigh := func(a arc) float64 {
		c := &w.n.concepts[a.concept]
		if len(c.mentions) < 2 || len(c.mentions) > w.hub {
			return 0
		}
		return float64(a.salience) * c.specificity
	}
	for _, a := range memory.mentions {
		sum += weigh(a)
	}
	links := w.links(v.place())
	groups := present(len(links))
	if sum > 0 {
		groups++
	}
	share := mass / max(1, groups)
	for _, a := range memory.mentions {
		if weight := weigh(a); weight > 0 {
			w.give(v, conceptNodeAt(a.concept), share*weight/sum, viaNames)
		}
	}
	for _, l := range links {
		w.give(v, memoryAt(l.memory), share/float64(len(links)), l.via)
	}
}

// neighbour is the other end of an author's link in either direction.
type neighbour struct {
	memory int32
	via    string
}

// links returns the live memories that a memory links to or is linked from; none if they are too many to say anything.
func (w *walker) links(memory int32) []neighbour {
	m := &w.n.memories[memory]
	linkers := w.n.linkers[endKey(m.ID)]
	if len(m.Links)+len(linkers) > w.maxLinks {
		return nil
	}
	var out []neighbour
	for _, l := range m.Links {
		if target, known := w.n.ends[l.target]; known && w.n.live(target, w.time) {
			out = append(out, neighbour{target, l.relation})
		}
	}
	for _, from := range linkers {
		if w.n.live(from, w.time) {
			out = append(out, neighbour{from, viaLinked})
		}
	}
	return out
}

// salience is how much a memory is about a concept that it mentions.
func (m *memoryNode) salience(concept int32) float32 {
	for _, a := range m.mentions {
		if a.concept == concept {
			return a.salience
		}
	}
	return 0
}

func present(n int) float64 {
	if n > 0 {
		return 1
	}
	return 0
}

// relationsNamed returns whether a query names a relation: each of its words that says anything begins like a word of the
// query, as "founder" and "founded by" do.
func relationsNamed(query []word) func(relation string) bool {
	const stem = 5 // letters that two forms of a word share
	known := map[string]bool{}
	return func(relation string) bool {
		named, seen := known[relation]
		if seen {
			return named
		}
		for _, w := range words(relation, maxNameWords) {
			if stopWord(w.fold) {
				continue
			}
			named = slices.ContainsFunc(query, func(q word) bool {
				return q.fold == w.fold || len(w.fold) >= stem && strings.HasPrefix(q.fold, w.fold[:stem])
			})
			if !named {
				break
			}
		}
		known[relation] = named
		return named
	}
}
