package graph

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
	"unique"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// network is a namespace's graph in memory. Memories have the row numbers of an image, concepts have numbers of their own. It equals
// the tables, whatever the order of changes.
type network struct {
	rows  *replica.Rows
	model string // whose vectors are read; empty for none

	memories []memoryNode           // by row
	indexed  int                    // memories in the graph
	keys     []int64                // endKeys by row; none before the first link
	ends     *replica.RowsBy[int64] // memories by endKey, if there are keys
	linkers  map[int64][]uint32     // memories that link to an endKey, ascending
	concepts []conceptNode
	specific []float64 // by place: the specificity, side by side for walks
	concept  map[int64]uint32
	free     []uint32 // places in concepts
	size     int64    // bytes of memories, concepts and their arcs
	fuzzy    fuzzyIndex
	meanings space // vectors of concepts, by place
	said     statedSpace
}

// memoryNode is a memory's row.
type memoryNode struct {
	mentions []arc // by concept id, ascending
	*stated
}

// stated is what a memory states itself. Most state nothing.
type stated struct {
	Facts []factRow
	Links []authorLink
}

// absent is of a row without a memory in the graph, silent of a memory that states nothing.
var absent, silent = &stated{}, &stated{}

func (m *memoryNode) indexed() bool { return m.stated != absent }

// states returns what a memory states, to add to it. Nothing is kept for an absent one.
func (m *memoryNode) states() *stated {
	switch m.stated {
	case absent:
		return &stated{}
	case silent:
		m.stated = &stated{}
	}
	return m.stated
}

// arc is a mention, from either end.
type arc struct {
	to       uint32 // place of the concept, or the row of the memory
	salience float32
}

// conceptNode is a concept's row.
type conceptNode struct {
	id       int64
	key      string // empty for a concept without mentions: it may be private text
	mentions []arc  // by row, ascending
	titles   uint32 // mentions as a title
	tags     uint32 // mentions as a title, a tag or a keyword
	facts    []*factRow
}

// count counts a mention, or takes it off the count with -1.
func (c *conceptNode) count(salience float32, by int32) {
	if salience >= salienceTitle {
		c.titles += uint32(by)
	}
	if salience >= salienceTag {
		c.tags += uint32(by)
	}
}

// memoryRows are what the tables have of a memory.
type memoryRows struct {
	Mentions []mention
	stated
}

// factRow is a stated relation of two concepts.
type factRow struct {
	Source, Target int64
	Relation       string
	Single         bool   // one target at a time
	Text           bool   // the memory's text says it
	From, To       int64  // microseconds; To 0 is open
	Vector         code   // of the network's model; nil if it has none or a row has it
	source, target uint32 // places of Source and Target
	memory         uint32 // the row of the memory that states it
}

// fact identifies a fact without its evidence.
type fact struct {
	source, target int64
	relation       string
}

// statedSpace holds one vector per distinct fact.
type statedSpace struct {
	space
	rows   map[fact]uint32
	stated [][]*factRow // by row
	free   []uint32
}

// Sizes in bytes, for network.size.
const (
	memoryBytes  = 8 + 24 + 8 + 8 // with its place in ends
	conceptBytes = 8 + 16 + 2*24 + 2*4 + 8 + 24 + 16
	arcBytes     = 2 * 8 // from both ends
	statedBytes  = 2 * 24
	factBytes    = 96 + 2*8 + 100
	linkBytes    = 24 + 60
)

// newNetwork returns the empty network of an image's rows, for a model's vectors of so many dimensions.
func newNetwork(rows *replica.Rows, model string, dims int) *network {
	n := &network{
		rows: rows, model: model, linkers: map[int64][]uint32{}, concept: map[int64]uint32{},
		meanings: space{dims: dims}, said: statedSpace{space: space{dims: dims}, rows: map[fact]uint32{}},
	}
	n.ends = replica.NewRowsBy(func(row uint32) int64 { return n.keys[row] }, func(key int64) uint64 { return uint64(key) }) // a hash already
	return n
}

// put adds or replaces a memory.
func (n *network) put(row uint32, rows memoryRows) {
	n.Drop(row)
	n.room(int(row) + 1)
	node := &n.memories[row]
	*node = memoryNode{stated: silent}
	if len(rows.Facts)+len(rows.Links) > 0 {
		*node.states() = rows.stated
	}
	slices.SortFunc(rows.Mentions, func(a, b mention) int { return cmp.Compare(a.concept, b.concept) })
	for _, m := range rows.Mentions {
		c := n.conceptAt(m.concept)
		node.mentions = append(node.mentions, arc{c, float32(m.salience)})
		at := &n.concepts[c]
		if i, known := slices.BinarySearchFunc(at.mentions, row, byPlace); !known {
			at.mentions = slices.Insert(at.mentions, i, arc{row, float32(m.salience)})
			at.count(float32(m.salience), 1)
		}
		n.specific[c] = specificity(int64(len(at.mentions)))
	}
	n.add(row)
}

// room makes room for rows below a number.
func (n *network) room(rows int) {
	n.memories = slices.Grow(n.memories, max(0, rows-len(n.memories)))
	for len(n.memories) < rows {
		n.memories = append(n.memories, memoryNode{stated: absent})
	}
}

// add adds the facts and links of a memory, whose node has them.
func (n *network) add(row uint32) {
	node := &n.memories[row]
	for i := range node.Facts {
		f := &node.Facts[i]
		f.Relation = unique.Make(f.Relation).Value()
		f.memory, f.source, f.target = row, n.conceptAt(f.Source), n.conceptAt(f.Target)
		for _, c := range []uint32{f.source, f.target} {
			at := &n.concepts[c]
			at.facts = append(at.facts, f)
		}
		n.state(f)
	}
	for _, l := range node.Links {
		n.linkers[l.Target] = insert(n.linkers[l.Target], row)
	}
	switch {
	case n.keys != nil:
		n.end(row)
	case len(node.Links) > 0:
		for other := range n.memories {
			if n.memories[other].indexed() {
				n.end(uint32(other))
			}
		}
	}
	n.indexed++
	n.size += node.bytes()
}

// end lets links lead to a memory.
func (n *network) end(row uint32) {
	n.keys = append(n.keys, make([]int64, len(n.memories)-len(n.keys))...)
	n.keys[row] = endKey(n.rows.IDs[row])
	n.ends.Add(row)
}

// linkersOf returns the memories that link to one.
func (n *network) linkersOf(row uint32) []uint32 {
	if len(n.linkers) == 0 {
		return nil
	}
	return n.linkers[n.keys[row]]
}

// Drop implements replica.Part.
func (n *network) Drop(row uint32) {
	if int(row) >= len(n.memories) || !n.memories[row].indexed() {
		return
	}
	node := n.memories[row]
	ends := make([]uint32, 0, 2*len(node.Facts))
	for i := range node.Facts {
		f := &node.Facts[i]
		n.unstate(f)
		ends = append(ends, f.source, f.target)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	for _, c := range ends {
		at := &n.concepts[c]
		at.facts = slices.DeleteFunc(at.facts, func(f *factRow) bool { return f.memory == row })
	}
	for _, a := range node.mentions {
		at := &n.concepts[a.to]
		if i, known := slices.BinarySearchFunc(at.mentions, row, byPlace); known {
			at.count(at.mentions[i].salience, -1)
			at.mentions = slices.Delete(at.mentions, i, i+1)
		}
		n.specific[a.to] = specificity(int64(len(at.mentions)))
		n.forget(a.to)
	}
	for _, c := range ends {
		n.forget(c)
	}
	for _, l := range node.Links {
		unlist(n.linkers, l.Target, row)
	}
	if n.keys != nil {
		n.ends.Remove(n.keys[row])
		n.keys[row] = 0
	}
	n.indexed--
	n.size -= node.bytes()
	n.memories[row] = memoryNode{stated: absent}
}

func (m *memoryNode) bytes() int64 {
	own := 0
	if m.stated != silent {
		own = statedBytes
	}
	return int64(memoryBytes + own + len(m.mentions)*arcBytes + len(m.Facts)*factBytes + len(m.Links)*linkBytes)
}

// Bytes implements replica.Part.
func (n *network) Bytes() int64 {
	return n.size + n.fuzzy.bytes() + n.meanings.bytes() + n.said.bytes()
}

func (n *network) conceptAt(id int64) uint32 {
	at, known := n.concept[id]
	if known {
		return at
	}
	if last := len(n.free) - 1; last >= 0 {
		at, n.free = n.free[last], n.free[:last]
	} else {
		at = uint32(len(n.concepts))
		n.concepts, n.specific = append(n.concepts, conceptNode{}), append(n.specific, 0)
	}
	n.concepts[at], n.specific[at] = conceptNode{id: id}, specificity(0)
	n.concept[id] = at
	n.size += conceptBytes
	return at
}

// name sets a concept's key and vector.
func (n *network) name(id int64, key string, vector code) {
	at, known := n.concept[id]
	if !known || len(n.concepts[at].mentions) == 0 {
		return
	}
	if n.concepts[at].key == "" {
		n.concepts[at].key = key
		n.size += int64(len(key))
		n.fuzzy.add(at, key)
	}
	if !n.meanings.set(at, vector) {
		n.meanings.clear(at)
	}
}

// forget removes a concept's name and vector with its last mention, and the concept with its last fact.
func (n *network) forget(at uint32) {
	c := &n.concepts[at]
	if place, known := n.concept[c.id]; !known || place != at || len(c.mentions) > 0 {
		return
	}
	n.fuzzy.remove(at, c.key)
	n.size -= int64(len(c.key))
	c.key = ""
	n.meanings.clear(at)
	if len(c.facts) == 0 {
		delete(n.concept, c.id)
		*c = conceptNode{}
		n.free = append(n.free, at)
		n.size -= conceptBytes
	}
}

// state adds a fact's statement and its vector.
func (n *network) state(f *factRow) {
	vector, of := f.Vector, fact{f.Source, f.Target, f.Relation}
	f.Vector = nil
	row, known := n.said.rows[of]
	if !known {
		if last := len(n.said.free) - 1; last >= 0 {
			row, n.said.free = n.said.free[last], n.said.free[:last]
		} else {
			row = uint32(len(n.said.stated))
			n.said.stated = append(n.said.stated, nil)
		}
		if !n.said.set(row, vector) {
			n.said.free = append(n.said.free, row)
			return
		}
		n.said.rows[of] = row
	}
	n.said.stated[row] = append(n.said.stated[row], f)
}

// unstate removes a statement, and the vector with the last one.
func (n *network) unstate(f *factRow) {
	of := fact{f.Source, f.Target, f.Relation}
	row, known := n.said.rows[of]
	if !known {
		return
	}
	n.said.stated[row] = slices.DeleteFunc(n.said.stated[row], func(other *factRow) bool { return other == f })
	if len(n.said.stated[row]) == 0 {
		delete(n.said.rows, of)
		n.said.clear(row)
		n.said.free = append(n.said.free, row)
	}
}

func byPlace(a arc, at uint32) int { return cmp.Compare(a.to, at) }

// insert adds v to an ascending list once.
func insert(list []uint32, v uint32) []uint32 {
	if len(list) == 0 || list[len(list)-1] < v {
		return append(list, v)
	}
	at, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, at, v)
}

// unlist removes v from an ascending list, and the list with its last value.
func unlist[K comparable](lists map[K][]uint32, key K, v uint32) {
	if at, found := slices.BinarySearch(lists[key], v); found {
		lists[key] = slices.Delete(lists[key], at, at+1)
	}
	if len(lists[key]) == 0 {
		delete(lists, key)
	}
}

// always is later than all times. What has begun by now, or will, has begun by then.
const always = math.MaxInt64

// moment is the time of a search.
type moment struct {
	at         int64               // microseconds; always is now
	ends       int64               // what ends until then has ended; now has its time here
	superseded bool                // include superseded memories
	closers    map[uint32][]closer // by source
}

// closer is a single fact that spans the moment, in the order of compareFacts. other is the place of the next one with another target.
type closer struct {
	*factRow
	other int
}

// momentOf returns a search's moment; zero asOf is now.
func momentOf(asOf time.Time, superseded bool) moment {
	t := moment{at: always, ends: record.Now().UnixMicro(), superseded: superseded, closers: map[uint32][]closer{}}
	if !asOf.IsZero() {
		t.at = cmp.Or(asOf.UnixMicro(), 1) // as ends, where 0 is none
		t.ends = t.at
	}
	return t
}

// within reports whether a fact's span has the moment.
func (t moment) within(from, to int64) bool { return from <= t.at && (to == 0 || to > t.ends) }

// live reports whether a memory takes part in a search.
func (n *network) live(memory uint32, t moment) bool {
	// The graph may not have an image's row yet, or never: the memory is sensitive.
	if int(memory) >= len(n.memories) || !n.memories[memory].indexed() {
		return false
	}
	to := n.rows.To[memory]
	return n.rows.From[memory] <= t.at && (t.superseded || to == 0 || to > t.at)
}

// holds reports whether a fact spans the moment, and no newer fact has closed it.
func (n *network) holds(f *factRow, t moment) bool { return n.spans(f, t) && n.closing(f, t) == nil }

// spans reports whether a fact's evidence is live and has not expired, and the moment is inside its span.
func (n *network) spans(f *factRow, t moment) bool {
	return n.live(f.memory, moment{at: t.at}) && t.within(f.From, f.To) && t.within(f.From, n.rows.Expires[f.memory])
}

// closing returns the earliest later fact that has closed a fact, or nil: a valid one of the same source and relation, with another target.
func (n *network) closing(f *factRow, t moment) *factRow {
	if !f.Single {
		return nil
	}
	list, known := t.closers[f.source]
	if !known {
		list = n.closers(f.source, t)
		t.closers[f.source] = list
	}
	at := sort.Search(len(list), func(i int) bool { return n.compareFacts(list[i].factRow, f) > 0 })
	if at < len(list) && list[at].Target == f.Target {
		at = list[at].other
	}
	if at == len(list) || list[at].Relation != f.Relation {
		return nil
	}
	return list[at].factRow
}

func (n *network) closers(source uint32, t moment) (list []closer) {
	for _, f := range n.concepts[source].facts {
		if f.source == source && f.Single && n.spans(f, t) {
			list = append(list, closer{factRow: f})
		}
	}
	slices.SortFunc(list, func(a, b closer) int { return n.compareFacts(a.factRow, b.factRow) })
	for i := len(list) - 1; i >= 0; i-- {
		list[i].other = i + 1
		if i+1 < len(list) && list[i].Target == list[i+1].Target && list[i].Relation == list[i+1].Relation {
			list[i].other = list[i+1].other
		}
	}
	return list
}

// compareFacts orders facts by relation, and from the oldest one. The newer memory breaks ties.
func (n *network) compareFacts(f, g *factRow) int {
	if by := cmp.Or(cmp.Compare(f.Relation, g.Relation), cmp.Compare(f.From, g.From)); by != 0 {
		return by
	}
	return compareIDs(n.rows.IDs[f.memory], n.rows.IDs[g.memory])
}

// stale reports whether a memory has facts and none is valid, unless superseded memories are wanted.
func (n *network) stale(memory uint32, t moment) bool {
	if t.superseded {
		return false
	}
	facts := n.memories[memory].Facts
	for i := range facts {
		if facts[i].Relation == AliasRelation || n.holds(&facts[i], t) {
			return false
		}
	}
	return len(facts) > 0
}
