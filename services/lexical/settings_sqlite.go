package lexical

import (
	"context"
	"database/sql"

	"github.com/triskele/triskele/services/sqlite"
)

// SetSQLite changes a namespace's settings, and indexes its memories again if their language changed. FTS5 takes no
// notice of k1 and b.
func SetSQLite(ctx context.Context, db *sqlite.DB, namespace string, s Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	err := db.Update(ctx, func(tx *sql.Tx) error {
		former, err := settingsOf(ctx, tx, namespace)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO lexical_settings (namespace, language, k1, b, prefix) VALUES (?, ?, ?, ?, ?)`,
			namespace, s.Language, s.K1, s.B, s.Prefix); err != nil || s.Language == former.Language {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM lexical_documents WHERE namespace = ?`, namespace)
		return err
	})
	if err != nil {
		return err
	}
	return CatchUpSQLite(ctx, db)
}
