package lexical

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Settings implements Leg.
func (s *SQLite) Settings(ctx context.Context, namespace string) (Settings, error) {
	return settingsOf(ctx, s.db.Read, namespace)
}

// Set implements Leg.
func (s *SQLite) Set(ctx context.Context, namespace string, settings Settings) error {
	if err := settings.Check(); err != nil {
		return err
	}
	var former Settings
	err := s.db.Update(ctx, func(tx *sql.Tx) (err error) {
		if former, err = settingsOf(ctx, tx, namespace); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO lexical_settings (namespace, language, k1, b, prefix, scorer) VALUES (?, ?, ?, ?, ?, nullif(?, ''))`,
			namespace, settings.Language, settings.K1, settings.B, settings.Prefix, ScorerName(settings.Scorer))
		if err != nil {
			return err
		}
		return s.log(ctx, tx, namespace, uuid.Nil)
	})
	s.images.set.Told()
	if err != nil || settings.Language == former.Language {
		return err
	}
	return s.Reindex(ctx, namespace)
}

// log tells images that memories have changed, as on PostgreSQL.
func (s *SQLite) log(ctx context.Context, tx *sql.Tx, namespace string, ids ...uuid.UUID) error {
	if len(ids) == 0 { // json_each has a row for null
		return nil
	}
	var args sqlite.Args
	_, err := tx.ExecContext(ctx, `INSERT INTO log (namespace, memory_id, part) SELECT n.name, unhex(changed.value, '-'), 'm'
		FROM json_each(`+args.AddJSON(ids)+`) changed JOIN namespaces n ON n.name = `+args.Add(namespace), args...)
	return err
}

// Reindex implements Leg.
func (s *SQLite) Reindex(ctx context.Context, namespace string) error {
	defer s.images.set.Told()
	var after uuid.UUID
	for more := true; more; {
		err := s.db.Update(ctx, func(tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, `SELECT `+record.Columns+` FROM memories m
				WHERE m.namespace = ? AND m.id > ? ORDER BY m.id LIMIT ?`, namespace, after[:], reindexBatch)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			var records []record.Record
			var ids []uuid.UUID
			for rows.Next() {
				r, err := sqlite.ScanRecord(rows.Scan)
				if err != nil {
					return err
				}
				records, ids, after = append(records, r), append(ids, r.ID), r.ID
			}
			if err := rows.Err(); err != nil {
				return err
			}
			more = len(records) == reindexBatch
			if err := putSQLite(ctx, tx, records, split{}); err != nil {
				return err
			}
			return s.log(ctx, tx, namespace, ids...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
