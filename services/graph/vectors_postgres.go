package graph

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/replica"
)

// postgresVectors are the vectors in a transaction that holds the namespace's lock.
type postgresVectors struct{ postgres.WriteTx }

// unembedded implements vectorStore.
func (p *Postgres) unembedded(ctx context.Context, namespace, model string, memories []uuid.UUID) (list []unembedded, err error) {
	err = postgres.Search(ctx, p.pool, namespace, nil, func(tx pgx.Tx) error {
		list, err = postgresVectors{postgres.WriteTx{Tx: tx}}.unembedded(ctx, namespace, model, memories)
		return err
	})
	return list, err
}

// unembedded implements vectorTables.
func (p postgresVectors) unembedded(ctx context.Context, namespace, model string, memories []uuid.UUID) ([]unembedded, error) {
	rows, err := p.Query(ctx, `
			SELECT DISTINCT c.id, 0::bigint, '', c.name
			FROM graph.memory_concepts m JOIN graph.concepts c ON c.namespace = m.namespace AND c.id = m.concept_id
			WHERE m.namespace = $1 AND m.memory_id = ANY($2) AND m.salience >= $4 AND c.vector_model IS DISTINCT FROM $3
			UNION ALL
			SELECT DISTINCT e.source_id, e.target_id, e.relation, s.name || ' ' || e.relation || ' ' || t.name
			FROM graph.facts e
			JOIN graph.concepts s ON s.namespace = e.namespace AND s.id = e.source_id
			JOIN graph.concepts t ON t.namespace = e.namespace AND t.id = e.target_id
			WHERE e.namespace = $1 AND e.memory_id = ANY($2) AND e.origin <> 'text' AND e.relation <> $5 AND e.vector_model IS DISTINCT FROM $3`,
		namespace, memories, model, salienceResolved, AliasRelation)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanUnembedded)
}

func scanUnembedded(row pgx.CollectableRow) (u unembedded, err error) {
	err = row.Scan(&u.concept, &u.target, &u.relation, &u.text)
	return u, err
}

// unembeddedOf implements newVectorTables.
func (p postgresVectors) unembeddedOf(ctx context.Context, namespace, model string, concepts []int64) ([]unembedded, error) {
	rows, err := p.Query(ctx, `SELECT id, 0::bigint, '', name FROM graph.concepts WHERE namespace = $1 AND id = ANY($2) AND vector_model IS DISTINCT FROM $3`,
		namespace, concepts, model)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanUnembedded)
}

// putVectors implements vectorStore.
func (p *Postgres) putVectors(ctx context.Context, namespace, model string, memories []uuid.UUID, of []unembedded, vectors []code) (err error) {
	for range maxIndexAttempts {
		err = postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
			// Same lock order as in Index.
			if _, err := postgres.In(tx, namespace).Exec(ctx,
				"SELECT id FROM memory.memories WHERE namespace = $1 AND id = ANY($2) AND NOT sensitive ORDER BY id FOR SHARE", namespace, memories); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SELECT graph.lock_namespace($1)", namespace); err != nil {
				return err
			}
			return postgresVectors{postgres.WriteTx{Tx: tx, Changes: changes}}.putVectors(ctx, namespace, model, memories, of, vectors)
		})
		if !postgres.IsRetryable(err) {
			return err
		}
	}
	return err
}

// putVectors implements vectorTables.
func (p postgresVectors) putVectors(ctx context.Context, namespace, model string, memories []uuid.UUID, of []unembedded, vectors []code) error {
	var concepts, sources, targets []int64
	var relations []string
	var named, stated [][]byte
	for i, u := range of {
		if u.relation == "" {
			concepts, named = append(concepts, u.concept), append(named, vectors[i].bytes())
			continue
		}
		sources, targets, relations = append(sources, u.concept), append(targets, u.target), append(relations, u.relation)
		stated = append(stated, vectors[i].bytes())
	}
	batch := &pgx.Batch{}
	batch.Queue(`
				UPDATE graph.concepts c SET vector = v.vector, vector_model = $2 FROM unnest($3::bigint[], $4::bytea[]) AS v (id, vector)
				WHERE c.namespace = $1 AND c.id = v.id`, namespace, model, concepts, named)
	batch.Queue(`
				UPDATE graph.facts e SET vector = v.vector, vector_model = $2
				FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::bytea[]) AS v (source, target, relation, vector)
				WHERE e.namespace = $1 AND e.source_id = v.source AND e.target_id = v.target AND e.relation = v.relation AND e.memory_id = ANY($7)`,
		namespace, model, sources, targets, relations, stated, memories)
	p.Add(namespace, string(replica.Graph), memories...)
	return p.SendBatch(ctx, batch).Close()
}

// namespaces implements vectorStore.
func (p *Postgres) namespaces(ctx context.Context) ([]string, error) {
	rows, err := postgres.In(p.pool, postgres.AllNamespaces).Query(ctx, "SELECT DISTINCT namespace FROM graph.link_ends ORDER BY namespace")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// lacking implements vectorStore.
func (p *Postgres) lacking(ctx context.Context, namespace, model string) (memories []uuid.UUID, err error) {
	err = postgres.Search(ctx, p.pool, namespace, nil, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT m.memory_id FROM graph.memory_concepts m JOIN graph.concepts c ON c.namespace = m.namespace AND c.id = m.concept_id
			WHERE m.namespace = $1 AND m.salience >= $3 AND c.vector_model IS DISTINCT FROM $2
			UNION
			SELECT memory_id FROM graph.facts
			WHERE namespace = $1 AND vector_model IS DISTINCT FROM $2 AND origin <> 'text' AND relation <> $4`,
			namespace, model, salienceResolved, AliasRelation)
		if err != nil {
			return err
		}
		memories, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return memories, err
}

// names implements vectorStore.
func (p *Postgres) names(ctx context.Context, namespace string, ids []int64) (map[int64]string, error) {
	rows, err := postgres.In(p.Or(p.pool), namespace).Query(ctx, "SELECT id, name FROM graph.concepts WHERE namespace = $1 AND id = ANY($2)", namespace, ids)
	if err != nil {
		return nil, err
	}
	out := map[int64]string{}
	var id int64
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		out[id] = name
		return nil
	})
	return out, err
}
