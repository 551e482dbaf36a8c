package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Namespace returns a namespace with its revision, without reading its memories; ErrNotFound if nothing was ever
// stored in it.
func (s *Store) Namespace(ctx context.Context, name string) (Namespace, error) {
	n := Namespace{Name: name}
	var changes, timeline int64
	found, err := s.in(name).Call(ctx, `SELECT created_at, changes, memory.timeline() FROM memory.revision($1)`, `SELECT created_at, changes, 1 FROM namespaces WHERE name = $1`,
		[]any{name}, &n.CreatedAt, &changes, &timeline)
	switch {
	case err != nil:
		return Namespace{}, err
	case !found:
		return Namespace{}, ErrNotFound
	}
	// It may be deleted and created again. A failover may lose changes, after which others get their numbers.
	n.Revision = fmt.Sprintf("%s-%d-%d", strconv.FormatInt(n.CreatedAt.UnixMicro(), 36), timeline, changes)
	return n, nil
}

// ListNamespaces returns up to n namespaces with a prefix, after the given name, in byte order. Names are ASCII below DEL.
func (s *Store) ListNamespaces(ctx context.Context, prefix, after string, n int) ([]Namespace, error) {
	return sqldb.Query(ctx, s.in(postgres.AllNamespaces), `
		SELECT name, created_at FROM memory.namespaces
		WHERE name COLLATE "C" >= $1 AND name COLLATE "C" < $2 AND name COLLATE "C" > $3
		ORDER BY name COLLATE "C" LIMIT $4`, []any{prefix, prefix + "\x7f", after, n}, sqldb.Into(func(n *Namespace) []any { return []any{&n.Name, &n.CreatedAt} }))
}

// Statistics reads a whole namespace; an unknown one is empty.
func (s *Store) Statistics(ctx context.Context, name string) (Statistics, error) {
	var st Statistics
	lists := s.db().Dialect(`octet_length(array_to_string(expanded_keywords || tags, '')) + octet_length(metadata::text)`,
		`coalesce((SELECT sum(octet_length(value)) FROM json_each(expanded_keywords)), 0)
			+ coalesce((SELECT sum(octet_length(value)) FROM json_each(tags)), 0) + octet_length(metadata)`)
	if _, err := s.in(name).Get(ctx, `
		SELECT count(*) FILTER (WHERE superseded_by IS NULL AND (expires_at IS NULL OR expires_at > now())),
			count(*) FILTER (WHERE superseded_by IS NOT NULL),
			count(*) FILTER (WHERE superseded_by IS NULL AND expires_at <= now()),
			count(*) FILTER (WHERE sensitive),
			coalesce(sum(octet_length(content) + octet_length(title) + octet_length(category) + octet_length(source) + `+lists+`), 0)
		FROM memory.memories WHERE namespace = $1`, []any{name}, &st.Live, &st.Superseded, &st.Expired, &st.Sensitive, &st.Bytes); err != nil {
		return Statistics{}, err
	}
	var err error
	st.Indexes, err = queue.BacklogIn(ctx, s.db(), name)
	return st, err
}

// RenameNamespace moves a namespace with all derived data to a new name and returns how many memories it has. A
// memory stored under the old name at the same time moves too, or creates a new namespace of the old name.
// ErrNotFound, ErrNamespaceTaken.
func (s *Store) RenameNamespace(ctx context.Context, from, to string) (int64, error) {
	return returning(ctx, s, func(tx transaction) (int64, error) {
		moved, err := tx.move(ctx, from, &to)
		if postgres.IsUniqueViolation(err) {
			return 0, ErrNamespaceTaken
		}
		return moved, err
	})
}

// DeleteNamespace removes a namespace with all its memories and derived data, and returns how many memories there
// were: 0 for an unknown namespace.
func (s *Store) DeleteNamespace(ctx context.Context, name string) (int64, error) {
	forgotten, err := returning(ctx, s, func(tx transaction) (int64, error) { return tx.move(ctx, name, nil) })
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return forgotten, err
}

// move gives a namespace another name, or removes it if that is nil, and returns its number of memories; ErrNotFound. On PostgreSQL
// writers of the namespace are waited for, and later ones wait.
func (tx transaction) move(ctx context.Context, from string, to *string) (int64, error) {
	if tx.SQLite != nil {
		return tx.moveSQLite(ctx, from, to)
	}
	var memories *int64
	if err := tx.Postgres.QueryRow(ctx, `SELECT memory.move_namespace($1, $2)`, from, to).Scan(&memories); err != nil {
		return 0, err
	}
	if memories == nil {
		return 0, ErrNotFound
	}
	return *memories, nil
}

// moveSQLite is move for SQLite, where triggers of each track move its rows. ErrNamespaceTaken.
func (tx transaction) moveSQLite(ctx context.Context, from string, to *string) (memories int64, err error) {
	var known, taken bool
	if err := tx.SQLite.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM namespaces WHERE name = ?1), EXISTS (SELECT 1 FROM namespaces WHERE name = ?2),
			(SELECT count(*) FROM memories WHERE namespace = ?1)`, from, to).Scan(&known, &taken, &memories); err != nil {
		return 0, err
	}
	switch {
	case !known:
		return 0, ErrNotFound
	case taken:
		return 0, ErrNamespaceTaken
	case to != nil:
		_, err = tx.SQLite.ExecContext(ctx, `UPDATE namespaces SET name = ?2 WHERE name = ?1`, from, *to)
	default:
		// The log counts on, so that a follower that is loading the namespace hears of its end, and keeps no row of it.
		_, err = tx.SQLite.ExecContext(ctx, `
			DELETE FROM namespaces WHERE name = ?1;
			INSERT INTO log (namespace, memory_id, part) VALUES (?1, zeroblob(16), 'm');
			DELETE FROM log WHERE namespace = ?1`, from)
	}
	return memories, err
}
