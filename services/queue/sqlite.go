package queue

import (
	"context"
	"database/sql"
	"time"

	"github.com/triskele/triskele/services/record"
	"github.com/triskele/triskele/services/sqlite"
)

// SQLite is the list of tasks in a SQLite file.
type SQLite struct{ db *sqlite.DB }

var _ Store = (*SQLite)(nil)

// NewSQLite returns the list of tasks in a database.
func NewSQLite(db *sqlite.DB) *SQLite { return &SQLite{db} }

// EnqueueSQLite is EnqueuePostgres for SQLite.
func EnqueueSQLite(ctx context.Context, tx *sql.Tx, records []record.Record) error {
	insert, err := tx.PrepareContext(ctx, `
		INSERT INTO index_queue (namespace, memory_id, index_name, sensitive, revision, sequence, since, enqueued_at, not_before)
		SELECT ?1, ?2, name, sensitive, ?4, ?5, ?5, ?6, ?6 FROM indexes WHERE sensitive = ?3
		ON CONFLICT (namespace, memory_id, index_name) DO UPDATE
		SET revision = excluded.revision, sequence = excluded.sequence, not_before = excluded.not_before, attempts = 0, dead = 0, last_error = ''`)
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	now := time.Now().UnixMicro()
	for _, r := range records {
		if _, err := insert.ExecContext(ctx, r.Namespace, r.ID[:], r.Sensitive, r.Revision, r.Sequence, now); err != nil {
			return err
		}
	}
	return nil
}

// DropSQLite is DropPostgres for SQLite.
func DropSQLite(ctx context.Context, tx *sql.Tx, index string, r record.Record) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM index_queue WHERE namespace = ? AND memory_id = ? AND index_name = ? AND since = ?`,
		r.Namespace, r.ID[:], index, r.Sequence)
	return err
}

// Claim implements Store.
func (q *SQLite) Claim(ctx context.Context, index string, n int, lease time.Duration) ([]Task, error) {
	now := time.Now()
	// The reading side first: an idle worker must not take the only writing connection four times a second.
	var due bool
	if err := q.db.Read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM index_queue WHERE index_name = ? AND NOT dead AND not_before <= ?)`,
		index, now.UnixMicro()).Scan(&due); err != nil || !due {
		return nil, err
	}
	var tasks []Task
	err := q.db.Update(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `
			SELECT `+sqlite.RecordColumns+`, q.attempts, q.enqueued_at, q.sequence
			FROM index_queue q JOIN memories m ON m.namespace = q.namespace AND m.id = q.memory_id
			WHERE q.index_name = ? AND NOT q.dead AND q.not_before <= ? ORDER BY q.not_before, q.namespace, q.memory_id LIMIT ?`, index, now.UnixMicro(), n)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var t Task
			var enqueued sql.NullInt64
			t.Record, err = sqlite.ScanRecord(rows.Scan, &t.Attempts, &enqueued, &t.Sequence)
			if err != nil {
				return err
			}
			t.EnqueuedAt = sqlite.Time(enqueued)
			tasks = append(tasks, t)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, t := range tasks {
			if _, err := tx.ExecContext(ctx, `UPDATE index_queue SET not_before = ? WHERE namespace = ? AND index_name = ? AND memory_id = ?`,
				now.Add(lease).UnixMicro(), t.Record.Namespace, index, t.Record.ID[:]); err != nil {
				return err
			}
		}
		return nil
	})
	return tasks, err
}

// Done implements Store.
func (q *SQLite) Done(ctx context.Context, index string, tasks []Task) error {
	return q.db.Update(ctx, func(tx *sql.Tx) error {
		for _, t := range tasks {
			if _, err := tx.ExecContext(ctx, `DELETE FROM index_queue WHERE namespace = ? AND index_name = ? AND memory_id = ? AND revision <= ? AND sequence <= ?`,
				t.Record.Namespace, index, t.Record.ID[:], t.Record.Revision, t.Sequence); err != nil {
				return err
			}
		}
		return nil
	})
}

// Fail implements Store.
func (q *SQLite) Fail(ctx context.Context, index string, task Task, retryAt time.Time, dead bool, reason string) error {
	_, err := q.db.Write.ExecContext(ctx, `
		UPDATE index_queue SET attempts = attempts + 1, not_before = ?, dead = ?, last_error = ?
		WHERE namespace = ? AND index_name = ? AND memory_id = ? AND revision <= ? AND sequence <= ?`,
		retryAt.UnixMicro(), dead, reason, task.Record.Namespace, index, task.Record.ID[:], task.Record.Revision, task.Sequence)
	return err
}

// Status implements Store.
func (q *SQLite) Status(ctx context.Context, index, namespace string) (Status, error) {
	var s Status
	var oldest sql.NullInt64
	err := q.db.Read.QueryRowContext(ctx, `
		SELECT count(*) FILTER (WHERE NOT dead), count(*) FILTER (WHERE dead), min(enqueued_at) FILTER (WHERE NOT dead)
		FROM index_queue WHERE namespace = ? AND index_name = ?`, namespace, index).Scan(&s.Pending, &s.Dead, &oldest)
	if oldest.Valid {
		s.Lag = time.Since(sqlite.Time(oldest))
	}
	return s, err
}
