package lexical

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
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
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+settingsLock+`) FROM (SELECT $1::text AS namespace) n`, namespace); err != nil {
			return err
		}
		if former, err = readSettings(ctx, tx, namespace); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO lexical.settings (namespace, language, k1, b, prefix, scorer) VALUES ($1, $2, $3, $4, $5, nullif($6, ''))
			ON CONFLICT (namespace) DO UPDATE SET language = excluded.language, k1 = excluded.k1, b = excluded.b, prefix = excluded.prefix, scorer = excluded.scorer`,
			namespace, s.Language, s.K1, s.B, s.Prefix, ScorerName(s.Scorer))
		if err != nil {
			return err
		}
		return p.log(ctx, tx, namespace, uuid.Nil)
	})
	p.images.set.Told()
	if err != nil || s.Language == former.Language {
		return err
	}
	return p.Reindex(ctx, namespace)
}

// log tells images that memories have changed. They read the namespace's settings with any change; uuid.Nil is no memory.
func (p *Postgres) log(ctx context.Context, tx pgx.Tx, namespace string, ids ...uuid.UUID) error {
	_, err := tx.Exec(ctx, `SELECT memory.log_change($1, $2)`, namespace, ids)
	return err
}

// Reindex implements Leg.
func (p *Postgres) Reindex(ctx context.Context, namespace string) error {
	defer p.images.set.Told()
	var after uuid.UUID
	for more := true; more; {
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT `+postgres.RecordColumns+` FROM memory.memories m
				WHERE m.namespace = $1 AND m.id > $2 ORDER BY m.id LIMIT $3 FOR NO KEY UPDATE`, namespace, after, reindexBatch)
			if err != nil {
				return err
			}
			records, err := pgx.CollectRows(rows, postgres.ScanRecord)
			if err != nil {
				return err
			}
			more = len(records) == reindexBatch
			ids := make([]uuid.UUID, len(records))
			for i, r := range records {
				ids[i], after = r.ID, r.ID
			}
			if err := (PostgresIndex{}).Put(ctx, tx, records); err != nil {
				return err
			}
			return p.log(ctx, tx, namespace, ids...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
