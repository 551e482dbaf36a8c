package graph

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// maxQueryWords is how much of a query is linked, maxNameWords how long a concept's name can be.
	maxQueryWords = 256
	maxNameWords  = 8
	// maxStarts is how many concepts a search starts from, the most specific ones.
	maxStarts = 16
	// hubFloor is how many memories may mention a concept before it can be a hub, and hubShare the part of the
	// namespace's memories, one in so many, that makes it one. Counting stops at hubCount memories.
	hubFloor = 50
	hubShare = 5
	hubCount = hubShare * maxMentions
	// AliasRelation is that of an edge from another name of a concept to the concept. Naming either names both.
	AliasRelation = "alias of"
	// maxMeant is how many concepts and how many facts a query links to in meaning, nearConcept and nearFact how near they
	// must be, on the way from unlike, 0, to the same, 1. evidenceShare is what a fact's evidence weighs beside the fact's ends.
	maxMeant      = 5
	nearConcept   = 0.7
	nearFact      = 0.35
	evidenceShare = 0.5
)

// start is a concept of the query.
type start struct {
	concept  int64
	mentions int64
}

func conceptIDs(ps []phrase) []int64 {
	ids := make([]int64, len(ps))
	for i, p := range ps {
		ids[i] = p.concept
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// link picks the concepts to start from among the known ones, given as mentions by id. A concept that more than a fifth
// of the namespace's memories mention says little; it links only if nothing else does. memories counts the namespace's
// memories, up to hubCount; it is called only if a concept might be such a hub.
func link(ps []phrase, known map[int64]int64, memories func() (int64, error)) ([]start, error) {
	var starts []start
	suspect := false
	for _, p := range longest(ps, known) {
		starts = append(starts, start{p.concept, known[p.concept]})
		suspect = suspect || known[p.concept] > hubFloor
	}
	if suspect {
		n, err := memories()
		if err != nil {
			return nil, err
		}
		limit := max(hubFloor, n/hubShare)
		if specific := slices.DeleteFunc(slices.Clone(starts), func(s start) bool { return s.mentions > limit }); len(specific) > 0 {
			starts = specific
		}
	}
	slices.SortFunc(starts, func(a, b start) int {
		return cmp.Or(cmp.Compare(a.mentions, b.mentions), cmp.Compare(a.concept, b.concept))
	})
	return starts[:min(len(starts), maxStarts)], nil
}

// weighted is a concept of a network to start from.
type weighted struct {
	concept int32
	weight  float64
}

// link picks the concepts to start from: those that a query names, if one of them is specific: the title of a memory,
// mentioned by no other, or part of a fact. Names that several memories drop by the way lead to too much that has nothing
// to do with the query. A single word that was only found in a text may have begun a sentence there: one that the query writes
// in lower case starts nothing beside what somebody has said is an entity.
func (n *network) link(text []word, ps []phrase, t moment) []weighted {
	starts := n.named(text, ps, t)
	specific := func(w weighted) bool {
		return len(n.concepts[w.concept].mentions) == 1 || n.hasPage(w.concept) || n.hasFact(w.concept, t)
	}
	if !slices.ContainsFunc(starts, specific) {
		return nil
	}
	doubtful := func(w weighted) bool {
		return !n.entity(w.concept, t) && slices.ContainsFunc(text, func(x word) bool {
			return ordinary(x.raw) && key([]word{x}) == n.concepts[w.concept].key
		})
	}
	if slices.ContainsFunc(starts, func(w weighted) bool { return n.entity(w.concept, t) }) {
		starts = slices.DeleteFunc(starts, doubtful)
	}
	return starts
}

// ordinary says whether a word is written like one that is no name.
func ordinary(raw string) bool {
	return strings.ToLower(raw) == raw && !strings.ContainsAny(raw, "0123456789")
}

// coverage is the share of a query's words, stop words outside of names not counted, with which it names those of its starts
// that a memory has for its title. What it asks about is then in the graph, rather than in its words. The words of a name that
// several memories mention count less, by its specificity: it is rather a subject than a thing.
func (n *network) coverage(text []word, ps []phrase, starts []weighted) float64 {
	known := map[int64]int64{}
	for _, w := range starts {
		if n.hasPage(w.concept) {
			known[n.concepts[w.concept].id] = int64(len(n.concepts[w.concept].mentions))
		}
	}
	names := make([]float64, len(text)) // by word: the specificity of the name that it is part of
	for _, p := range longest(ps, known) {
		for i := p.start; i < p.end; i++ {
			names[i] = max(names[i], specificity(known[p.concept])/specificity(1))
		}
	}
	named, all := 0., 0
	for i, w := range text {
		named += names[i]
		if names[i] > 0 || !stopWord(w.fold) {
			all++
		}
	}
	return named / float64(max(all, 1))
}

// named returns the concepts of the network that a query names: exactly or, if there is none, nearly. Each brings its
// other names along. Hubs link only if nothing else does, and then only those with a memory of which they are the title.
func (n *network) named(text []word, ps []phrase, t moment) []weighted {
	var out []weighted
	starts := n.starts(ps)
	for _, s := range starts {
		at := n.concept[s.concept]
		if s.mentions > int64(n.hub()) && !n.hasPage(at) {
			continue // everything is about it, and so it says nothing
		}
		out = append(out, weighted{at, specificity(s.mentions)})
	}
	if len(starts) == 0 {
		out = n.nearly(text)
	}
	for _, w := range out[:len(out):len(out)] {
		for _, r := range n.concepts[w.concept].facts {
			f := &n.memories[r.memory].Facts[r.fact]
			if f.Relation != AliasRelation || !n.holds(r, t) {
				continue
			}
			for _, at := range []int32{f.source, f.target} {
				other := weighted{at, w.weight}
				if !slices.ContainsFunc(out, func(w weighted) bool { return w.concept == other.concept }) && len(out) < 2*maxStarts {
					out = append(out, other)
				}
			}
		}
	}
	return out
}

// meant returns the concepts and facts that are nearest to a query in meaning, as nodes to start from with their weights.
// A fact is worth what it is about and its evidence.
func (n *network) meant(means meaning, t moment) map[node]float64 {
	out := map[node]float64{}
	mentioned := func(row int32) bool {
		mentions := len(n.concepts[row].mentions)
		return mentions > 0 && mentions <= n.hub()
	}
	for _, c := range n.meanings.nearest(means.vector, maxMeant, means.at(nearConcept), mentioned, n.byID) {
		out[conceptNodeAt(c.row)] += means.share(c.cosine) * n.concepts[c.row].specificity
	}
	holds := func(r factRef) bool { return n.holds(r, t) }
	stated := func(row int32) bool { return slices.ContainsFunc(n.said.stated[row], holds) }
	for _, f := range n.said.nearest(means.vector, maxMeant, means.at(nearFact), stated, n.byFact) {
		of, near := n.said.stated[f.row], means.share(f.cosine)
		fact := &n.memories[of[0].memory].Facts[of[0].fact]
		for _, at := range []int32{fact.source, fact.target} {
			out[conceptNodeAt(at)] += near * n.concepts[at].specificity
		}
		for _, r := range of {
			if holds(r) {
				out[memoryAt(r.memory)] += near * evidenceShare / float64(len(of))
			}
		}
	}
	return out
}

// byID orders concepts by what does not depend on the order in which they came.
func (n *network) byID(a, b int32) int { return cmp.Compare(n.concepts[a].id, n.concepts[b].id) }

// byFact does so with facts.
func (n *network) byFact(a, b int32) int {
	at := func(row int32) *factRow {
		r := n.said.stated[row][0]
		return &n.memories[r.memory].Facts[r.fact]
	}
	f, g := at(a), at(b)
	return cmp.Or(cmp.Compare(f.Source, g.Source), cmp.Compare(f.Target, g.Target), cmp.Compare(f.Relation, g.Relation))
}

// hub is how many memories may mention a concept that leads on.
func (n *network) hub() int { return max(hubFloor, len(n.memory)/hubShare) }

// hasFact says whether a concept is part of a fact that holds.
func (n *network) hasFact(concept int32, t moment) bool {
	return slices.ContainsFunc(n.concepts[concept].facts, func(r factRef) bool {
		return n.memories[r.memory].Facts[r.fact].Relation != AliasRelation && n.holds(r, t)
	})
}

// entity says whether somebody has said that a concept is one: it is a title, a tag or a keyword, or part of a fact. A name
// that was only found in a text may be any string, like Q3.
func (n *network) entity(concept int32, t moment) bool {
	return n.hasFact(concept, t) || slices.ContainsFunc(n.concepts[concept].mentions, func(a arc) bool { return a.salience >= salienceTag })
}

// hasPage says whether a concept is the title of a memory.
func (n *network) hasPage(concept int32) bool {
	return slices.ContainsFunc(n.concepts[concept].mentions, func(a arc) bool { return a.salience >= salienceTitle })
}
