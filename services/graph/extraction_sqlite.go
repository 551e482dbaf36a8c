package graph

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

var _ Extractions = (*SQLite)(nil)

// SetExtraction implements Extractions.
func (s *SQLite) SetExtraction(ctx context.Context, on bool) error {
	statement := "DELETE FROM indexes WHERE name = ?" // its tasks go by foreign key
	if on {
		statement = "INSERT INTO indexes (name, sensitive) VALUES (?, 0) ON CONFLICT DO NOTHING"
	}
	_, err := s.db.Write.ExecContext(ctx, statement, ExtractionQueue)
	return err
}

// Extraction implements Extractions.
func (s *SQLite) Extraction(ctx context.Context) (on bool, err error) {
	err = s.db.Read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM indexes WHERE name = ?)", ExtractionQueue).Scan(&on)
	return on, err
}

// EnqueueExtraction implements Extractions.
func (s *SQLite) EnqueueExtraction(ctx context.Context, namespace string) (int64, error) {
	result, err := s.db.Write.ExecContext(ctx, `
		INSERT INTO index_queue (namespace, memory_id, index_name, sensitive, revision, enqueued_at, not_before, sequence, since)
		SELECT m.namespace, m.id, ?2, 0, m.revision, CAST(unixepoch('subsec') * 1000000 AS INTEGER), 0, m.sequence, m.sequence FROM memories m
		WHERE m.namespace = ?1 AND NOT m.sensitive AND m.superseded_by IS NULL
			AND NOT EXISTS (SELECT 1 FROM graph_extractions x WHERE x.namespace = ?1 AND x.memory_id = m.id)
		ON CONFLICT DO NOTHING`, namespace, ExtractionQueue)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Unread implements Extractions.
func (s *SQLite) Unread(ctx context.Context, namespace string, records []record.Record) ([]uuid.UUID, error) {
	given := make([][3]any, len(records)) // id, revision, digest
	for i, r := range records {
		given[i] = [3]any{r.ID, r.Revision, digest(r)}
	}
	var args sqlite.Args
	ns := args.Add(namespace)
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT m.id FROM json_each(`+args.AddJSON(given)+`) g
		CROSS JOIN memories m ON m.namespace = `+ns+` AND m.id = unhex(g.value ->> 0, '-') AND m.revision = g.value ->> 1
		WHERE NOT m.sensitive AND m.superseded_by IS NULL
			AND NOT EXISTS (SELECT 1 FROM graph_extractions x WHERE x.namespace = `+ns+` AND x.memory_id = m.id AND x.digest = g.value ->> 2)`, args...)
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

// PutExtraction implements Extractions.
func (s *SQLite) PutExtraction(ctx context.Context, r record.Record, x Extraction) error {
	list, concepts, err := factsOf(r, x)
	if err != nil {
		return err
	}
	stored := false
	if err := s.db.Update(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM memories WHERE namespace = ? AND id = ? AND revision = ? AND NOT sensitive)",
			r.Namespace, r.ID[:], r.Revision).Scan(&stored); err != nil || !stored {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM graph_facts WHERE namespace = ? AND memory_id = ? AND origin = 'model'`,
			r.Namespace, r.ID[:]); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO graph_extractions (namespace, memory_id, digest, model, facts, tokens) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (namespace, memory_id) DO UPDATE SET digest = excluded.digest, model = excluded.model, facts = excluded.facts,
				tokens = tokens + excluded.tokens, extracted_at = excluded.extracted_at`,
			r.Namespace, r.ID[:], digest(r), x.Model, len(list), x.Tokens); err != nil || len(list) == 0 {
			return err
		}
		_, err := putFactsSQLite(ctx, tx, r.Namespace, OriginModel, list, concepts)
		return err
	}); err != nil || !stored {
		return err
	}
	return s.Index(ctx, []record.Record{r}) // removes stale mentions and embeds new names
}

// Extracted implements Extractions.
func (s *SQLite) Extracted(ctx context.Context, namespace string) (x Extracted, err error) {
	err = s.db.Read.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(tokens), 0) FROM graph_extractions WHERE namespace = ?", namespace).
		Scan(&x.Memories, &x.Tokens)
	return x, err
}
