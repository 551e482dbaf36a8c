package graph

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// network is a namespace's graph in memory: a sparse matrix by rows. A changed memory changes only its own row and
// those of its concepts. The network equals the tables at a version, independent of the order of
// changes.
type network struct {
	at state

	memories  []memoryNode
	memory    map[uuid.UUID]int32
	ends      map[int64]int32   // memories by endKey
	linkers   map[int64][]int32 // memories that link to an endKey, ascending
	free      []int32           // free places in memories
	concepts  []conceptNode
	concept   map[int64]int32
	arcs      int // mentions, facts and links, plus the vectors in units of arcs
	fuzzy     fuzzyIndex
	meanings  space // vectors of concepts, by place
	said      statedSpace
	relations map[string]string // interned strings
}

// memoryNode is a memory's row.
type memoryNode struct {
	memoryRows
	key      int64 // an endKey
	alive    bool
	mentions []arc
}

// arc is a mention, from either end.
type arc struct {
	to       int32 // place of the concept, or of the memory
	salience float32
}

// conceptNode is a concept's row. Without mentions it keeps its place but loses its key.
type conceptNode struct {
	id          int64
	key         string
	mentions    []arc // by memories, ascending
	facts       []factRef
	specificity float64
}

// factRef is a fact of a memory.
type factRef struct{ memory, fact int32 }

// memoryRows are a memory's table rows.
type memoryRows struct {
	ID       uuid.UUID
	From, To int64 // validity in microseconds; To 0 is open
	Expires  int64 // 0 means never
	Mentions []mention
	Facts    []factRow
	Links    []authorLink
}

// factRow is a stated edge, not a co-mention.
type factRow struct {
	Source, Target int64
	Relation       string
	Single         bool  // one target at a time
	From, To       int64 // microseconds; To 0 is open
	Vector         code  // of the network's model; nil if it has none or a row has it
	source, target int32 // places of Source and Target
}

// fact identifies a fact without its evidence.
type fact struct {
	source, target int64
	relation       string
}

// statedSpace holds one vector per distinct fact.
type statedSpace struct {
	space
	rows   map[fact]int32
	stated [][]factRef // by row
	free   []int32
}

// newNetwork returns an empty network for vectors of dims dimensions; 0 means none.
func newNetwork(dims int) *network {
	return &network{
		memory: map[uuid.UUID]int32{}, ends: map[int64]int32{}, linkers: map[int64][]int32{}, concept: map[int64]int32{},
		relations: map[string]string{}, meanings: space{dims: dims}, said: statedSpace{space: space{dims: dims}, rows: map[fact]int32{}},
	}
}

// put adds or replaces a memory.
func (n *network) put(rows memoryRows) {
	n.drop(rows.ID)
	at := int32(len(n.memories))
	if last := len(n.free) - 1; last >= 0 {
		at, n.free = n.free[last], n.free[:last]
	} else {
		n.memories = append(n.memories, memoryNode{})
	}
	node := memoryNode{memoryRows: rows, key: endKey(rows.ID), alive: true}
	for _, m := range rows.Mentions {
		c := n.conceptAt(m.concept)
		node.mentions = append(node.mentions, arc{c, float32(m.salience)})
		row := &n.concepts[c]
		if i, known := slices.BinarySearchFunc(row.mentions, at, byPlace); !known {
			row.mentions = slices.Insert(row.mentions, i, arc{at, float32(m.salience)})
		}
		row.specificity = specificity(int64(len(row.mentions)))
	}
	node.Mentions = nil // replaced by arcs
	for i := range node.Facts {
		f := &node.Facts[i]
		if same, known := n.relations[f.Relation]; known {
			f.Relation = same
		} else {
			n.relations[f.Relation] = f.Relation
		}
		f.source, f.target = n.conceptAt(f.Source), n.conceptAt(f.Target)
		for _, c := range []int32{f.source, f.target} {
			row := &n.concepts[c]
			row.facts = append(row.facts, factRef{at, int32(i)})
		}
		n.state(factRef{at, int32(i)}, f)
	}
	for _, l := range rows.Links {
		n.linkers[l.target] = insert(n.linkers[l.target], at)
	}
	n.memories[at], n.memory[rows.ID], n.ends[node.key] = node, at, at
	n.arcs += node.size()
}

// drop removes a memory, if it is there.
func (n *network) drop(id uuid.UUID) {
	at, known := n.memory[id]
	if !known {
		return
	}
	node := n.memories[at]
	for _, a := range node.mentions {
		row := &n.concepts[a.to]
		if i, known := slices.BinarySearchFunc(row.mentions, at, byPlace); known {
			row.mentions = slices.Delete(row.mentions, i, i+1)
		}
		row.specificity = specificity(int64(len(row.mentions)))
		if len(row.mentions) == 0 {
			row.key = "" // it may be private text
			n.forget(a.to)
		}
	}
	for i := range node.Facts {
		f := &node.Facts[i]
		n.unstate(factRef{at, int32(i)}, f)
		for _, c := range []int32{f.source, f.target} {
			row := &n.concepts[c]
			row.facts = slices.DeleteFunc(row.facts, func(r factRef) bool { return r.memory == at })
		}
	}
	for _, l := range node.Links {
		if left := remove(n.linkers[l.target], at); len(left) > 0 {
			n.linkers[l.target] = left
		} else {
			delete(n.linkers, l.target)
		}
	}
	delete(n.memory, id)
	delete(n.ends, node.key)
	n.arcs -= node.size()
	n.memories[at] = memoryNode{}
	n.free = append(n.free, at)
}

func (m *memoryNode) size() int { return len(m.mentions) + len(m.Facts) + len(m.Links) }

func (n *network) conceptAt(id int64) int32 {
	at, known := n.concept[id]
	if !known {
		at = int32(len(n.concepts))
		n.concepts = append(n.concepts, conceptNode{id: id})
		n.concept[id] = at
	}
	return at
}

// unnamed returns the ids of mentioned concepts without a key, and of concepts in changed memories without
// a vector.
func (n *network) unnamed(changed []memoryRows) []int64 {
	var ids []int64
	for i := range n.concepts {
		if c := &n.concepts[i]; c.key == "" && len(c.mentions) > 0 {
			ids = append(ids, c.id)
		}
	}
	if n.meanings.dims == 0 {
		return ids
	}
	for _, rows := range changed {
		for _, m := range rows.Mentions {
			if at, known := n.concept[m.concept]; known && n.concepts[at].key != "" && !n.meanings.has(at) {
				ids = append(ids, m.concept)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// name sets a concept's key and vector.
func (n *network) name(id int64, is conceptText) {
	at, known := n.concept[id]
	if !known || len(n.concepts[at].mentions) == 0 {
		return
	}
	if n.concepts[at].key == "" {
		n.fuzzy.named = append(n.fuzzy.named, at)
	}
	n.concepts[at].key = is.key
	if had := n.meanings.has(at); n.meanings.set(at, is.vector) && !had {
		n.arcs += n.meanings.rowArcs()
	}
}

// forget removes a concept's vector.
func (n *network) forget(concept int32) {
	if n.meanings.has(concept) {
		n.meanings.clear(concept)
		n.arcs -= n.meanings.rowArcs()
	}
}

// state adds a fact's statement and its vector.
func (n *network) state(r factRef, f *factRow) {
	vector, of := f.Vector, fact{f.Source, f.Target, f.Relation}
	f.Vector = nil
	row, known := n.said.rows[of]
	if !known {
		row = int32(len(n.said.stated))
		if last := len(n.said.free) - 1; last >= 0 {
			row = n.said.free[last]
		}
		if !n.said.set(row, vector) {
			return
		}
		if int(row) == len(n.said.stated) {
			n.said.stated = append(n.said.stated, nil)
		} else {
			n.said.free = n.said.free[:len(n.said.free)-1]
		}
		n.said.rows[of] = row
		n.arcs += n.said.rowArcs()
	}
	n.said.stated[row] = append(n.said.stated[row], r)
}

// unstate removes a statement, and the vector with the last one.
func (n *network) unstate(r factRef, f *factRow) {
	of := fact{f.Source, f.Target, f.Relation}
	row, known := n.said.rows[of]
	if !known {
		return
	}
	n.said.stated[row] = slices.DeleteFunc(n.said.stated[row], func(other factRef) bool { return other == r })
	if len(n.said.stated[row]) == 0 {
		delete(n.said.rows, of)
		n.said.clear(row)
		n.said.free = append(n.said.free, row)
		n.arcs -= n.said.rowArcs()
	}
}

// keep drops all other memories.
func (n *network) keep(ids []uuid.UUID) {
	left := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		left[id] = true
	}
	for id := range n.memory {
		if !left[id] {
			n.drop(id)
		}
	}
}

func byPlace(a arc, at int32) int { return cmp.Compare(a.to, at) }

// insert adds v to an ascending list once.
func insert(list []int32, v int32) []int32 {
	at, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, at, v)
}

// remove deletes v from an ascending list.
func remove(list []int32, v int32) []int32 {
	at, found := slices.BinarySearch(list, v)
	if !found {
		return list
	}
	return slices.Delete(list, at, at+1)
}

// moment is the time of a search.
type moment struct {
	at         int64 // microseconds; 0 is now
	superseded bool  // include superseded memories
}

// momentOf returns a search's moment; zero asOf is now.
func momentOf(asOf time.Time, superseded bool) moment {
	if asOf.IsZero() {
		return moment{superseded: superseded}
	}
	return moment{asOf.UnixMicro(), superseded}
}

// within reports whether a span has the moment.
func (t moment) within(from, to int64) bool {
	if t.at == 0 {
		return to == 0
	}
	return from <= t.at && (to == 0 || to > t.at)
}

// live reports whether a memory takes part in a search.
func (n *network) live(memory int32, t moment) bool {
	m := &n.memories[memory]
	if !m.alive || t.superseded && t.at == 0 {
		return m.alive
	}
	return t.within(m.From, m.To) || t.superseded && m.From <= t.at
}

// holds reports whether a fact is valid at a moment: its evidence is live, the moment is inside its span, and no newer
// fact has closed it.
func (n *network) holds(r factRef, t moment) bool {
	m := &n.memories[r.memory]
	f := &m.Facts[r.fact]
	if !n.live(r.memory, moment{at: t.at}) || !t.within(f.From, f.To) {
		return false
	}
	_, closed := n.closing(r, t)
	return !closed
}

// closing returns the earliest later fact that has closed a fact.
func (n *network) closing(r factRef, t moment) (by factRef, closed bool) {
	f := &n.memories[r.memory].Facts[r.fact]
	if !f.Single {
		return factRef{}, false
	}
	for _, other := range n.concepts[f.source].facts {
		m := &n.memories[other.memory]
		g := &m.Facts[other.fact]
		if g.Source != f.Source || g.Target == f.Target || !g.Single || g.Relation != f.Relation ||
			!n.after(other, r) || !n.live(other.memory, moment{at: t.at}) || !t.within(g.From, g.To) {
			continue
		}
		if !closed || n.after(by, other) {
			by, closed = other, true
		}
	}
	return by, closed
}

// stale is outdated, unless superseded memories are wanted.
func (n *network) stale(memory int32, t moment) bool { return !t.superseded && n.outdated(memory, t) }

// after reports whether fact a began after b. The newer memory breaks ties.
func (n *network) after(a, b factRef) bool {
	x, y := &n.memories[a.memory], &n.memories[b.memory]
	if f, g := x.Facts[a.fact].From, y.Facts[b.fact].From; f != g {
		return f > g
	}
	return slices.Compare(x.ID[:], y.ID[:]) > 0
}

// outdated reports whether a memory has facts and none is valid.
func (n *network) outdated(memory int32, t moment) bool {
	facts := n.memories[memory].Facts
	for i := range facts {
		if facts[i].Relation == AliasRelation || n.holds(factRef{memory, int32(i)}, t) {
			return false
		}
	}
	return len(facts) > 0
}
