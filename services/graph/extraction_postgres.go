package graph

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
)

var _ Extractions = (*Postgres)(nil)

// SetExtraction implements Extractions.
func (p *Postgres) SetExtraction(ctx context.Context, on bool) error {
	_, err := p.pool.Exec(ctx, "SELECT graph.set_extraction($1)", on)
	return err
}

// Extraction implements Extractions.
func (p *Postgres) Extraction(ctx context.Context) (on bool, err error) {
	err = p.Or(p.pool).QueryRow(ctx, "SELECT graph.extraction()").Scan(&on)
	return on, err
}

// EnqueueExtraction implements Extractions.
func (p *Postgres) EnqueueExtraction(ctx context.Context, namespace string) (n int64, err error) {
	err = postgres.In(p.pool, namespace).QueryRow(ctx, "SELECT graph.enqueue_extraction($1)", namespace).Scan(&n)
	return n, err
}

// Unread implements Extractions.
func (p *Postgres) Unread(ctx context.Context, namespace string, records []record.Record) ([]uuid.UUID, error) {
	ids, revisions, digests := make([]uuid.UUID, len(records)), make([]int64, len(records)), make([]int64, len(records))
	for i, r := range records {
		ids[i], revisions[i], digests[i] = r.ID, r.Revision, digest(r)
	}
	rows, err := postgres.In(p.pool, namespace).Query(ctx, `
		SELECT m.id FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS g (id, revision, digest)
		JOIN memory.memories m ON m.namespace = $1 AND m.id = g.id AND m.revision = g.revision AND NOT m.sensitive AND m.superseded_by IS NULL
		WHERE NOT EXISTS (SELECT FROM graph.extractions x WHERE x.namespace = $1 AND x.memory_id = g.id AND x.digest = g.digest)`,
		namespace, ids, revisions, digests)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// PutExtraction implements Extractions.
func (p *Postgres) PutExtraction(ctx context.Context, r record.Record, x Extraction) error {
	list, concepts, err := factsOf(r, x)
	if err != nil {
		return err
	}
	stored := false
	for range maxIndexAttempts {
		err = postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
			current, err := lockCurrent(ctx, tx, r.Namespace, []document{{record: r}})
			if stored = err == nil && len(current) == 1; !stored {
				return err
			}
			if _, err := tx.Exec(ctx, "SELECT graph.lock_namespace($1)", r.Namespace); err != nil {
				return err
			}
			batch := &pgx.Batch{}
			batch.Queue("DELETE FROM graph.facts WHERE namespace = $1 AND memory_id = $2 AND origin = 'model'", r.Namespace, r.ID)
			batch.Queue(`
				INSERT INTO graph.extractions AS x (namespace, memory_id, digest, model, facts, tokens) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (namespace, memory_id) DO UPDATE SET digest = excluded.digest, model = excluded.model, facts = excluded.facts,
					tokens = x.tokens + excluded.tokens, extracted_at = excluded.extracted_at`, r.Namespace, r.ID, digest(r), x.Model, len(list), x.Tokens)
			if err := tx.SendBatch(ctx, batch).Close(); err != nil || len(list) == 0 {
				return err
			}
			_, err = putFactsPostgres(ctx, tx, changes, r.Namespace, OriginModel, list, concepts)
			return err
		})
		if !postgres.IsRetryable(err) {
			break
		}
	}
	if err != nil || !stored {
		return err
	}
	return p.Index(ctx, []record.Record{r}) // removes stale mentions and embeds new names
}

// Extracted implements Extractions.
func (p *Postgres) Extracted(ctx context.Context, namespace string) (x Extracted, err error) {
	err = postgres.In(p.pool, namespace).QueryRow(ctx, "SELECT count(*), coalesce(sum(tokens), 0) FROM graph.extractions WHERE namespace = $1", namespace).
		Scan(&x.Memories, &x.Tokens)
	return x, err
}
