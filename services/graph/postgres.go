package graph

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// maxIndexAttempts bounds the attempts after conflicts between transactions.
const maxIndexAttempts = 5

// Postgres is the graph in PostgreSQL.
type Postgres struct {
	queue.Follower
	*postgres.Standby // to search in; set it before the first search
	searcher
	pool *pgxpool.Pool
}

var (
	_ leg.Searcher   = (*Postgres)(nil)
	_ leg.AsyncIndex = (*Postgres)(nil)
	_ queue.Indexer  = (*Postgres)(nil)
)

// NewPostgres returns the graph of a database. images get its part; q reports pending tasks.
func NewPostgres(pool *pgxpool.Pool, images *replica.Set, q queue.Store, cfg Config) *Postgres {
	p := &Postgres{Follower: queue.Follow(q, indexName), pool: pool}
	p.searcher = newSearcher(p, p, images, readPostgres, cfg)
	return p
}

// Prepare implements memory.Derived.
func (p *Postgres) Prepare(_ context.Context, records []record.Record) (sqldb.Putter, error) {
	put := p.prepare(records)
	return func(ctx context.Context, tx sqldb.Tx, stored map[record.Key]bool) error {
		return put(ctx, &postgresTables{db: tx.Postgres, changes: tx.Postgres.Changes}, stored)
	}, nil
}

// update implements engine.
func (p *Postgres) update(ctx context.Context, fn func(tables) error) (err error) {
	for range maxIndexAttempts {
		err = postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
			return fn(&postgresTables{db: tx, changes: changes})
		})
		if !postgres.IsRetryable(err) {
			break
		}
	}
	return err
}

func (p *Postgres) written() tables    { return &postgresTables{db: p.pool} }
func (p *Postgres) searched() tables   { return &postgresTables{db: p.Or(p.pool)} }
func (p *Postgres) tasks() queue.Store { return queue.NewPostgres(p.Or(p.pool)) }

// lacking implements engine.
func (p *Postgres) lacking(ctx context.Context, namespace, model string) (memories []uuid.UUID, err error) {
	var id uuid.UUID
	b := &batch{namespace: namespace}
	b.query(dialects{postgres: `
		SELECT m.memory_id FROM graph.memory_concepts m JOIN graph.concepts c ON c.namespace = m.namespace AND c.id = m.concept_id
		WHERE m.namespace = $1 AND m.salience >= $3 AND c.vector_model IS DISTINCT FROM $2
		UNION
		SELECT memory_id FROM graph.facts
		WHERE namespace = $1 AND vector_model IS DISTINCT FROM $2 AND origin <> 'text' AND relation <> $4`,
	}, []any{&id}, func() { memories = append(memories, id) }, model, salienceResolved, AliasRelation)
	return memories, p.written().send(ctx, b)
}

// postgresTables are the tables in a transaction, or of a pool.
type postgresTables struct {
	db      postgres.Batcher
	changes postgres.Changes // of the transaction
	entered string           // the namespace that the transaction is about
}

// send implements tables.
func (t *postgresTables) send(ctx context.Context, b *batch) error {
	queued := &pgx.Batch{}
	for _, s := range b.steps {
		if s.postgres == "" {
			continue
		}
		query := queued.Queue(s.postgres, columns(s.args)...)
		if s.read == nil {
			continue
		}
		query.Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, s.targets, func() error {
				s.read()
				return nil
			})
			return err
		})
	}
	b.steps = nil
	if t.changes != nil && t.entered == b.namespace {
		return t.db.SendBatch(ctx, queued).Close()
	}
	t.entered = b.namespace
	return postgres.In(t.db, b.namespace).Send(ctx, queued)
}

// columns puts an array of each column in place of a list.
func columns(args []any) (out []any) {
	for _, arg := range args {
		rows, ok := arg.(list)
		if !ok {
			out = append(out, arg)
			continue
		}
		for i := range rows[0] {
			column := make([]any, len(rows))
			for r, row := range rows {
				if t, ok := row[i].(time.Time); !ok || !t.IsZero() {
					column[r] = row[i]
				}
			}
			out = append(out, column)
		}
	}
	return out
}

// changed implements tables.
func (t *postgresTables) changed(b *batch, memories []uuid.UUID) {
	t.changes.Add(b.namespace, string(replica.Graph), memories...)
}

// mentions implements tables.
func (t *postgresTables) mentions(b *batch, memories []uuid.UUID, fn func(uuid.UUID, mention)) {
	var id uuid.UUID
	var m mention
	b.query(dialects{postgres: "SELECT memory_id, concept_id, salience FROM graph.memory_concepts WHERE namespace = $1 AND memory_id = ANY($2)"},
		[]any{&id, &m.concept, &m.salience}, func() { fn(id, m) }, memories)
}

// put implements tables.
func (t *postgresTables) put(b *batch, entries []entry, links, fresh bool) {
	var put, gone, linked, ends, counts list
	var memories []uuid.UUID
	more := map[int64]int64{} // mentions, by concept
	for _, e := range entries {
		memories, ends = append(memories, e.memory), append(ends, []any{e.memory, endKey(e.memory)})
		had := map[int64]float32{}
		for _, m := range e.had {
			had[m.concept] = float32(m.salience)
		}
		for _, m := range e.now {
			salience, known := had[m.concept]
			if !known {
				more[m.concept]++
			}
			if !known || salience != float32(m.salience) {
				put = append(put, []any{m.concept, e.memory, float32(m.salience)})
			}
			delete(had, m.concept)
		}
		for concept := range had {
			more[concept]--
			gone = append(gone, []any{concept, e.memory})
		}
		for _, l := range e.links {
			linked = append(linked, []any{e.memory, l.Target, l.Relation})
		}
	}
	for _, concept := range slices.Sorted(maps.Keys(more)) {
		counts = append(counts, []any{concept, more[concept]})
	}
	b.exec(dialects{postgres: `
		INSERT INTO graph.memory_concepts (namespace, concept_id, memory_id, salience)
		SELECT n.name, m.* FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::uuid[], $4::real[]) AS m WHERE n.name = $1
		ON CONFLICT (namespace, concept_id, memory_id) DO UPDATE SET salience = excluded.salience`}, put)
	b.exec(dialects{postgres: `
		DELETE FROM graph.memory_concepts m USING unnest($2::bigint[], $3::uuid[]) AS g (concept, memory)
		WHERE m.namespace = $1 AND m.concept_id = g.concept AND m.memory_id = g.memory`}, gone)
	if links && !fresh {
		b.exec(dialects{postgres: "DELETE FROM graph.memory_links WHERE namespace = $1 AND source_id = ANY($2)"}, memories)
	}
	b.exec(dialects{postgres: `
		INSERT INTO graph.memory_links (namespace, source_id, target_key, relation)
		SELECT n.name, l.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[], $4::text[]) AS l WHERE n.name = $1`}, linked)
	b.exec(dialects{postgres: "SELECT graph.count_mentions($1, $2, $3)"}, counts)
	b.exec(dialects{postgres: `
		INSERT INTO graph.link_ends (namespace, memory_id, key) SELECT n.name, e.* FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::bigint[]) AS e WHERE n.name = $1
		ON CONFLICT (namespace, memory_id) DO UPDATE SET key = excluded.key`}, ends)
	t.changed(b, memories)
}
