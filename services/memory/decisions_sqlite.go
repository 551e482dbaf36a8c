package memory

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// queryDecisions returns the decisions of a statement over decisionColumns.
func queryDecisions(ctx context.Context, db sqlite.Queryer, statement string, args ...any) ([]Decision, error) {
	return sqlite.Query(ctx, db, func(scan func(...any) error) (Decision, error) {
		var d Decision
		var target uuid.NullUUID
		var decided, reverted sql.NullInt64
		if err := scan(&d.Namespace, &d.ID, &d.Memory.ID, &d.Memory.Revision, &target, &d.Target.Revision, &d.Action,
			&d.memoryAfter, &d.targetAfter, &d.Before, &d.Content, &d.Model, &decided, &reverted); err != nil {
			return Decision{}, undecodable(d, err)
		}
		d.Target.ID, d.DecidedAt, d.RevertedAt = target.UUID, sqlite.Time(decided), sqlite.Time(reverted)
		return d, nil
	}, statement, args...)
}

// SetCuration implements Decisions.
func (s *SQLite) SetCuration(ctx context.Context, on bool) error {
	statement := `DELETE FROM indexes WHERE name = ? AND NOT sensitive` // a foreign key deletes its tasks
	if on {
		statement = `INSERT INTO indexes (name, sensitive) VALUES (?, 0) ON CONFLICT DO NOTHING`
	}
	_, err := s.db.Write.ExecContext(ctx, statement, CurationQueue)
	return err
}

// Curation implements Decisions.
func (s *SQLite) Curation(ctx context.Context) (on bool, err error) {
	err = s.db.Read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM indexes WHERE name = ?)`, CurationQueue).Scan(&on)
	return on, err
}

// settledSQLite selects the newest judged revision of a memory.
const settledSQLite = `SELECT coalesce(max(max(memory_revision, memory_after)), 0) FROM curation_decisions WHERE namespace = ? AND memory_id = ?`

// Decided implements Decisions.
func (s *SQLite) Decided(ctx context.Context, namespace string, memory Seen) (bool, error) {
	var settled int64
	err := s.db.Read.QueryRowContext(ctx, settledSQLite, namespace, memory.ID[:]).Scan(&settled)
	return settled >= memory.Revision, err
}

// ListDecisions implements Decisions.
func (s *SQLite) ListDecisions(ctx context.Context, namespace string, about uuid.UUID, after Cursor, n int) ([]Decision, error) {
	args := sqlite.Args{namespace}
	where := ""
	if about != uuid.Nil {
		id := args.Add(about[:])
		where += fmt.Sprintf(" AND (d.memory_id = %s OR d.target_id = %s)", id, id)
	}
	if after != (Cursor{}) {
		where += fmt.Sprintf(" AND (d.decided_at, d.id) < (%s, %s)", args.Add(after.CreatedAt.UnixMicro()), args.Add(after.ID[:]))
	}
	return queryDecisions(ctx, s.db.Read, fmt.Sprintf(`SELECT %s FROM curation_decisions d WHERE d.namespace = ?1%s
		ORDER BY d.decided_at DESC, d.id DESC LIMIT %s`, decisionColumns, where, args.Add(n)), args...)
}

func (tx sqliteTx) settled(ctx context.Context, namespace string, id uuid.UUID) (revision int64, err error) {
	err = tx.QueryRowContext(ctx, settledSQLite, namespace, id[:]).Scan(&revision)
	return revision, err
}

func (tx sqliteTx) decision(ctx context.Context, namespace string, id uuid.UUID) (Decision, error) {
	found, err := queryDecisions(ctx, tx, `SELECT `+decisionColumns+` FROM curation_decisions d WHERE d.namespace = ? AND d.id = ?`, namespace, id[:])
	switch {
	case err != nil:
		return Decision{}, err
	case len(found) == 0:
		return Decision{}, ErrNotFound
	}
	return found[0], nil
}

func (tx sqliteTx) addDecision(ctx context.Context, d Decision) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO curation_decisions (namespace, id, memory_id, memory_revision, target_id, target_revision, action,
			memory_after, target_after, content_before, content_after, model, decided_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.Namespace, d.ID[:], d.Memory.ID[:], d.Memory.Revision, sqlite.ID(d.Target.ID), d.Target.Revision, string(d.Action),
		d.memoryAfter, d.targetAfter, d.Before, d.Content, d.Model, sqlite.Micros(d.DecidedAt))
	return err
}

func (tx sqliteTx) setDecision(ctx context.Context, d Decision) error {
	_, err := tx.ExecContext(ctx, `UPDATE curation_decisions
		SET reverted_at = ?3, memory_after = ?4, target_after = ?5, content_before = ?6, content_after = ?7
		WHERE namespace = ?1 AND id = ?2`, d.Namespace, d.ID[:], sqlite.Micros(d.RevertedAt), d.memoryAfter, d.targetAfter, d.Before, d.Content)
	return err
}

func (tx sqliteTx) rewrites(ctx context.Context, namespace string, ids []uuid.UUID) ([]Decision, error) {
	args := sqlite.Args{namespace}
	return queryDecisions(ctx, tx, `SELECT `+decisionColumns+` FROM curation_decisions d
		WHERE d.namespace = ?1 AND d.action = 'update' AND d.reverted_at IS NULL AND d.target_id IN (
			SELECT target_id FROM curation_decisions
			WHERE namespace = ?1 AND memory_id IN (`+idList(&args, ids)+`) AND action = 'update' AND reverted_at IS NULL)
		ORDER BY d.target_id, d.target_after DESC`, args...)
}

func (tx sqliteTx) unqueue(ctx context.Context, r record.Record) error {
	return queue.DropSQLite(ctx, tx.Tx, CurationQueue, r)
}
