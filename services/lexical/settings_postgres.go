package lexical

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// reindexBatch is the number of memories that one transaction indexes, on either engine.
const reindexBatch = 200

// Settings implements Leg.
func (p *Postgres) Settings(ctx context.Context, namespace string) (Settings, error) {
	return readSettings(ctx, p.pool, namespace)
}

// Set implements Leg.
func (p *Postgres) Set(ctx context.Context, namespace string, s Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	var former Settings
	err := postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) (err error) {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+settingsLock+`) FROM (SELECT $1::text AS namespace) n`, namespace); err != nil {
			return err
		}
		if former, err = readSettings(ctx, tx, namespace); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO lexical.settings (namespace, language, k1, b, prefix, scorer) VALUES ($1, $2, $3, $4, $5, nullif($6, ''))
			ON CONFLICT (namespace) DO UPDATE SET language = excluded.language, k1 = excluded.k1, b = excluded.b, prefix = excluded.prefix, scorer = excluded.scorer`,
			namespace, s.Language, s.K1, s.B, s.Prefix, ScorerName(s.Scorer))
		changes.Add(namespace, string(replica.Records), uuid.Nil) // no memory: images read the settings with any change
		return err
	})
	p.images.set.Told()
	if err != nil || s.Language == former.Language {
		return err
	}
	return p.Reindex(ctx, namespace)
}

// Reindex implements Leg.
func (p *Postgres) Reindex(ctx context.Context, namespace string) error {
	defer p.images.set.Told()
	var after uuid.UUID
	for more := true; more; {
		err := postgres.Write(ctx, p.pool, "", func(tx pgx.Tx, changes postgres.Changes) error {
			rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT `+record.Columns+` FROM memory.memories m
				WHERE m.namespace = $1 AND m.id > $2 ORDER BY m.id LIMIT $3 FOR NO KEY UPDATE`, namespace, after, reindexBatch)
			if err != nil {
				return err
			}
			records, err := pgx.CollectRows(rows, postgres.ScanRecord)
			if err != nil {
				return err
			}
			more = len(records) == reindexBatch
			for _, r := range records {
				after = r.ID
				changes.Add(namespace, string(replica.Records), r.ID)
			}
			return putPostgres(ctx, tx, records, split{vectors: true})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
