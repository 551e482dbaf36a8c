package replica

import (
	"context"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqlite"
)

// sqliteSource follows the table log. One transaction writes at a time, so the numbers of the log are in the order of commits.
type sqliteSource struct{ db *sqlite.DB }

func (s *sqliteSource) snapshot(ctx context.Context, _ string, whole bool, fn func(Tx) error) error {
	if whole {
		return s.db.Snapshot(ctx, func(all *sqlite.Snapshot) error { return fn(Tx{whole: all}) })
	}
	tx, err := s.db.Read.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return fn(Tx{sqlite: tx})
}

func (s *sqliteSource) since(ctx context.Context, tx Tx, namespace string, at position) (changes, error) {
	c := changes{ids: map[Kind][]uuid.UUID{}}
	var floor int64
	err := tx.Each(ctx, `
		SELECT coalesce((SELECT epoch FROM namespaces WHERE name = $1), ''), floor, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'log'), 0) FROM log_floor`,
		[]any{namespace}, []any{&c.now.epoch, &floor, &c.now.last}, func() error { return nil })
	if c.exists = c.now.epoch != ""; err != nil || at.epoch == "" || at.last == c.now.last {
		return c, err
	}
	if c.gap = floor > at.last; c.gap {
		return c, nil
	}
	var kind Kind
	var id uuid.UUID
	err = tx.Each(ctx, `SELECT DISTINCT part, memory_id FROM log WHERE seq > $1 AND namespace = $2`, []any{at.last, namespace}, []any{&kind, &id}, func() error {
		c.ids[kind] = append(c.ids[kind], id)
		return nil
	})
	return c, err
}

// poll reports that all namespaces may have changed if anything was logged since their positions: to look is cheap here. It keeps no
// connection: SQLite moves its log into the file when the last one is closed.
func (s *sqliteSource) poll(ctx context.Context, _ []string, at []position) ([]bool, error) {
	var last int64
	if err := s.db.Read.QueryRowContext(ctx, `SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'log'), 0)`).Scan(&last); err != nil {
		return nil, err
	}
	changed := make([]bool, len(at))
	for i := range changed {
		changed[i] = at[i].last != last
	}
	return changed, nil
}

// still does not ask: a snapshot costs as little.
func (s *sqliteSource) still(context.Context, string, position) (bool, error) { return false, nil }

// prune does nothing: a trigger keeps the log short.
func (s *sqliteSource) prune(context.Context) error { return nil }
