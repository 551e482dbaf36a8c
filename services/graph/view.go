package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// View shows a namespace's graph in memory. It stays as it is until Close.
type View struct {
	network *network
	now     moment
	names   map[int64]string
	close   func()
}

// View returns a namespace's current graph. The caller must Close it, and must not ask the database meanwhile. Names of the newest concepts may be their keys.
func (l *Leg) View(ctx context.Context, namespace string) (*View, error) {
	names, err := l.names(ctx, namespace, nil)
	if err != nil {
		return nil, err
	}
	view, err := l.images.View(ctx, namespace, replica.Need{Part: l.part}, 1)
	if err != nil {
		return nil, err
	}
	return &View{view.Part.(*network), momentOf(time.Time{}, false), names, view.Close}, nil
}

// Close ends the use of a view.
func (v *View) Close() { v.close() }

// name is a concept's name.
func (v *View) name(id int64) string {
	return cmp.Or(v.names[id], v.network.concepts[v.network.concept[id]].key)
}

// memories returns the rows of the memories in the graph, in the order of their ids.
func (v *View) memories() []uint32 {
	var out []uint32
	for row := range v.network.memories {
		if v.network.memories[row].indexed() {
			out = append(out, uint32(row))
		}
	}
	slices.SortFunc(out, func(a, b uint32) int { return compareIDs(v.network.rows.IDs[a], v.network.rows.IDs[b]) })
	return out
}

// Stats are counts of a graph.
type Stats struct {
	Memories   int `json:"memories"`
	Concepts   int `json:"concepts"`
	Mentions   int `json:"mentions"`
	Facts      int `json:"facts"`
	Links      int `json:"links"`
	Singletons int `json:"singletons"` // concepts with one mention; they pass nothing on
	Hubs       int `json:"hubs"`       // concepts with too many mentions; they pass nothing on
	Vectors    int `json:"vectors"`    // of concepts and facts, for the configured model
}

// Stats counts.
func (v *View) Stats() Stats {
	s := Stats{Memories: v.network.indexed, Vectors: len(v.network.said.rows)}
	hub := v.network.hub()
	for i := range v.network.concepts {
		if v.network.meanings.has(uint32(i)) {
			s.Vectors++
		}
		switch n := len(v.network.concepts[i].mentions); {
		case n == 0:
			continue
		case n == 1:
			s.Singletons++
		case n > hub:
			s.Hubs++
		}
		s.Concepts++
	}
	for i := range v.network.memories {
		m := &v.network.memories[i]
		s.Mentions, s.Facts, s.Links = s.Mentions+len(m.mentions), s.Facts+len(m.Facts), s.Links+len(m.Links)
	}
	return s
}

// Statement is a fact with its evidence.
type Statement struct {
	Subject  string    `json:"subject"`
	Relation string    `json:"relation"`
	Object   string    `json:"object"`
	Memory   uuid.UUID `json:"memory"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to,omitzero"`        // zero if valid
	ClosedBy uuid.UUID `json:"closed_by,omitzero"` // the memory with the closing fact, if any
	Single   bool      `json:"single,omitempty"`   // one object at a time
	StatedTo time.Time `json:"stated_to,omitzero"` // end given by its source
}

// ConceptView describes a concept.
type ConceptView struct {
	Name     string      `json:"name"`
	Memories []uuid.UUID `json:"memories"` // mentions, ascending
	Pages    []uuid.UUID `json:"pages"`    // memories with this title
	Aliases  []string    `json:"aliases"`
	Facts    []Statement `json:"facts"` // by time
}

// Concept returns a concept by any of its spellings.
func (v *View) Concept(name string) (ConceptView, bool) {
	at, known := v.network.spelled(name)
	if !known {
		return ConceptView{}, false
	}
	row := &v.network.concepts[at]
	c := ConceptView{Name: v.name(row.id)}
	for _, a := range row.mentions {
		id := v.network.rows.IDs[a.to]
		c.Memories = append(c.Memories, id)
		if a.salience >= salienceTitle {
			c.Pages = append(c.Pages, id)
		}
	}
	slices.SortFunc(c.Memories, compareIDs)
	slices.SortFunc(c.Pages, compareIDs)
	for _, f := range row.facts {
		s := v.statement(f)
		if s.Relation == AliasRelation {
			other := s.Subject
			if other == c.Name {
				other = s.Object
			}
			c.Aliases = append(c.Aliases, other)
			continue
		}
		c.Facts = append(c.Facts, s)
	}
	slices.Sort(c.Aliases)
	c.Aliases = slices.Compact(c.Aliases)
	slices.SortFunc(c.Facts, func(a, b Statement) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Object, b.Object), compareIDs(a.Memory, b.Memory))
	})
	return c, true
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

func (v *View) statement(f *factRow) Statement {
	rows := v.network.rows
	s := Statement{
		Subject: v.name(f.Source), Relation: f.Relation, Object: v.name(f.Target), Memory: rows.IDs[f.memory],
		From: fromMicros(f.From), To: fromMicros(f.To), Single: f.Single, StatedTo: fromMicros(f.To),
	}
	for _, to := range []int64{rows.To[f.memory], rows.Expires[f.memory]} {
		if at := fromMicros(to); to != 0 && (s.To.IsZero() || at.Before(s.To)) {
			s.To = at
		}
	}
	if by := v.network.closing(f, v.now); by != nil {
		if at := fromMicros(by.From); s.To.IsZero() || at.Before(s.To) {
			s.To, s.ClosedBy = at, rows.IDs[by.memory]
		}
	}
	return s
}

func fromMicros(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(t).UTC()
}

// Neighbour is a concept one step from another.
type Neighbour struct {
	Name     string   `json:"name"`
	Memories int      `json:"memories"` // that mention both
	Facts    []string `json:"facts"`    // relations that hold between the two
}

// Neighbours returns the adjacent concepts, most facts first, then most shared memories.
func (v *View) Neighbours(name string) []Neighbour {
	at, known := v.network.spelled(name)
	if !known {
		return nil
	}
	byID := map[int64]*Neighbour{}
	of := func(id int64) *Neighbour {
		if byID[id] == nil {
			byID[id] = &Neighbour{Name: v.name(id)}
		}
		return byID[id]
	}
	row := &v.network.concepts[at]
	for _, m := range row.mentions {
		for _, a := range v.network.memories[m.to].mentions {
			if a.to != at && v.network.live(m.to, v.now) {
				of(v.network.concepts[a.to].id).Memories++
			}
		}
	}
	for _, f := range row.facts {
		if v.network.holds(f, v.now) {
			other := f.Target
			if other == row.id {
				other = f.Source
			}
			n := of(other)
			n.Facts = append(n.Facts, f.Relation)
		}
	}
	var out []Neighbour
	for _, n := range byID {
		slices.Sort(n.Facts)
		n.Facts = slices.Compact(n.Facts)
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(len(b.Facts), len(a.Facts)), cmp.Compare(b.Memories, a.Memories), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Path returns a shortest path between two concepts along mentions, valid facts and authors' links; empty if there is none.
func (v *View) Path(from, to string) []leg.Step {
	start, known := v.network.spelled(from)
	end, endKnown := v.network.spelled(to)
	if !known || !endKnown {
		return nil
	}
	w := walker{
		n: v.network, time: momentOf(time.Time{}, true), named: func(string) bool { return false }, least: 1, hub: len(v.network.memories),
		maxLinks: math.MaxInt, from: map[node]hop{},
	}
	steps := w.shortest(conceptNodeAt(start), conceptNodeAt(end))
	rename(steps, v.names)
	return steps
}

// shortest is a breadth-first search over the walker's arcs.
func (w *walker) shortest(from, to node) []leg.Step {
	w.begin()
	defer w.end()
	w.start(from, 1)
	for frontier := []node{from}; len(frontier) > 0; frontier = slices.Clone(w.next) {
		if _, found := w.from[to]; found {
			return w.path(to)
		}
		w.level++
		w.next = w.next[:0]
		for _, v := range frontier {
			w.spread(v, 1)
		}
		w.next = slices.DeleteFunc(w.next, func(v node) bool { return w.from[v].level < w.level })
	}
	return nil
}

// Triples returns all facts but those that texts say by themselves, by memory.
func (v *View) Triples() []Statement {
	var out []Statement
	for _, at := range v.memories() {
		facts := v.network.memories[at].Facts
		for i := range facts {
			if !facts[i].Text {
				out = append(out, v.statement(&facts[i]))
			}
		}
	}
	slices.SortFunc(out, func(a, b Statement) int {
		return cmp.Or(compareIDs(a.Memory, b.Memory), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Object, b.Object))
	})
	return out
}

// format is what a graph is written by: texts before and after all, and those of package fmt for each part of the graph.
type format struct {
	begin, concept, memory, mention, fact, end string
	text                                       func(string) string
}

// DOT writes concepts, memory ids, mentions and valid facts for Graphviz.
func (v *View) DOT(w io.Writer) error {
	return v.write(w, format{
		begin:   "digraph memories {\n",
		concept: "  c%d [label=%s];\n",
		mention: "  \"%s\" -> c%d [weight=%g];\n",
		fact:    "  c%d -> c%d [label=%s];\n",
		end:     "}\n",
		text:    strconv.Quote,
	})
}

// GraphML writes the same as XML, http://graphml.graphdrawing.org.
func (v *View) GraphML(w io.Writer) error {
	return v.write(w, format{
		begin: xml.Header + `<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="name" for="node" attr.name="name" attr.type="string"/>
<key id="kind" for="node" attr.name="kind" attr.type="string"/>
<key id="relation" for="edge" attr.name="relation" attr.type="string"/>
<key id="weight" for="edge" attr.name="weight" attr.type="double"/>
<graph edgedefault="directed">
`,
		concept: "<node id=\"c%d\"><data key=\"name\">%s</data><data key=\"kind\">concept</data></node>\n",
		memory:  "<node id=\"%s\"><data key=\"kind\">memory</data></node>\n",
		mention: "<edge source=\"%s\" target=\"c%d\"><data key=\"relation\">" + viaNames + "</data><data key=\"weight\">%g</data></edge>\n",
		fact:    "<edge source=\"c%d\" target=\"c%d\"><data key=\"relation\">%s</data><data key=\"weight\">1</data></edge>\n",
		end:     "</graph>\n</graphml>\n",
		text: func(s string) string {
			var escaped strings.Builder
			_ = xml.EscapeText(&escaped, []byte(s)) // a Builder does not fail
			return escaped.String()
		},
	})
}

func (v *View) write(w io.Writer, f format) error {
	var b strings.Builder
	b.WriteString(f.begin)
	n := v.network
	var concepts []uint32
	for at := range n.concepts {
		if len(n.concepts[at].mentions) > 0 {
			concepts = append(concepts, uint32(at))
		}
	}
	slices.SortFunc(concepts, n.byID)
	for _, at := range concepts {
		fmt.Fprintf(&b, f.concept, uint64(n.concepts[at].id), f.text(v.name(n.concepts[at].id)))
	}
	memories := v.memories()
	if f.memory != "" {
		for _, row := range memories {
			fmt.Fprintf(&b, f.memory, n.rows.IDs[row])
		}
	}
	for _, row := range memories {
		for _, a := range n.memories[row].mentions {
			fmt.Fprintf(&b, f.mention, n.rows.IDs[row], uint64(n.concepts[a.to].id), a.salience)
		}
	}
	for _, row := range memories {
		for i := range n.memories[row].Facts {
			if fact := &n.memories[row].Facts[i]; n.holds(fact, v.now) {
				fmt.Fprintf(&b, f.fact, uint64(fact.Source), uint64(fact.Target), f.text(fact.Relation))
			}
		}
	}
	b.WriteString(f.end)
	_, err := io.WriteString(w, b.String())
	return err
}
