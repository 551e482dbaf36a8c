package memory

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
)

// Namespace implements Namespaces.
func (s *Postgres) Namespace(ctx context.Context, name string) (Namespace, error) {
	found, err := postgres.Call(ctx, s.pool, name, `SELECT * FROM memory.revision($1)`, []any{name}, func(row pgx.CollectableRow) (Namespace, error) {
		n := Namespace{Name: name}
		var changes int64
		err := row.Scan(&n.CreatedAt, &changes, &n.Revision.Indexed)
		n.CreatedAt = n.CreatedAt.UTC()
		n.Revision.Token = revisionToken(n.CreatedAt, strconv.FormatInt(changes, 10))
		return n, err
	})
	switch {
	case err != nil:
		return Namespace{}, err
	case len(found) == 0:
		return Namespace{}, ErrNotFound
	}
	return found[0], nil
}

// ListNamespaces implements Namespaces.
func (s *Postgres) ListNamespaces(ctx context.Context, prefix, after string, n int) ([]Namespace, error) {
	rows, err := postgres.In(s.pool, postgres.AllNamespaces).Query(ctx, `
		SELECT name, created_at FROM memory.namespaces
		WHERE name COLLATE "C" >= $1 AND name COLLATE "C" < $2 AND name COLLATE "C" > $3
		ORDER BY name COLLATE "C" LIMIT $4`, prefix, pastPrefix(prefix), after, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Namespace, error) {
		var n Namespace
		err := row.Scan(&n.Name, &n.CreatedAt)
		n.CreatedAt = n.CreatedAt.UTC()
		return n, err
	})
}

// Statistics implements Namespaces.
func (s *Postgres) Statistics(ctx context.Context, name string) (Statistics, error) {
	var st Statistics
	if err := postgres.In(s.pool, name).QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE superseded_by IS NULL AND (expires_at IS NULL OR expires_at > now())),
			count(*) FILTER (WHERE superseded_by IS NOT NULL),
			count(*) FILTER (WHERE superseded_by IS NULL AND expires_at <= now()),
			count(*) FILTER (WHERE sensitive),
			coalesce(sum(octet_length(content) + octet_length(title) + octet_length(array_to_string(expanded_keywords || tags, ''))
				+ octet_length(category) + octet_length(source) + octet_length(metadata::text)), 0)
		FROM memory.memories WHERE namespace = $1`, name).
		Scan(&st.Live, &st.Superseded, &st.Expired, &st.Sensitive, &st.Bytes); err != nil {
		return Statistics{}, err
	}
	rows, err := postgres.In(s.pool, name).Query(ctx, `
		SELECT i.name, count(q.namespace) FILTER (WHERE NOT q.dead), count(q.namespace) FILTER (WHERE q.dead),
			coalesce(now() - min(q.enqueued_at) FILTER (WHERE NOT q.dead), '0')
		FROM (SELECT DISTINCT name FROM memory.indexes) i
		LEFT JOIN memory.index_queue q ON q.namespace = $1 AND q.index_name = i.name
		GROUP BY i.name ORDER BY i.name COLLATE "C"`, name)
	if err != nil {
		return Statistics{}, err
	}
	st.Indexes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[IndexLag])
	return st, err
}

// RenameNamespace implements Namespaces.
func (s *Postgres) RenameNamespace(ctx context.Context, from, to string) (moved int64, err error) {
	err = s.write(ctx, func(tx postgresTx) error {
		moved, err = tx.move(ctx, from, &to)
		if postgres.IsUniqueViolation(err) {
			return ErrNamespaceTaken
		}
		return err
	})
	return moved, err
}

// DeleteNamespace implements Namespaces.
func (s *Postgres) DeleteNamespace(ctx context.Context, name string) (forgotten int64, err error) {
	err = s.write(ctx, func(tx postgresTx) error {
		forgotten, err = tx.move(ctx, name, nil)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return forgotten, err
}

// move gives a namespace another name, or removes it if that is nil, and returns its number of memories; ErrNotFound. Writers of
// the namespace are waited for, and later ones wait.
func (tx postgresTx) move(ctx context.Context, from string, to *string) (int64, error) {
	var memories *int64
	if err := tx.QueryRow(ctx, `SELECT memory.move_namespace($1, $2)`, from, to).Scan(&memories); err != nil {
		return 0, err
	}
	if memories == nil {
		return 0, ErrNotFound
	}
	return *memories, nil
}
