package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

// decisionColumns are the columns of memory.curation_decisions that scanDecision reads, for a row called d.
const decisionColumns = `d.namespace, d.id, d.memory_id, d.memory_revision, d.target_id, d.target_revision, d.action,
	d.memory_after, d.target_after, d.content_before, d.content_after, d.model, d.decided_at, d.reverted_at`

func scanDecision(row pgx.CollectableRow) (Decision, error) {
	var d Decision
	var target pgtype.UUID
	var reverted pgtype.Timestamptz
	err := row.Scan(&d.Namespace, &d.ID, &d.Memory.ID, &d.Memory.Revision, &target, &d.Target.Revision, &d.Action,
		&d.memoryAfter, &d.targetAfter, &d.Before, &d.Content, &d.Model, &d.DecidedAt, &reverted)
	if err != nil {
		return Decision{}, undecodable(d, err)
	}
	d.Target.ID, d.DecidedAt = target.Bytes, d.DecidedAt.UTC()
	if reverted.Valid {
		d.RevertedAt = reverted.Time.UTC()
	}
	return d, nil
}

// SetCuration implements Decisions.
func (s *Postgres) SetCuration(ctx context.Context, on bool) error {
	statement := `DELETE FROM memory.indexes WHERE name = $1 AND NOT sensitive` // a foreign key deletes its tasks
	if on {
		statement = `INSERT INTO memory.indexes (name, sensitive) VALUES ($1, false) ON CONFLICT DO NOTHING`
	}
	_, err := s.pool.Exec(ctx, statement, CurationQueue)
	return err
}

// Curation implements Decisions.
func (s *Postgres) Curation(ctx context.Context) (on bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM memory.indexes WHERE name = $1)`, CurationQueue).Scan(&on)
	return on, err
}

// settledPostgres selects the newest judged revision of memory $2 in namespace $1.
const settledPostgres = `SELECT coalesce(max(greatest(memory_revision, memory_after)), 0) FROM memory.curation_decisions WHERE namespace = $1 AND memory_id = $2`

// Decided implements Decisions.
func (s *Postgres) Decided(ctx context.Context, namespace string, memory Seen) (bool, error) {
	var settled int64
	err := postgres.In(s.pool, namespace).QueryRow(ctx, settledPostgres, namespace, memory.ID).Scan(&settled)
	return settled >= memory.Revision, err
}

// ListDecisions implements Decisions.
func (s *Postgres) ListDecisions(ctx context.Context, namespace string, about uuid.UUID, after Cursor, n int) ([]Decision, error) {
	args := postgres.Args{namespace}
	where := ""
	if about != uuid.Nil {
		id := args.Add(about)
		where += fmt.Sprintf(" AND (d.memory_id = %s OR d.target_id = %s)", id, id)
	}
	if after != (Cursor{}) {
		where += fmt.Sprintf(" AND (d.decided_at, d.id) < (%s, %s)", args.Add(after.CreatedAt), args.Add(after.ID))
	}
	rows, err := postgres.In(s.pool, namespace).Query(ctx, fmt.Sprintf(`SELECT %s FROM memory.curation_decisions d WHERE d.namespace = $1%s
		ORDER BY d.decided_at DESC, d.id DESC LIMIT %s`, decisionColumns, where, args.Add(n)), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanDecision)
}

func (tx postgresTx) settled(ctx context.Context, namespace string, id uuid.UUID) (revision int64, err error) {
	err = postgres.In(tx, namespace).QueryRow(ctx, settledPostgres, namespace, id).Scan(&revision)
	return revision, err
}

func (tx postgresTx) decision(ctx context.Context, namespace string, id uuid.UUID) (Decision, error) {
	rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT `+decisionColumns+` FROM memory.curation_decisions d WHERE d.namespace = $1 AND d.id = $2`, namespace, id)
	if err != nil {
		return Decision{}, err
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDecision)
	if errors.Is(err, pgx.ErrNoRows) {
		return Decision{}, ErrNotFound
	}
	return d, err
}

func (tx postgresTx) addDecision(ctx context.Context, d Decision) error {
	_, err := postgres.In(tx, d.Namespace).Exec(ctx, `
		INSERT INTO memory.curation_decisions (namespace, id, memory_id, memory_revision, target_id, target_revision, action,
			memory_after, target_after, content_before, content_after, model, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		d.Namespace, d.ID, d.Memory.ID, d.Memory.Revision, orNull(d.Target.ID), d.Target.Revision, string(d.Action),
		d.memoryAfter, d.targetAfter, d.Before, d.Content, d.Model, d.DecidedAt)
	return err
}

func (tx postgresTx) setDecision(ctx context.Context, d Decision) error {
	_, err := postgres.In(tx, d.Namespace).Exec(ctx, `UPDATE memory.curation_decisions
		SET reverted_at = $3, memory_after = $4, target_after = $5, content_before = $6, content_after = $7
		WHERE namespace = $1 AND id = $2`, d.Namespace, d.ID, orNull(d.RevertedAt), d.memoryAfter, d.targetAfter, d.Before, d.Content)
	return err
}

func (tx postgresTx) rewrites(ctx context.Context, namespace string, ids []uuid.UUID) ([]Decision, error) {
	// Lock first: a rewrite locks both memories, so the rows read afterwards are complete.
	if _, err := postgres.In(tx, namespace).Exec(ctx, `SELECT FROM memory.memories WHERE namespace = $1 AND id = ANY($2) ORDER BY id FOR UPDATE`, namespace, ids); err != nil {
		return nil, err
	}
	const targets = `SELECT target_id FROM memory.curation_decisions
		WHERE namespace = $1 AND memory_id = ANY($2) AND action = 'update' AND reverted_at IS NULL`
	locked, err := postgres.In(tx, namespace).Exec(ctx, `SELECT FROM memory.memories WHERE namespace = $1 AND id IN (`+targets+`) ORDER BY id FOR UPDATE`, namespace, ids)
	if err != nil || locked.RowsAffected() == 0 {
		return nil, err
	}
	rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT `+decisionColumns+` FROM memory.curation_decisions d
		WHERE d.namespace = $1 AND d.action = 'update' AND d.reverted_at IS NULL AND d.target_id IN (`+targets+`)
		ORDER BY d.target_id, d.target_after DESC`, namespace, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanDecision)
}

func (tx postgresTx) unqueue(ctx context.Context, r record.Record) error {
	return queue.DropPostgres(ctx, tx.Tx, CurationQueue, r)
}
