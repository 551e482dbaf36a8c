package graph

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/sqlite"
)

var _ store = (*SQLite)(nil)

// state implements source.
func (s *SQLite) state(ctx context.Context, namespace string) (st state, err error) {
	err = s.db.Read.QueryRowContext(ctx, "SELECT epoch, version, removed FROM graph_versions WHERE namespace = ?", namespace).
		Scan(&st.epoch, &st.version, &st.removed)
	if errors.Is(err, sql.ErrNoRows) {
		return state{}, nil
	}
	return st, err
}

// changes implements source.
func (s *SQLite) changes(ctx context.Context, namespace, model string, after int64) ([]memoryRows, error) {
	tx, err := s.db.Read.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var out []memoryRows
	place := map[uuid.UUID]int{}
	each := func(statement string, fn func(scan func(...any) error) error, more ...any) error {
		rows, err := tx.QueryContext(ctx, statement, append([]any{namespace, after}, more...)...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := fn(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	if err := each(`
		SELECT m.id, coalesce(m.occurred_at, m.created_at), CASE WHEN m.superseded_by IS NULL THEN 0 ELSE m.updated_at END, coalesce(m.expires_at, 0)
		FROM graph_link_ends e CROSS JOIN memories m ON m.namespace = e.namespace AND m.id = e.memory_id
		WHERE e.namespace = ?1 AND e.version > ?2 ORDER BY m.id`, func(scan func(...any) error) error {
		var r memoryRows
		err := scan(&r.ID, &r.From, &r.To, &r.Expires)
		place[r.ID] = len(out)
		out = append(out, r)
		return err
	}); err != nil {
		return nil, err
	}
	var id uuid.UUID
	if err := each(`
		SELECT c.memory_id, c.concept_id, c.salience
		FROM graph_link_ends e CROSS JOIN graph_memory_concepts c INDEXED BY graph_memory_concepts_by_memory ON c.namespace = e.namespace AND c.memory_id = e.memory_id
		WHERE e.namespace = ?1 AND e.version > ?2 ORDER BY c.memory_id, c.concept_id`, func(scan func(...any) error) error {
		var m mention
		err := scan(&id, &m.concept, &m.salience)
		if at, there := place[id]; err == nil && there {
			out[at].Mentions = append(out[at].Mentions, m)
		}
		return err
	}); err != nil {
		return nil, err
	}
	if err := each(`
		SELECT c.memory_id, c.source_id, c.target_id, c.relation, c.single, c.valid_from, coalesce(c.stated_to, 0),
			CASE WHEN c.vector_model = ?3 THEN c.vector END
		FROM graph_link_ends e CROSS JOIN graph_concept_edges c INDEXED BY graph_concept_edges_by_memory ON c.namespace = e.namespace AND c.memory_id = e.memory_id
		WHERE e.namespace = ?1 AND e.version > ?2 AND c.relation <> '`+coMention+`'
		ORDER BY c.memory_id, c.source_id, c.target_id, c.relation`, func(scan func(...any) error) error {
		var f factRow
		var vector []byte
		err := scan(&id, &f.Source, &f.Target, &f.Relation, &f.Single, &f.From, &f.To, &vector)
		f.Vector = toCode(vector)
		if at, there := place[id]; err == nil && there {
			out[at].Facts = append(out[at].Facts, f)
		}
		return err
	}, model); err != nil {
		return nil, err
	}
	err = each(`
		SELECT c.source_id, c.target_key, c.relation
		FROM graph_link_ends e CROSS JOIN graph_memory_links c ON c.namespace = e.namespace AND c.source_id = e.memory_id
		WHERE e.namespace = ?1 AND e.version > ?2 ORDER BY c.source_id, c.target_key, c.relation`, func(scan func(...any) error) error {
		var l authorLink
		err := scan(&id, &l.target, &l.relation)
		if at, there := place[id]; err == nil && there {
			out[at].Links = append(out[at].Links, l)
		}
		return err
	})
	return out, err
}

// memories implements source.
func (s *SQLite) memories(ctx context.Context, namespace string) ([]uuid.UUID, error) {
	rows, err := s.db.Read.QueryContext(ctx, "SELECT memory_id FROM graph_link_ends WHERE namespace = ?", namespace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// texts implements source.
func (s *SQLite) texts(ctx context.Context, namespace, model string, ids []int64) (map[int64]conceptText, error) {
	var args sqlite.Args
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT c.id, c.key, c.name, CASE WHEN c.vector_model = `+args.Add(model)+` THEN c.vector END FROM json_each(`+args.AddJSON(ids)+`) j
		CROSS JOIN graph_concepts c ON c.namespace = `+args.Add(namespace)+` AND c.id = j.value`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := map[int64]conceptText{}
	for rows.Next() {
		var id int64
		var text conceptText
		var vector []byte
		if err := rows.Scan(&id, &text.key, &text.name, &vector); err != nil {
			return nil, err
		}
		text.vector = toCode(vector)
		out[id] = text
	}
	return out, rows.Err()
}

// pick implements store.
func (s *SQLite) pick(ctx context.Context, q leg.Query, ids []uuid.UUID) (state, []leg.Hit, error) {
	at, err := s.state(ctx, q.Namespace)
	if err != nil {
		return at, nil, err
	}
	var args sqlite.Args
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT m.id, m.importance, m.created_at FROM json_each(`+args.AddJSON(ids)+`) j
		CROSS JOIN memories m ON m.namespace = `+args.Add(q.Namespace)+` AND m.id = unhex(j.value, '-')
		WHERE `+liveSQLite(q, q.Filter, &args), args...)
	if err != nil {
		return at, nil, err
	}
	defer func() { _ = rows.Close() }()
	var hits []leg.Hit
	for rows.Next() {
		var h leg.Hit
		var created sql.NullInt64
		if err := rows.Scan(&h.ID, &h.Importance, &created); err != nil {
			return at, nil, err
		}
		h.CreatedAt = sqlite.Time(created)
		hits = append(hits, h)
	}
	return at, hits, rows.Err()
}
