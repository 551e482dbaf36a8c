package lexical

import (
	"context"
	"database/sql"

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
	if err := s.db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM lexical_documents WHERE namespace = ?`, namespace)
		return err
	}); err != nil {
		return err
	}
	return CatchUpSQLite(ctx, s.db)
}

// CatchUpSQLite indexes memories that lack their document or hashes, such as those from before a change of the index.
func CatchUpSQLite(ctx context.Context, db *sqlite.DB) error {
	var after record.Record
	for more := true; more; {
		err := db.Update(ctx, func(tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, `SELECT `+sqlite.RecordColumns+` FROM memories m
				WHERE (m.namespace, m.id) > (?, ?) AND (
					NOT EXISTS (SELECT 1 FROM lexical_documents d WHERE d.namespace = m.namespace AND d.memory_id = m.id)
					OR NOT EXISTS (SELECT 1 FROM lexical_hashes h WHERE h.namespace = m.namespace AND h.memory_id = m.id)
				)
				ORDER BY m.namespace, m.id LIMIT ?`, after.Namespace, after.ID[:], reindexBatch)
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
				records, after = append(records, r), r
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
