package graph

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLite is the graph in a SQLite file.
type SQLite struct {
	queue.Follower
	searcher
	db    *sqlite.DB
	queue queue.Store
}

var (
	_ leg.Searcher   = (*SQLite)(nil)
	_ leg.AsyncIndex = (*SQLite)(nil)
	_ queue.Indexer  = (*SQLite)(nil)
)

// NewSQLite returns the graph of a database. images get its part; q reports pending tasks.
func NewSQLite(db *sqlite.DB, images *replica.Set, q queue.Store, cfg Config) *SQLite {
	s := &SQLite{Follower: queue.Follow(q, indexName), db: db, queue: q}
	s.searcher = newSearcher(s, nil, images, readSQLite, cfg)
	return s
}

// Index implements queue.Indexer.
func (s *SQLite) Index(ctx context.Context, records []record.Record) error {
	namespaces, documents := documents(records)
	if err := s.db.Update(ctx, func(tx *sql.Tx) error {
		for _, ns := range namespaces {
			docs, err := currentSQLite(ctx, tx, ns, documents[ns])
			if err != nil {
				return err
			}
			if _, err := putSQLite(ctx, tx, ns, docs, false); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return s.embedAll(ctx, namespaces, documents)
}

// Prepare implements memory.Derived.
func (s *SQLite) Prepare(_ context.Context, records []record.Record) (func(context.Context, *sql.Tx, map[record.Key]bool) error, error) {
	prepared := prepare(records)
	return func(ctx context.Context, tx *sql.Tx, stored map[record.Key]bool) error {
		return prepared.each(stored, func(namespace string, docs []document) error {
			concepts, err := putSQLite(ctx, tx, namespace, docs, true)
			if err != nil {
				return err
			}
			return s.embedNew(ctx, sqliteVectors{tx}, namespace, documentIDs(docs), concepts)
		})
	}, nil
}

// putSQLite replaces the documents of one namespace, which are current. New ones replace none. It returns the concepts that they mention
// saliently.
func putSQLite(ctx context.Context, tx *sql.Tx, namespace string, docs []document, fresh bool) (concepts []int64, err error) {
	if len(docs) == 0 {
		return nil, nil
	}
	var phrases []phrase
	var named [][4]any                // id, key, name, kind
	read := make([][2]any, len(docs)) // memory, digest
	for i, d := range docs {
		phrases = append(phrases, d.phrases...)
		for _, c := range d.concepts {
			named = append(named, [4]any{conceptID(c.Key), c.Key, c.Name, c.Kind})
		}
		read[i] = [2]any{d.record.ID, digest(d.record)}
	}
	var ends map[uuid.UUID][]int64
	if !fresh {
		if err := execSQLite(ctx, tx, `
		DELETE FROM graph_facts WHERE namespace = ?1 AND memory_id IN (SELECT unhex(value ->> 0, '-') FROM json_each(?2)) AND (origin = 'text' OR origin = 'model'
			AND NOT EXISTS (SELECT 1 FROM graph_extractions x JOIN json_each(?2) j ON x.digest = j.value ->> 1
				WHERE x.namespace = graph_facts.namespace AND x.memory_id = graph_facts.memory_id AND x.memory_id = unhex(j.value ->> 0, '-')))`, namespace, read); err != nil {
			return nil, err
		}
		if ends, err = endsSQLite(ctx, tx, namespace, read); err != nil {
			return nil, err
		}
	}
	known, err := knownSQLite(ctx, tx, namespace, phrases)
	if err != nil {
		return nil, err
	}
	if err := execSQLite(ctx, tx, `
		INSERT INTO graph_concepts (namespace, id, key, name, kind)
		SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?2) WHERE true
		ON CONFLICT (namespace, id) DO NOTHING`, namespace, named); err != nil {
		return nil, err
	}
	memories := make([][3]any, len(docs)) // id, mentions, links
	var aliases [][4]any                  // memory, alias, concept, since
	mentions := mentionsIn(docs, known, ends)
	for i, d := range docs {
		links, err := json.Marshal(authorLinks(d.record))
		if err != nil {
			return nil, err
		}
		memories[i] = [3]any{d.record.ID, storedMentions(mentions[i]), string(links)}
		for _, a := range d.aliases() {
			aliases = append(aliases, [4]any{d.record.ID, a.alias, a.of, since(d.record).UnixMicro()})
		}
	}
	put := `INSERT INTO graph_memories (namespace, memory_id, mentions, links) SELECT ?1, unhex(value ->> 0, '-'), value ->> 1, value ->> 2 FROM json_each(?2) WHERE true
		ON CONFLICT (namespace, memory_id) DO UPDATE SET mentions = excluded.mentions, links = excluded.links`
	if fresh {
		put = `INSERT INTO graph_memories (namespace, memory_id, mentions, links, counted) SELECT ?1, unhex(value ->> 0, '-'), value ->> 1, value ->> 2, 1 FROM json_each(?2)`
		if err := countSQLite(ctx, tx, namespace, mentions); err != nil {
			return nil, err
		}
	}
	if err := execSQLite(ctx, tx, put, namespace, memories); err != nil {
		return nil, err
	}
	return salient(mentions), execSQLite(ctx, tx, `
		INSERT INTO graph_facts (namespace, memory_id, source_id, target_id, relation, valid_from)
		SELECT ?1, unhex(value ->> 0, '-'), value ->> 1, value ->> 2, '`+AliasRelation+`', value ->> 3 FROM json_each(?2) WHERE true
		ON CONFLICT DO NOTHING`, namespace, aliases)
}

// countSQLite counts mentions of concepts by new memories.
func countSQLite(ctx context.Context, tx *sql.Tx, namespace string, mentions [][]mention) error {
	more := map[int64]int64{}
	for _, list := range mentions {
		for _, m := range list {
			more[m.concept]++
		}
	}
	count, err := tx.PrepareContext(ctx, `UPDATE graph_concepts SET mentions = mentions + ? WHERE namespace = ? AND id = ?`)
	if err != nil {
		return err
	}
	defer func() { _ = count.Close() }()
	for _, id := range slices.Sorted(maps.Keys(more)) {
		if _, err := count.ExecContext(ctx, more[id], namespace, id); err != nil {
			return err
		}
	}
	return nil
}

// execSQLite runs a statement with a namespace, ?1, and a list as JSON, ?2, unless the list is empty.
func execSQLite[T any](ctx context.Context, tx *sql.Tx, statement, namespace string, list []T) error {
	if len(list) == 0 {
		return nil
	}
	var args sqlite.Args
	args.Add(namespace)
	args.AddJSON(list)
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}

// currentSQLite returns the documents that are current and not sensitive.
func currentSQLite(ctx context.Context, tx *sql.Tx, namespace string, docs []document) ([]document, error) {
	given := make([][2]any, len(docs)) // id, revision
	for i, d := range docs {
		given[i] = [2]any{d.record.ID, d.record.Revision}
	}
	var args sqlite.Args
	ns := args.Add(namespace)
	rows, err := tx.QueryContext(ctx, `
		SELECT j.key FROM json_each(`+args.AddJSON(given)+`) j
		CROSS JOIN memories m ON m.namespace = `+ns+` AND m.id = unhex(j.value ->> 0, '-') AND m.revision = j.value ->> 1 AND NOT m.sensitive
		ORDER BY j.key`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []document
	var at int
	for rows.Next() {
		if err := rows.Scan(&at); err != nil {
			return nil, err
		}
		out = append(out, docs[at])
	}
	return out, rows.Err()
}

// endsSQLite returns the ends of the facts of memories, which are the first of each pair.
func endsSQLite(ctx context.Context, tx *sql.Tx, namespace string, memories [][2]any) (map[uuid.UUID][]int64, error) {
	var args sqlite.Args
	ns := args.Add(namespace)
	rows, err := tx.QueryContext(ctx, `
		SELECT memory_id, source_id, target_id FROM graph_facts
		WHERE namespace = `+ns+` AND memory_id IN (SELECT unhex(value ->> 0, '-') FROM json_each(`+args.AddJSON(memories)+`))`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	ends := map[uuid.UUID][]int64{}
	var id uuid.UUID
	var source, target int64
	for rows.Next() {
		if err := rows.Scan(&id, &source, &target); err != nil {
			return nil, err
		}
		ends[id] = append(ends[id], source, target)
	}
	return ends, rows.Err()
}

// storedMentions is the column graph_memories.mentions: concepts with their salience in hundredths, as JSON.
func storedMentions(list []mention) string {
	text := []byte{'['}
	for i, m := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(append(text, '['), m.concept, 10)
		text = strconv.AppendInt(append(text, ','), int64(math.Round(m.salience*100)), 10)
		text = append(text, ']')
	}
	return string(append(text, ']'))
}

// eachMention reads storedMentions. encoding/json takes ten times as long.
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

// knownSQLite returns which phrases are known concepts. If the namespace has fewer concepts than there are phrases, it returns them all:
// that is faster than to look up each. Both read an index of ids alone, since a table's page has few rows: they hold vectors.
func knownSQLite(ctx context.Context, tx *sql.Tx, namespace string, phrases []phrase) (map[int64]bool, error) {
	known, ids := map[int64]bool{}, conceptIDs(phrases)
	read := func(query string, args ...any) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		var id int64
		for rows.Next() {
			if err := rows.Scan(&id); err != nil {
				return err
			}
			known[id] = true
		}
		return rows.Err()
	}
	if err := read(`SELECT id FROM graph_concepts INDEXED BY graph_concepts_by_id WHERE namespace = ?1
		AND NOT EXISTS (SELECT 1 FROM graph_concepts INDEXED BY graph_concepts_by_id WHERE namespace = ?1 LIMIT 1 OFFSET ?2)`, namespace, len(ids)); err != nil || len(known) > 0 {
		return known, err
	}
	var args sqlite.Args
	err := read(`SELECT c.id FROM json_each(`+args.AddJSON(ids)+`) j
		CROSS JOIN graph_concepts c INDEXED BY graph_concepts_by_id ON c.namespace = `+args.Add(namespace)+` AND c.id = j.value`, args...)
	return known, err
}

// Status implements leg.Searcher.
func (s *SQLite) Status(ctx context.Context, namespace string) (leg.Status, error) {
	var indexed, excluded int64
	if err := s.db.Read.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM graph_memories WHERE namespace = ?1),
			(SELECT count(*) FROM memories WHERE namespace = ?1 AND sensitive)`, namespace).Scan(&indexed, &excluded); err != nil {
		return leg.Status{}, err
	}
	pending, err := s.queue.Status(ctx, indexName, namespace)
	return status(indexed, excluded, pending), err
}
