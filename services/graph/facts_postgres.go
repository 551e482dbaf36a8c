package graph

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/replica"
)

var _ Facts = (*Postgres)(nil)

// PutFacts implements Facts.
func (p *Postgres) PutFacts(ctx context.Context, namespace string, origin Origin, facts []Fact) (stored int, err error) {
	list, concepts, err := statements(facts)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	for range maxIndexAttempts {
		err = postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
			stored, err = putFactsPostgres(ctx, tx, changes, namespace, origin, list, concepts)
			return err
		})
		if !postgres.IsRetryable(err) {
			break
		}
	}
	if err == nil {
		err = p.embed(ctx, p, namespace, memoriesOf(list))
	}
	return stored, err
}

func putFactsPostgres(ctx context.Context, tx pgx.Tx, changes postgres.Changes, namespace string, origin Origin, list []statement, concepts map[int64]Concept) (int, error) {
	rows, err := postgres.In(tx, namespace).Query(ctx,
		"SELECT id FROM memory.memories WHERE namespace = $1 AND id = ANY($2) AND NOT sensitive ORDER BY id FOR SHARE", namespace, memoriesOf(list))
	if err != nil {
		return 0, err
	}
	memories, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(memories) == 0 {
		return 0, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s statement) bool { return !slices.Contains(memories, s.memory) })
	batch := &pgx.Batch{}
	batch.Queue("SELECT graph.lock_namespace($1)", namespace)
	counts := mentionsOf(batch, namespace, memories)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return 0, err
	}
	var put struct {
		ids              []int64
		keys, names      []string
		ends             []int64
		memories         []uuid.UUID
		sources, targets []int64
		relations        []string
		single           []bool
		from, to         []*time.Time
	}
	used := map[int64]bool{}
	for _, s := range list {
		for _, id := range []int64{s.source, s.target} {
			counts.put(s.memory, id)
			if c := concepts[id]; !used[id] {
				used[id] = true
				put.ids, put.keys, put.names = append(put.ids, id), append(put.keys, c.Key), append(put.names, c.Name)
			}
		}
		put.memories, put.sources, put.targets = append(put.memories, s.memory), append(put.sources, s.source), append(put.targets, s.target)
		put.relations, put.single = append(put.relations, s.relation), append(put.single, s.single)
		put.from, put.to = append(put.from, optional(s.from)), append(put.to, optional(s.to))
	}
	for _, id := range memories {
		put.ends = append(put.ends, endKey(id))
	}
	batch = &pgx.Batch{}
	batch.Queue(`
		INSERT INTO graph.concepts (namespace, id, key, name, kind) SELECT n.name, c.*, 'name' FROM memory.namespaces n CROSS JOIN unnest($2::bigint[], $3::text[], $4::text[]) AS c WHERE n.name = $1
		ON CONFLICT (namespace, id) DO NOTHING`, namespace, put.ids, put.keys, put.names)
	batch.Queue(`
		INSERT INTO graph.memory_concepts (namespace, concept_id, memory_id, salience)
		SELECT DISTINCT n.name, e.concept, e.memory, $5::real
		FROM memory.namespaces n CROSS JOIN unnest($2::uuid[] || $2::uuid[], $3::bigint[] || $4::bigint[]) AS e (memory, concept)
		WHERE n.name = $1
		ON CONFLICT (namespace, concept_id, memory_id) DO NOTHING`, namespace, put.memories, put.sources, put.targets, salienceFact)
	batch.Queue(`
		INSERT INTO graph.facts AS f (namespace, memory_id, source_id, target_id, relation, single, valid_from, valid_to, origin)
		SELECT m.namespace, m.id, g.source, g.target, g.relation, g.single, coalesce(g.begins, m.occurred_at, m.created_at), g.ends, $9
		FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::boolean[], $7::timestamptz[], $8::timestamptz[])
			AS g (memory, source, target, relation, single, begins, ends)
		JOIN memory.memories m ON m.namespace = $1 AND m.id = g.memory
		ON CONFLICT (namespace, memory_id, source_id, target_id, relation) DO UPDATE SET origin = excluded.origin, single = excluded.single,
			valid_from = excluded.valid_from, valid_to = excluded.valid_to
		WHERE NOT (f.origin = 'import' AND excluded.origin = 'model')`,
		namespace, put.memories, put.sources, put.targets, put.relations, put.single, put.from, put.to, origin)
	counts.queue(batch, namespace)
	batch.Queue(touchPostgres, namespace, memories, put.ends)
	changes.Add(namespace, string(replica.Graph), memories...)
	return len(list), tx.SendBatch(ctx, batch).Close()
}
