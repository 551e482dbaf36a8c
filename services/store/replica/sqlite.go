package replica

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqlite"
)

// sqliteSource follows the table log. One transaction writes at a time, so the numbers of the log are in the order of commits.
type sqliteSource struct {
	db *sqlite.DB

	mu      sync.Mutex
	conn    *sql.Conn // of polls: SQLite counts the commits of others for each connection
	version int64     // of the file, at the last poll
}

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

// poll reports that all namespaces may have changed if anything was committed since the last poll: to look is cheap here.
func (s *sqliteSource) poll(ctx context.Context, namespaces []string, at []position) (changed []bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		if s.conn, err = s.db.Read.Conn(ctx); err != nil {
			return nil, err
		}
	}
	var version, last int64
	err = s.conn.QueryRowContext(ctx, `SELECT (SELECT data_version FROM pragma_data_version), coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'log'), 0)`).Scan(&version, &last)
	if err != nil {
		err = errors.Join(err, s.conn.Close())
		s.conn = nil
		return nil, err
	}
	changed = make([]bool, len(namespaces))
	for i := range changed {
		changed[i] = version != s.version || at[i].last != last
	}
	s.version = version
	return changed, nil
}

// still does not ask: a snapshot costs as little.
func (s *sqliteSource) still(context.Context, string, position) (bool, error) { return false, nil }

// prune does nothing: a trigger keeps the log short.
func (s *sqliteSource) prune(context.Context) error { return nil }
