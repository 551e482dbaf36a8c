package graph

import (
	"context"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
)

// engine is a database of either kind. What differs between them is here; all else are batches.
type engine interface {
	// update runs fn in a transaction, anew after a conflict with another one.
	update(ctx context.Context, fn func(tables) error) error
	// written reads what was written last. searched reads where searches do, which may be a standby.
	written() tables
	searched() tables
	// tasks is the queue of the index, where searches read.
	tasks() queue.Store
	// lacking returns the memories of which unembedded returns something.
	lacking(ctx context.Context, namespace, model string) ([]uuid.UUID, error)
}

// tables are the graph's tables, in a transaction or outside of one.
type tables interface {
	// send runs the statements of a batch and empties it. Outside of a transaction, they are queries.
	send(ctx context.Context, b *batch) error
	// mentions queues a query for the mentions of memories.
	mentions(b *batch, memories []uuid.UUID, fn func(memory uuid.UUID, m mention))
	// changed tells that memories have changed, besides those that were put.
	changed(b *batch, memories []uuid.UUID)
	// put queues the statements that replace mentions, with links as well. The memories of fresh ones have nothing stored.
	put(b *batch, entries []entry, links, fresh bool)
}

// entry is a memory of the graph: its mentions as they are stored and as they become, and its authors' links.
type entry struct {
	memory   uuid.UUID
	had, now []mention
	links    []authorLink
}

// batch is statements about a namespace, which is their first argument unless it is postgres.AllNamespaces. PostgreSQL answers them
// in one round trip.
type batch struct {
	namespace string
	steps     []step
}

// dialects is a statement for each engine, with arguments $1, $2 or ?1, ?2. An engine skips an empty one.
type dialects struct{ postgres, sqlite string }

// list is rows as an argument. It is the last one of its statement, which is skipped without rows. PostgreSQL gets an array of each
// column, SQLite all rows as JSON, with ids in hexadecimal and times in microseconds.
type list [][]any

// step is a statement. read is called for each row, whose columns are then in targets.
type step struct {
	dialects
	args, targets []any
	read          func()
	each          bool // for SQLite to run it for each row of its list, whose columns are arguments
}

func (b *batch) exec(s dialects, args ...any) { b.query(s, nil, nil, args...) }

// each is exec for an UPDATE of the rows in a list, which SQLite would not begin with.
func (b *batch) each(s dialects, args ...any) {
	before := len(b.steps)
	b.exec(s, args...)
	for i := range b.steps[before:] {
		b.steps[before+i].each = true
	}
}

func (b *batch) query(s dialects, targets []any, read func(), args ...any) {
	if n := len(args); n > 0 {
		if rows, ok := args[n-1].(list); ok && len(rows) == 0 {
			return
		}
	}
	if b.namespace != postgres.AllNamespaces {
		args = append([]any{b.namespace}, args...)
	}
	b.steps = append(b.steps, step{dialects: s, args: args, targets: targets, read: read})
}

// ask runs one query, whose only row it reads.
func ask(ctx context.Context, t tables, namespace string, s dialects, targets []any, args ...any) error {
	b := &batch{namespace: namespace}
	b.query(s, targets, func() {}, args...)
	return t.send(ctx, b)
}

// lock returns the revisions of those memories that exist and are not sensitive. Until the transaction ends, they stay so.
func lock(ctx context.Context, t tables, b *batch, memories []uuid.UUID) (map[uuid.UUID]int64, error) {
	current := map[uuid.UUID]int64{}
	var id uuid.UUID
	var revision int64
	b.query(dialects{
		`SELECT id, revision FROM memory.memories WHERE namespace = $1 AND id = ANY($2) AND NOT sensitive ORDER BY id FOR SHARE`,
		`SELECT m.id, m.revision FROM json_each(?2) j CROSS JOIN memories m ON m.namespace = ?1 AND m.id = unhex(j.value, '-') WHERE NOT m.sensitive`,
	}, []any{&id, &revision}, func() { current[id] = revision }, memories)
	return current, t.send(ctx, b)
}

// lockNamespace lets one transaction at a time change the mentions of a namespace. Memories are locked before.
func (b *batch) lockNamespace() { b.exec(dialects{postgres: "SELECT graph.lock_namespace($1)"}) }

// putConcepts queues the statement that adds concepts.
func (b *batch) putConcepts(concepts list) {
	b.exec(dialects{
		`INSERT INTO graph.concepts (namespace, id, key, name, kind)
		SELECT n.name, c.* FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS c WHERE n.name = $1
		ON CONFLICT (namespace, id) DO NOTHING`,
		`INSERT INTO graph_concepts (namespace, id, key, name, kind)
		SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?2) WHERE true
		ON CONFLICT (namespace, id) DO NOTHING`,
	}, concepts)
}
