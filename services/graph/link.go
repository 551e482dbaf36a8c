package graph

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/triskele/triskele/fuser/platform/slice"
)

const (
	// maxQueryWords bounds the linked words of a query, maxNameWords the words of a name.
	maxQueryWords = 256
	maxNameWords  = 8
	// maxStarts bounds the concepts a search starts from.
	maxStarts = 16
	// A concept is a hub if more than max(hubFloor, memories/hubShare) memories mention it. Counting stops at hubCount.
	hubFloor = 50
	hubShare = 5
	hubCount = hubShare * maxMentions
	// AliasRelation links an alias to its concept. Naming either names both.
	AliasRelation = "alias of"
	// maxMeant bounds the concepts and the facts linked by meaning. nearConcept and nearFact are their least similarities:
	// 0 is unlike, 1 the same. evidenceShare is the weight of a fact's evidence relative to its ends.
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
	ids := slice.Map(ps, func(p phrase) int64 { return p.concept })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// link picks start concepts among the known ones (mentions by id). A hub links only if nothing else does. memories is the namespace's
// number of memories, up to hubCount, or 0 if no concept is a possible hub.
func link(ps []phrase, known map[int64]int64, memories int64) []start {
	starts := slice.Map(longest(ps, known), func(p phrase) start { return start{p.concept, known[p.concept]} })
	limit := max(hubFloor, memories/hubShare)
	if specific := slices.DeleteFunc(slices.Clone(starts), func(s start) bool { return s.mentions > limit }); len(specific) > 0 {
		starts = specific
	}
	slices.SortFunc(starts, func(a, b start) int {
		return cmp.Or(cmp.Compare(a.mentions, b.mentions), cmp.Compare(a.concept, b.concept))
	})
	return starts[:min(len(starts), maxStarts)]
}

// seed is a node that a walk starts from, with its weight.
type seed struct {
	node
	weight float64
}

// link picks the concepts that a query names, if one of them is specific: a title, mentioned by a single memory, or part of a fact. A
// word found only in texts may have started a sentence there. It is dropped if it is in lower case beside an entity.
func (n *network) link(ctx context.Context, text []word, ps []phrase, t moment) []seed {
	starts := n.named(ctx, text, ps, t)
	specific := func(w seed) bool {
		return len(n.concepts[w.place()].mentions) == 1 || n.hasPage(w.place()) || n.hasFact(w.place(), t)
	}
	if !slices.ContainsFunc(starts, specific) {
		return nil
	}
	doubtful := func(w seed) bool {
		return !n.entity(w.place(), t) && slices.ContainsFunc(text, func(x word) bool {
			return ordinary(x.raw) && key([]word{x}) == n.concepts[w.place()].key
		})
	}
	if slices.ContainsFunc(starts, func(w seed) bool { return n.entity(w.place(), t) }) {
		starts = slices.DeleteFunc(starts, doubtful)
	}
	return starts
}

// ordinary reports whether a word looks like no name.
func ordinary(raw string) bool {
	return strings.ToLower(raw) == raw && !strings.ContainsAny(raw, "0123456789")
}

// coverage is the share of a query's words inside names that are titles of memories, 0 to 1. Stop words outside of names are
// ignored. Names with several mentions count less, by their specificity.
func (n *network) coverage(text []word, ps []phrase, starts []seed) float64 {
	known := map[int64]int64{}
	for _, w := range starts {
		if n.hasPage(w.place()) {
			known[n.concepts[w.place()].id] = int64(len(n.concepts[w.place()].mentions))
		}
	}
	names := make([]float64, len(text)) // by word: the specificity of its name
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

// named returns the concepts that a query names, by exact key or else by similar spelling, with their aliases. Hubs must be titles.
func (n *network) named(ctx context.Context, text []word, ps []phrase, t moment) []seed {
	var out []seed
	starts := n.starts(ps)
	for _, s := range starts {
		at := n.concept[s.concept]
		if s.mentions > int64(n.hub()) && !n.hasPage(at) {
			continue // a hub is too unspecific
		}
		out = append(out, seed{conceptNodeAt(at), specificity(s.mentions)})
	}
	if len(starts) == 0 {
		out = n.nearly(ctx, text)
	}
	for _, w := range out[:len(out):len(out)] {
		for _, f := range n.concepts[w.place()].facts {
			if f.Relation != AliasRelation || !n.holds(f, t) {
				continue
			}
			for _, at := range []uint32{f.source, f.target} {
				other := seed{conceptNodeAt(at), w.weight}
				if !slices.ContainsFunc(out, func(w seed) bool { return w.node == other.node }) && len(out) < 2*maxStarts {
					out = append(out, other)
				}
			}
		}
	}
	return out
}

// meant returns as seeds the concepts most similar to the query, and the ends and evidence of the most similar facts. Some come twice.
func (n *network) meant(means meaning, t moment) (out []seed) {
	mentioned := func(row uint32) bool {
		mentions := len(n.concepts[row].mentions)
		return mentions > 0 && mentions <= n.hub()
	}
	for _, c := range n.meanings.nearest(means.vector, maxMeant, means.at(nearConcept), mentioned, n.byID) {
		out = append(out, seed{conceptNodeAt(c.row), means.share(c.cosine) * n.specific[c.row]})
	}
	holds := func(f *factRow) bool { return n.holds(f, t) }
	stated := func(row uint32) bool { return slices.ContainsFunc(n.said.stated[row], holds) }
	for _, f := range n.said.nearest(means.vector, maxMeant, means.at(nearFact), stated, n.byFact) {
		of, near := n.said.stated[f.row], means.share(f.cosine)
		for _, at := range []uint32{of[0].source, of[0].target} {
			out = append(out, seed{conceptNodeAt(at), near * n.specific[at]})
		}
		for _, r := range of {
			if holds(r) {
				out = append(out, seed{memoryAt(r.memory), near * evidenceShare / float64(len(of))})
			}
		}
	}
	return out
}

// spelled returns the concept of a name in any spelling, if a memory mentions it.
func (n *network) spelled(name string) (at uint32, known bool) {
	at, known = n.concept[conceptID(Key(name))]
	return at, known && len(n.concepts[at].mentions) > 0
}

// byID orders concepts by id, independent of insertion order.
func (n *network) byID(a, b uint32) int { return cmp.Compare(n.concepts[a].id, n.concepts[b].id) }

// byFact does so for facts.
func (n *network) byFact(a, b uint32) int {
	f, g := n.said.stated[a][0], n.said.stated[b][0]
	return cmp.Or(cmp.Compare(f.Source, g.Source), cmp.Compare(f.Target, g.Target), cmp.Compare(f.Relation, g.Relation))
}

// hub is the most mentions of a concept that is no hub.
func (n *network) hub() int { return max(hubFloor, n.indexed/hubShare) }

// hasFact reports whether a concept has a current fact.
func (n *network) hasFact(concept uint32, t moment) bool {
	return slices.ContainsFunc(n.concepts[concept].facts, func(f *factRow) bool {
		return f.Relation != AliasRelation && n.holds(f, t)
	})
}

// entity reports whether a concept is a title, tag, keyword, or part of a fact. One only found in texts may be any string.
func (n *network) entity(concept uint32, t moment) bool {
	return n.concepts[concept].tags > 0 || n.hasFact(concept, t)
}

// hasPage reports whether a concept is a title.
func (n *network) hasPage(concept uint32) bool { return n.concepts[concept].titles > 0 }
