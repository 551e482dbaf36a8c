package lexical

import (
	"context"
	"database/sql"
	"errors"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLiteIndex writes the forward index in the record's own transaction.
type SQLiteIndex struct{ splitter }

// Prepare splits records into words. put adds or replaces documents of records, these or others.
func (s *SQLiteIndex) Prepare(ctx context.Context, records []record.Record) (put func(context.Context, sqldb.Tx, []record.Record) error) {
	ready := s.split(ctx, records, false)
	return func(ctx context.Context, tx sqldb.Tx, records []record.Record) error {
		return putSQLite(ctx, tx.SQLite, records, ready)
	}
}

func putSQLite(ctx context.Context, tx *sql.Tx, records []record.Record, ready split) error {
	statement, err := tx.PrepareContext(ctx, `INSERT INTO lexical_documents (namespace, memory_id, terms) VALUES (?, ?, ?)
		ON CONFLICT (namespace, memory_id) DO UPDATE SET terms = excluded.terms WHERE terms IS NOT excluded.terms`)
	if err != nil {
		return err
	}
	defer func() { _ = statement.Close() }()
	settings := map[string]Settings{}
	for _, r := range records {
		if _, known := settings[r.Namespace]; known {
			continue
		}
		if settings[r.Namespace], err = settingsOf(ctx, tx, r.Namespace); err != nil {
			return err
		}
	}
	rows, err := ready.in(ctx, records, settings)
	if err != nil {
		return err
	}
	for i, r := range records {
		if _, err := statement.ExecContext(ctx, r.Namespace, r.ID[:], rows[i].terms); err != nil {
			return err
		}
	}
	return nil
}

// settingsOf returns a namespace's settings, or the default ones.
func settingsOf(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, namespace string) (Settings, error) {
	var s Settings
	var scorer string
	err := db.QueryRowContext(ctx, `SELECT `+settingsColumns+` FROM lexical_settings WHERE namespace = ?`, namespace).
		Scan(&s.Language, &s.K1, &s.B, &s.Prefix, &scorer)
	if errors.Is(err, sql.ErrNoRows) {
		return DefaultSettings(), nil
	}
	s.Scorer = ScorerByName(scorer)
	return s, err
}

// SQLite searches images by BM25.
type SQLite struct {
	db     *sqlite.DB
	images images
}

var _ Leg = (*SQLite)(nil)

// NewSQLite returns the leg for a database.
func NewSQLite(db *sqlite.DB, set *replica.Set) *SQLite {
	return &SQLite{db, newImages(set, triskelev1.Scorer_SCORER_BM25, false, 0.9)}
}

// Search implements leg.Searcher. A namespace that is not in memory has no hits yet, and the state is then TRUNCATED.
func (s *SQLite) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	result, err := s.images.search(ctx, q)
	if inSQL(err) {
		return leg.Result{State: triskelev1.LegState_LEG_STATE_TRUNCATED, Reason: err.Error(), ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25}, nil
	}
	return result, err
}

// Status implements leg.Searcher. Nothing is ever pending, because the index is written in the record's transaction. So the
// memories are counted, which have a small index, and not their words.
func (s *SQLite) Status(ctx context.Context, namespace string) (leg.Status, error) {
	status := leg.Status{Model: "bm25"}
	err := s.db.Read.QueryRowContext(ctx, `SELECT count(*) FROM memories WHERE namespace = ?`, namespace).Scan(&status.Indexed)
	return status, err
}
