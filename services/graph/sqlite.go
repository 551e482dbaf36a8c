package graph

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
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

// Prepare implements memory.Derived.
func (s *SQLite) Prepare(_ context.Context, records []record.Record) (sqldb.Putter, error) {
	put := s.prepare(records)
	return func(ctx context.Context, tx sqldb.Tx, stored map[record.Key]bool) error {
		return put(ctx, sqliteTables{tx.SQLite}, stored)
	}, nil
}

// update implements engine.
func (s *SQLite) update(ctx context.Context, fn func(tables) error) error {
	return s.db.Update(ctx, func(tx *sql.Tx) error { return fn(sqliteTables{tx}) })
}

func (s *SQLite) written() tables    { return sqliteTables{s.db.Read} }
func (s *SQLite) searched() tables   { return sqliteTables{s.db.Read} }
func (s *SQLite) tasks() queue.Store { return s.queue }

// lacking implements vectorStore. SQLite would take ten times as long to find the mentions of concepts in their JSON.
func (s *SQLite) lacking(ctx context.Context, namespace, model string) (memories []uuid.UUID, err error) {
	err = s.db.Snapshot(ctx, func(all *sqlite.Snapshot) error {
		var concept int64
		lacking := map[int64]bool{}
		if err := all.Each(ctx, "SELECT id FROM graph_concepts WHERE namespace = ?1 AND vector_model IS NOT ?2", []any{namespace, model}, []any{&concept}, func() error {
			lacking[concept] = true
			return nil
		}); err != nil {
			return err
		}
		var id uuid.UUID
		add := func() error {
			memories = append(memories, id)
			return nil
		}
		if err := all.Each(ctx, `
			SELECT DISTINCT memory_id FROM graph_facts
			WHERE namespace = ?1 AND vector_model IS NOT ?2 AND origin <> 'text' AND relation <> '`+AliasRelation+`'`, []any{namespace, model}, []any{&id}, add); err != nil {
			return err
		}
		if len(lacking) == 0 {
			return nil
		}
		var mentions []byte
		return all.Each(ctx, "SELECT memory_id, mentions FROM graph_memories WHERE namespace = ?1", []any{namespace}, []any{&id, &mentions}, func() error {
			lacks := false
			eachMention(mentions, func(m mention) { lacks = lacks || m.salience >= salienceResolved && lacking[m.concept] })
			if lacks {
				return add()
			}
			return nil
		})
	})
	return memories, err
}

// sqliteTables are the tables in a transaction, or of connections that read.
type sqliteTables struct{ db sqlite.Queryer }

// send implements tables.
func (t sqliteTables) send(ctx context.Context, b *batch) error {
	steps := b.steps
	b.steps = nil
	for _, s := range steps {
		if s.sqlite == "" {
			continue
		}
		if err := t.run(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (t sqliteTables) run(ctx context.Context, s step) (err error) {
	last, rows := len(s.args)-1, list(nil)
	if s.each {
		rows = s.args[last].(list)
		s.args = s.args[:last]
	}
	args := make([]any, len(s.args))
	for i, arg := range s.args {
		if args[i], err = sqliteValue(arg); err != nil {
			return err
		}
	}
	switch {
	case s.each:
		return sqlite.ExecEach(ctx, t.db.(*sql.Tx), s.sqlite, rows, func(row []any) []any { return slices.Concat(args, row) })
	case s.read == nil:
		_, err = t.db.(*sql.Tx).ExecContext(ctx, s.sqlite, args...)
		return err
	}
	_, err = sqlite.Query(ctx, t.db, func(scan func(...any) error) (struct{}, error) {
		if err := scan(s.targets...); err != nil {
			return struct{}{}, err
		}
		s.read()
		return struct{}{}, nil
	}, s.sqlite, args...)
	return err
}

// sqliteValue returns an argument as the engine has it. Lists become JSON.
func sqliteValue(arg any) (any, error) {
	switch arg := arg.(type) {
	case uuid.UUID:
		return arg[:], nil
	case list:
		for _, row := range arg {
			for i, v := range row {
				if at, ok := v.(time.Time); ok {
					row[i] = sqlite.Micros(at)
				}
			}
		}
	case []uuid.UUID, []int64:
	default:
		return arg, nil
	}
	text, err := json.Marshal(arg)
	return string(text), err
}

// changed implements tables.
func (t sqliteTables) changed(b *batch, memories []uuid.UUID) {
	b.exec(dialects{sqlite: "UPDATE graph_memories SET links = links WHERE namespace = ?1 AND memory_id IN (SELECT unhex(value, '-') FROM json_each(?2))"}, memories)
}

// mentions implements tables.
func (t sqliteTables) mentions(b *batch, memories []uuid.UUID, fn func(uuid.UUID, mention)) {
	var id uuid.UUID
	var stored sql.RawBytes
	b.query(dialects{sqlite: "SELECT memory_id, mentions FROM graph_memories WHERE namespace = ?1 AND memory_id IN (SELECT unhex(value, '-') FROM json_each(?2))"},
		[]any{&id, &stored}, func() { eachMention(stored, func(m mention) { fn(id, m) }) }, memories)
}

// put implements tables. Triggers log that the memories have changed, and count the mentions of those that are not fresh.
func (t sqliteTables) put(b *batch, entries []entry, links, fresh bool) {
	var memories, counts list
	more := map[int64]int64{}
	for _, e := range entries {
		memories = append(memories, []any{e.memory, storedMentions(e.now), e.links})
		for _, m := range e.now {
			more[m.concept]++
		}
	}
	b.exec(dialects{sqlite: `
		INSERT INTO graph_memories (namespace, memory_id, mentions, links, counted)
		SELECT ?1, unhex(value ->> 0, '-'), value ->> 1, coalesce(value ->> 2, '[]'), ?2 FROM json_each(?4) WHERE true
		ON CONFLICT (namespace, memory_id) DO UPDATE SET mentions = excluded.mentions, links = iif(?3, excluded.links, links)`}, fresh, links, memories)
	if !fresh {
		return
	}
	for _, concept := range slices.Sorted(maps.Keys(more)) {
		counts = append(counts, []any{concept, more[concept]})
	}
	b.each(dialects{sqlite: "UPDATE graph_concepts SET mentions = mentions + ?3 WHERE namespace = ?1 AND id = ?2"}, counts)
}

// storedMentions is the column graph_memories.mentions: concepts with their salience in hundredths, as JSON. They are in order, so that
// triggers see when nothing has changed.
func storedMentions(list []mention) string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b mention) int { return cmp.Compare(a.concept, b.concept) })
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
