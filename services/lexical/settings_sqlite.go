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

// Set implements Leg. FTS5 ignores k1 and b.
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
		return err
	})
	if err != nil || settings.Language == former.Language {
		return err
	}
	return s.Reindex(ctx, namespace)
}

// Reindex implements Leg.
func (s *SQLite) Reindex(ctx context.Context, namespace string) error {
	var after uuid.UUID
	for more := true; more; {
		err := s.db.Update(ctx, func(tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, `SELECT `+sqlite.RecordColumns+` FROM memories m
				WHERE m.namespace = ? AND m.id > ? ORDER BY m.id LIMIT ?`, namespace, after[:], reindexBatch)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			var records []record.Record
			for rows.Next() {
				r, err := sqlite.ScanRecord(rows.Scan)
				if err != nil {
					return err
				}
				records, after = append(records, r), r.ID
			}
			if err := rows.Err(); err != nil {
				return err
			}
			more = len(records) == reindexBatch
			return SQLiteIndex{}.Put(ctx, tx, records)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
