package graph

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Read implements replica.Part.
func (n *network) Read(ctx context.Context, tx replica.Tx, namespace string, ids []uuid.UUID) (func(), error) {
	if ids == nil {
		return nil, n.load(ctx, tx, namespace)
	}
	changed := map[uuid.UUID]*memoryRows{}
	of := func(memory uuid.UUID) *memoryRows {
		if changed[memory] == nil {
			changed[memory] = &memoryRows{}
		}
		return changed[memory]
	}
	concepts := []int64{} // not nil, which means all
	if err := readMemories(ctx, tx, namespace, ids, func(id uuid.UUID, m *mention, l *authorLink) {
		rows := of(id)
		switch {
		case m != nil:
			rows.Mentions, concepts = append(rows.Mentions, *m), append(concepts, m.concept)
		case l != nil:
			rows.Links = append(rows.Links, *l)
		}
	}); err != nil {
		return nil, err
	}
	if err := n.facts(ctx, tx, namespace, ids, func(memory uuid.UUID, f factRow) {
		of(memory).Facts = append(of(memory).Facts, f)
	}); err != nil {
		return nil, err
	}
	slices.Sort(concepts)
	var named []func()
	if err := n.texts(ctx, tx, namespace, slices.Compact(concepts), func(id int64, key string, vector code) {
		vector = slices.Clone(vector)
		named = append(named, func() { n.name(id, key, vector) })
	}); err != nil {
		return nil, err
	}
	return func() {
		replica.Replace(n.rows, ids, changed, func(row uint32, rows *memoryRows) { n.put(row, *rows) }, n.Drop)
		for _, name := range named {
			name()
		}
	}, nil
}

// load reads all memories into an empty network.
func (n *network) load(ctx context.Context, tx replica.Tx, namespace string) error {
	if err := n.texts(ctx, tx, namespace, nil, func(id int64, key string, vector code) {
		at := n.conceptAt(id)
		n.concepts[at].key = key
		n.size += int64(len(key))
		n.meanings.set(at, vector)
	}); err != nil {
		return err
	}
	n.room(n.rows.Len())
	var all []edge
	find := n.rows.InOrder()
	if err := readMemories(ctx, tx, namespace, nil, func(id uuid.UUID, m *mention, l *authorLink) {
		switch row, known := find(id); {
		case !known:
		case m != nil:
			all = append(all, edge{row, n.conceptAt(m.concept), float32(m.salience)})
		case l != nil:
			of := n.memories[row].states()
			of.Links = append(of.Links, *l)
		default:
			n.memories[row].stated = silent
		}
	}); err != nil {
		return err
	}
	if err := n.facts(ctx, tx, namespace, nil, func(id uuid.UUID, f factRow) {
		if row, known := find(id); known {
			of := n.memories[row].states()
			of.Facts = append(of.Facts, f)
		}
	}); err != nil {
		return err
	}
	n.fill(all)
	for row := range n.memories {
		if n.memories[row].indexed() {
			n.add(uint32(row))
		}
	}
	return nil
}

// edge is a mention of a memory.
type edge struct {
	memory, concept uint32
	salience        float32
}

// fill sets the mentions of memories and concepts, which share a slice each: 200,000 memories need no 200,000 allocations.
func (n *network) fill(all []edge) {
	counts := make([]uint32, max(len(n.memories), len(n.concepts)))
	slab := replica.Large[arc](len(all), len(all))
	for _, e := range all {
		counts[e.memory]++
	}
	for row := range n.memories {
		n.memories[row].mentions, slab = slab[:0:counts[row]], slab[counts[row]:]
	}
	for _, e := range all {
		m := &n.memories[e.memory]
		m.mentions = append(m.mentions, arc{e.concept, e.salience})
	}
	clear(counts)
	for _, e := range all {
		counts[e.concept]++
	}
	slab = replica.Large[arc](len(all), len(all))
	for c := range n.concepts {
		n.concepts[c].mentions, slab = slab[:0:counts[c]], slab[counts[c]:]
		n.specific[c] = specificity(int64(counts[c]))
	}
	for row := range n.memories {
		mentions := n.memories[row].mentions
		slices.SortFunc(mentions, func(a, b arc) int { return n.byID(a.to, b.to) })
		for _, a := range mentions {
			c := &n.concepts[a.to]
			c.mentions = append(c.mentions, arc{uint32(row), a.salience})
			c.count(a.salience, 1)
		}
	}
}

// texts reads the keys and vectors of concepts in order of their ids; nil means all. A vector is valid until the next concept.
func (n *network) texts(ctx context.Context, tx replica.Tx, namespace string, ids []int64, fn func(id int64, key string, vector code)) error {
	statement, args := sqldb.Among(ids, "SELECT id, key, CASE WHEN vector_model = $2 THEN vector END FROM graph.concepts WHERE namespace = $1",
		" AND id = ANY($3::bigint[])", namespace, n.model)
	var id int64
	var key string
	var stored replica.Raw
	return tx.Each(ctx, statement+" ORDER BY id", args, []any{&id, &key, &stored}, func() error {
		fn(id, key, code(stored))
		return nil
	})
}

// facts reads facts of memories, sorted; nil means of all. As an end of 0 means none, one at 1970 is 1.
func (n *network) facts(ctx context.Context, tx replica.Tx, namespace string, ids []uuid.UUID, fn func(memory uuid.UUID, f factRow)) error {
	statement, args := sqldb.Among(ids, `
		SELECT memory_id, source_id, target_id, relation, single, (extract(epoch FROM valid_from) * 1000000)::bigint,
			CASE WHEN valid_to IS NULL THEN 0 ELSE coalesce(nullif((extract(epoch FROM valid_to) * 1000000)::bigint, 0), 1) END,
			CASE WHEN vector_model = $2 THEN vector END, origin = 'text'
		FROM graph.facts WHERE namespace = $1`, " AND memory_id = ANY($3::uuid[])", namespace, n.model)
	var memory uuid.UUID
	var f factRow
	var vector replica.Raw
	targets := []any{&memory, &f.Source, &f.Target, &f.Relation, &f.Single, &f.From, &f.To, &vector, &f.Text}
	return tx.Each(ctx, statement+` ORDER BY memory_id, source_id, target_id, relation COLLATE "C"`, args, targets, func() error {
		f.Vector = code(slices.Clone(vector))
		fn(memory, f)
		return nil
	})
}

// readMemories reads memories of the graph, all if ids is nil: each by itself first, then its mentions, and its links in order.
func readMemories(ctx context.Context, tx replica.Tx, namespace string, ids []uuid.UUID, to func(id uuid.UUID, m *mention, l *authorLink)) error {
	if tx.IsSQLite() {
		return readSQLite(ctx, tx, namespace, ids, to)
	}
	each := func(columns, table, memory, order string, targets []any, fn func() error) error {
		statement, args := sqldb.Among(ids, "SELECT "+columns+" FROM graph."+table+" WHERE namespace = $1", " AND "+memory+" = ANY($2::uuid[])", namespace)
		return tx.Each(ctx, statement+order, args, targets, fn)
	}
	var id, salience replica.Raw
	if err := each("uuid_send(memory_id)", "link_ends", "memory_id", "", []any{&id}, func() error {
		to(uuid.UUID(id), nil, nil)
		return nil
	}); err != nil {
		return err
	}
	var m mention
	if err := each("uuid_send(memory_id), concept_id, float4send(salience)", "memory_concepts", "memory_id", "", []any{&id, &m.concept, &salience}, func() error {
		m.salience = float64(math.Float32frombits(binary.BigEndian.Uint32(salience)))
		to(uuid.UUID(id), &m, nil)
		return nil
	}); err != nil {
		return err
	}
	var l authorLink
	return each("uuid_send(source_id), target_key, relation", "memory_links", "source_id", ` ORDER BY source_id, target_key, relation COLLATE "C"`,
		[]any{&id, &l.Target, &l.Relation}, func() error {
			to(uuid.UUID(id), nil, &l)
			return nil
		})
}

func readSQLite(ctx context.Context, tx replica.Tx, namespace string, ids []uuid.UUID, to func(uuid.UUID, *mention, *authorLink)) error {
	statement, args := sqldb.Among(ids, "SELECT memory_id, mentions, links FROM graph_memories WHERE namespace = $1", " AND memory_id = ANY($2::uuid[])", namespace)
	var id, mentions, links replica.Raw
	var m mention // one for all: to keeps none
	return tx.Each(ctx, statement, args, []any{&id, &mentions, &links}, func() error {
		memory := uuid.UUID(id)
		to(memory, nil, nil)
		eachMention(mentions, func(one mention) {
			m = one
			to(memory, &m, nil)
		})
		if len(links) <= len("[]") {
			return nil
		}
		var list []authorLink
		err := json.Unmarshal(links, &list)
		for _, l := range list {
			to(memory, nil, &l)
		}
		return err
	})
}
