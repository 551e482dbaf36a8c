package memory

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/triskele/triskele/services/store/sqlite"
)

// Namespace implements Namespaces.
func (s *SQLite) Namespace(ctx context.Context, name string) (Namespace, error) {
	n := Namespace{Name: name}
	var changes string
	var created sql.NullInt64
	err := s.db.Read.QueryRowContext(ctx, `
		SELECT created_at, changes, NOT EXISTS (SELECT 1 FROM index_queue WHERE namespace = ?1 AND NOT dead)
		FROM namespaces WHERE name = ?1`, name).Scan(&created, &changes, &n.Revision.Indexed)
	if errors.Is(err, sql.ErrNoRows) {
		return Namespace{}, ErrNotFound
	}
	n.CreatedAt = sqlite.Time(created)
	n.Revision.Token = revisionToken(n.CreatedAt, changes)
	return n, err
}

// ListNamespaces implements Namespaces.
func (s *SQLite) ListNamespaces(ctx context.Context, prefix, after string, n int) ([]Namespace, error) {
	return sqlite.Query(ctx, s.db.Read, func(scan func(...any) error) (n Namespace, err error) {
		var created sql.NullInt64
		err = scan(&n.Name, &created)
		n.CreatedAt = sqlite.Time(created)
		return n, err
	}, `SELECT name, created_at FROM namespaces WHERE name >= ? AND name < ? AND name > ? ORDER BY name LIMIT ?`,
		prefix, pastPrefix(prefix), after, n)
}

// Statistics implements Namespaces.
func (s *SQLite) Statistics(ctx context.Context, name string) (Statistics, error) {
	var st Statistics
	now := time.Now()
	if err := s.db.Read.QueryRowContext(ctx, `
		SELECT count(*) FILTER (WHERE superseded_by IS NULL AND (expires_at IS NULL OR expires_at > ?2)),
			count(*) FILTER (WHERE superseded_by IS NOT NULL),
			count(*) FILTER (WHERE superseded_by IS NULL AND expires_at <= ?2),
			count(*) FILTER (WHERE sensitive),
			coalesce(sum(octet_length(content) + octet_length(title) + octet_length(category) + octet_length(source) + octet_length(metadata)
				+ coalesce((SELECT sum(octet_length(value)) FROM json_each(expanded_keywords)), 0)
				+ coalesce((SELECT sum(octet_length(value)) FROM json_each(tags)), 0)), 0)
		FROM memories WHERE namespace = ?1`, name, now.UnixMicro()).
		Scan(&st.Live, &st.Superseded, &st.Expired, &st.Sensitive, &st.Bytes); err != nil {
		return Statistics{}, err
	}
	var err error
	st.Indexes, err = sqlite.Query(ctx, s.db.Read, func(scan func(...any) error) (i IndexLag, err error) {
		var oldest sql.NullInt64
		if err = scan(&i.Index, &i.Pending, &i.Dead, &oldest); oldest.Valid {
			i.Lag = max(now.Sub(sqlite.Time(oldest)), 0)
		}
		return i, err
	}, `SELECT i.name, count(q.namespace) FILTER (WHERE NOT q.dead), count(q.namespace) FILTER (WHERE q.dead), min(q.enqueued_at) FILTER (WHERE NOT q.dead)
		FROM (SELECT DISTINCT name FROM indexes) i LEFT JOIN index_queue q ON q.namespace = ? AND q.index_name = i.name
		GROUP BY i.name ORDER BY i.name`, name)
	return st, err
}

// RenameNamespace implements Namespaces. Triggers of each track rename its rows.
func (s *SQLite) RenameNamespace(ctx context.Context, from, to string) (moved int64, err error) {
	err = s.write(ctx, func(tx sqliteTx) error {
		var known, taken bool
		if err := tx.QueryRowContext(ctx, `
			SELECT EXISTS (SELECT 1 FROM namespaces WHERE name = ?1), EXISTS (SELECT 1 FROM namespaces WHERE name = ?2),
				(SELECT count(*) FROM memories WHERE namespace = ?1)`, from, to).Scan(&known, &taken, &moved); err != nil {
			return err
		}
		switch {
		case !known:
			return ErrNotFound
		case taken:
			return ErrNamespaceTaken
		}
		_, err := tx.ExecContext(ctx, `UPDATE namespaces SET name = ?2 WHERE name = ?1`, from, to)
		return err
	})
	return moved, err
}

// DeleteNamespace implements Namespaces. Triggers of each track delete its rows.
func (s *SQLite) DeleteNamespace(ctx context.Context, name string) (forgotten int64, err error) {
	err = s.write(ctx, func(tx sqliteTx) error {
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM memories WHERE namespace = ?`, name).Scan(&forgotten); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM namespaces WHERE name = ?`, name); err != nil {
			return err
		}
		// The log counts on, so that a follower that is loading the namespace hears of its end, and keeps no row of it.
		_, err := tx.ExecContext(ctx, `
			INSERT INTO log (namespace, memory_id, part) VALUES (?1, zeroblob(16), 'm');
			DELETE FROM log WHERE namespace = ?1`, name)
		return err
	})
	return forgotten, err
}
