package graph

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// lock enters a namespace, and returns the revisions of memories that exist and are not sensitive, until the transaction ends.
func lock(ctx context.Context, tx sqldb.Tx, namespace string, memories []uuid.UUID) (map[uuid.UUID]int64, error) {
	current := map[uuid.UUID]int64{}
	var id uuid.UUID
	var revision int64
	var b sqldb.Batch
	b.Query([]any{&id, &revision}, func() { current[id] = revision },
		`SELECT id, revision FROM memory.memories WHERE namespace = $1 AND id = ANY($2::uuid[]) AND NOT sensitive ORDER BY id FOR SHARE`, namespace, memories)
	return current, tx.In(namespace).Send(ctx, &b)
}

// lockNamespace lets one transaction at a time change the mentions of a namespace. Memories are locked before.
func lockNamespace(tx sqldb.Tx, b *sqldb.Batch, namespace string) {
	if tx.SQLite == nil {
		b.Exec(`SELECT graph.lock_namespace($1)`, namespace)
	}
}

// putConcepts adds concepts. Of those with one key it takes the first.
func putConcepts(b *sqldb.Batch, namespace string, concepts []Concept) {
	var rows sqldb.Rows
	seen := map[string]bool{}
	for _, c := range concepts {
		if !seen[c.Key] {
			seen[c.Key] = true
			rows = append(rows, []any{conceptID(c.Key), c.Key, c.Name, string(c.Kind)})
		}
	}
	b.Exec(`
		INSERT INTO graph.concepts (namespace, id, key, name, kind)
		SELECT n.name, c.* FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS c (id, key, name, kind)
		WHERE n.name = $1 ON CONFLICT (namespace, id) DO NOTHING`, namespace, rows)
}

// changed tells that memories have changed, besides those that were put.
func changed(tx sqldb.Tx, b *sqldb.Batch, namespace string, memories []uuid.UUID) {
	if tx.SQLite != nil {
		b.Exec(`UPDATE graph_memories SET links = links WHERE namespace = $1 AND memory_id = ANY($2::uuid[])`, namespace, memories)
		return
	}
	tx.Note(namespace, replica.Graph, memories...)
}

// readMentions reads the mentions of memories. PostgreSQL has a row for each mention and link, which SQL searches. SQLite has a row for
// each memory, with both as JSON.
func readMentions(db sqldb.DB, b *sqldb.Batch, namespace string, memories []uuid.UUID, fn func(uuid.UUID, mention)) {
	var id uuid.UUID
	if db.SQLite != nil {
		var stored sql.RawBytes
		b.Query([]any{&id, &stored}, func() { eachMention(stored, func(m mention) { fn(id, m) }) },
			`SELECT memory_id, mentions FROM graph_memories WHERE namespace = $1 AND memory_id = ANY($2::uuid[])`, namespace, memories)
		return
	}
	var m mention
	b.Query([]any{&id, &m.concept, &m.salience}, func() { fn(id, m) },
		`SELECT memory_id, concept_id, salience FROM graph.memory_concepts WHERE namespace = $1 AND memory_id = ANY($2)`, namespace, memories)
}

// entry is a memory of the graph: its mentions as they are stored and as they become, and its authors' links.
type entry struct {
	memory   uuid.UUID
	had, now []mention
	links    []authorLink
}

// counted returns how many mentions more each concept has, where the number changes.
func counted(more map[int64]int64) (counts sqldb.Rows) {
	maps.DeleteFunc(more, func(_, n int64) bool { return n == 0 })
	for _, concept := range slices.Sorted(maps.Keys(more)) {
		counts = append(counts, []any{concept, more[concept]})
	}
	return counts
}

// put replaces mentions, with links as well. Of those of one concept it takes the first. The memories of fresh ones have nothing stored.
func put(tx sqldb.Tx, b *sqldb.Batch, namespace string, entries []entry, links, fresh bool) {
	more := map[int64]int64{} // mentions, by concept
	for i := range entries {
		e := &entries[i]
		e.now = distinct(e.now)
		for _, m := range e.now {
			more[m.concept]++
		}
		for _, m := range e.had {
			more[m.concept]--
		}
	}
	if tx.SQLite != nil {
		putSQLite(b, namespace, entries, counted(more), links, fresh)
		return
	}
	var put, gone, linked, ends sqldb.Rows
	var memories []uuid.UUID
	for _, e := range entries {
		memories, ends = append(memories, e.memory), append(ends, []any{e.memory, endKey(e.memory)})
		had := map[int64]float32{}
		for _, m := range e.had {
			had[m.concept] = float32(m.salience)
		}
		for _, m := range e.now {
			if salience, known := had[m.concept]; !known || salience != float32(m.salience) {
				put = append(put, []any{m.concept, e.memory, float32(m.salience)})
			}
			delete(had, m.concept)
		}
		for concept := range had {
			gone = append(gone, []any{concept, e.memory})
		}
		for _, l := range e.links {
			linked = append(linked, []any{e.memory, l.Target, l.Relation})
		}
	}
	b.Exec(`
		INSERT INTO graph.memory_concepts (namespace, concept_id, memory_id, salience)
		SELECT n.name, m.* FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::uuid[], $4::real[]) AS m WHERE n.name = $1
		ON CONFLICT (namespace, concept_id, memory_id) DO UPDATE SET salience = excluded.salience`, namespace, put)
	b.Exec(`
		DELETE FROM graph.memory_concepts m USING unnest($2::bigint[], $3::uuid[]) AS g (concept, memory)
		WHERE m.namespace = $1 AND m.concept_id = g.concept AND m.memory_id = g.memory`, namespace, gone)
	if links && !fresh {
		b.Exec(`DELETE FROM graph.memory_links WHERE namespace = $1 AND source_id = ANY($2)`, namespace, memories)
	}
	b.Exec(`
		INSERT INTO graph.memory_links (namespace, source_id, target_key, relation)
		SELECT n.name, l.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[], $4::text[]) AS l WHERE n.name = $1`, namespace, linked)
	b.Exec(`SELECT graph.count_mentions($1, $2, $3)`, namespace, counted(more))
	b.Exec(`
		INSERT INTO graph.link_ends (namespace, memory_id, key) SELECT n.name, e.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[]) AS e WHERE n.name = $1
		ON CONFLICT (namespace, memory_id) DO UPDATE SET key = excluded.key`, namespace, ends)
	changed(tx, b, namespace, memories)
}

// distinct returns mentions in the order of their concepts, of each concept the first.
func distinct(list []mention) []mention {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b mention) int { return cmp.Compare(a.concept, b.concept) })
	return slices.CompactFunc(list, func(a, b mention) bool { return a.concept == b.concept })
}

// putSQLite is put for SQLite. Triggers log that the memories have changed, and count the mentions of those that are not fresh. Salience
// is stored in hundredths. The order of mentions lets triggers see when nothing has changed.
func putSQLite(b *sqldb.Batch, namespace string, entries []entry, counts sqldb.Rows, links, fresh bool) {
	var memories sqldb.Rows
	for _, e := range entries {
		stored := slice.Map(e.now, func(m mention) [2]int64 { return [2]int64{m.concept, int64(math.Round(m.salience * 100))} })
		memories = append(memories, []any{e.memory, stored, e.links})
	}
	b.Exec(`
		INSERT INTO graph_memories (namespace, memory_id, mentions, links, counted)
		SELECT $1, unhex(value ->> 0, '-'), value ->> 1, coalesce(value ->> 2, '[]'), $2 FROM json_each($4) WHERE true
		ON CONFLICT (namespace, memory_id) DO UPDATE SET mentions = excluded.mentions, links = iif($3, excluded.links, links)`, namespace, fresh, links, memories)
	if fresh {
		b.Each(`UPDATE graph_concepts SET mentions = mentions + $3 WHERE namespace = $1 AND id = $2`, counts, namespace)
	}
}

// eachMention reads what putSQLite has stored. encoding/json takes ten times as long.
func eachMention(stored []byte, fn func(mention)) {
	var numbers [2]int64
	n, negative, inside := 0, false, false
	for _, b := range stored {
		switch {
		case b == '-':
			negative = true
		case '0' <= b && b <= '9':
			numbers[n], inside = numbers[n]*10+int64(b-'0'), true
		case inside:
			if negative {
				numbers[n] = -numbers[n]
			}
			if n++; n == len(numbers) {
				fn(mention{numbers[0], float64(numbers[1]) / 100})
				numbers, n = [2]int64{}, 0
			}
			negative, inside = false, false
		}
	}
}
