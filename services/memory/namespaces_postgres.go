package memory

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
)

// Namespace implements Namespaces.
func (s *Postgres) Namespace(ctx context.Context, name string) (Namespace, error) {
	n := Namespace{Name: name}
	var changes string
	err := postgres.In(s.pool, name).QueryRow(ctx, `
		SELECT created_at, coalesce((SELECT string_agg(writer::text, '.' ORDER BY writer) FROM memory.changes WHERE namespace = $1), ''),
			NOT EXISTS (SELECT FROM memory.index_queue WHERE namespace = $1 AND NOT dead)
		FROM memory.namespaces WHERE name = $1`, name).Scan(&n.CreatedAt, &changes, &n.Revision.Indexed)
	if errors.Is(err, pgx.ErrNoRows) {
		return Namespace{}, ErrNotFound
	}
	n.CreatedAt = n.CreatedAt.UTC()
	n.Revision.Token = revisionToken(n.CreatedAt, changes)
	return n, err
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

// RenameNamespace implements Namespaces. Triggers of each track rename its rows.
func (s *Postgres) RenameNamespace(ctx context.Context, from, to string) (moved int64, err error) {
	err = s.write(ctx, func(tx postgresTx) error {
		if moved, err = tx.seize(ctx, from); err != nil {
			return err
		}
		var taken bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM memory.namespaces WHERE name = $1)`, to).Scan(&taken); err != nil {
			return err
		}
		if taken {
			return ErrNamespaceTaken
		}
		_, err := tx.Exec(ctx, `UPDATE memory.namespaces SET name = $2 WHERE name = $1`, from, to)
		return err
	})
	return moved, err
}

// DeleteNamespace implements Namespaces. Triggers of each track delete its rows.
func (s *Postgres) DeleteNamespace(ctx context.Context, name string) (forgotten int64, err error) {
	err = s.write(ctx, func(tx postgresTx) error {
		if forgotten, err = tx.seize(ctx, name); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM memory.namespaces WHERE name = $1`, name)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return forgotten, err
}

// seize waits for writers of a namespace, locks it until the transaction ends, and returns its number of memories;
// ErrNotFound. Other writers block at a foreign key. This transaction defers its own checks of that key until all
// tables are changed.
func (tx postgresTx) seize(ctx context.Context, name string) (memories int64, err error) {
	var found string
	err = postgres.In(tx, postgres.AllNamespaces).QueryRow(ctx, `SELECT name FROM memory.namespaces WHERE name = $1 FOR UPDATE`, name).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `SET CONSTRAINTS memory.memories_namespace_fkey DEFERRED`); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT count(*) FROM memory.memories WHERE namespace = $1`, name).Scan(&memories)
	return memories, err
}
