package memory

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqldb"
)

// selectDecisions selects the decisions of namespace $1.
const selectDecisions = `SELECT d.namespace, d.id, d.memory_id, d.memory_revision, d.target_id, d.target_revision, d.action,
	d.memory_after, d.target_after, d.content_before, d.content_after, d.model, d.decided_at, d.reverted_at
	FROM memory.curation_decisions d WHERE d.namespace = $1`

// queryDecisions returns the decisions of a statement that begins with selectDecisions.
func queryDecisions(ctx context.Context, db sqldb.Scoped, statement string, args ...any) ([]Decision, error) {
	return sqldb.Query(ctx, db, statement, args, func(scan sqldb.Scan) (d Decision, err error) {
		err = scan(&d.Namespace, &d.ID, &d.Memory.ID, &d.Memory.Revision, &d.Target.ID, &d.Target.Revision, &d.Action,
			&d.memoryAfter, &d.targetAfter, &d.Before, &d.Content, &d.Model, &d.DecidedAt, &d.RevertedAt)
		if err != nil && d.ID != uuid.Nil { // else nothing was scanned
			err = fmt.Errorf("decision %s in %s cannot be decoded (%T)", d.ID, d.Namespace, err) // the cause's text may quote it
		}
		return d, err
	})
}

// SetCuration switches the queueing of new and changed memories for CurationQueue. Off empties it.
func (s *Store) SetCuration(ctx context.Context, on bool) error {
	statement := `DELETE FROM memory.indexes WHERE name = $1 AND NOT sensitive` // a foreign key deletes its tasks
	if on {
		statement = `INSERT INTO memory.indexes (name, sensitive) VALUES ($1, false) ON CONFLICT DO NOTHING`
	}
	return s.database.Write(ctx, "", func(tx sqldb.Tx) error {
		_, err := tx.In(postgres.AllNamespaces).Exec(ctx, statement, CurationQueue)
		return err
	})
}

// Curation returns the switch.
func (s *Store) Curation(ctx context.Context) (on bool, err error) {
	_, err = s.in(postgres.AllNamespaces).Get(ctx, `SELECT EXISTS (SELECT 1 FROM memory.indexes WHERE name = $1)`, []any{CurationQueue}, &on)
	return on, err
}

// settled returns a memory's newest revision that was judged, or made by a decision or a reversal; 0 for none.
func settled(ctx context.Context, db sqldb.DB, namespace string, id uuid.UUID) (revision int64, err error) {
	_, err = db.In(namespace).Get(ctx, `SELECT coalesce(max(CASE WHEN memory_after > memory_revision THEN memory_after ELSE memory_revision END), 0)
		FROM memory.curation_decisions WHERE namespace = $1 AND memory_id = $2`, []any{namespace, id}, &revision)
	return revision, err
}

// Decided reports whether a memory's revision was judged already, or made by a decision.
func (s *Store) Decided(ctx context.Context, namespace string, memory Seen) (bool, error) {
	revision, err := settled(ctx, s.db(), namespace, memory.ID)
	return revision >= memory.Revision, err
}

// ListDecisions returns up to n decisions after the cursor, newest first. They concern the memory about, or any
// if it is uuid.Nil.
func (s *Store) ListDecisions(ctx context.Context, namespace string, about uuid.UUID, after Cursor, n int) ([]Decision, error) {
	args := sqldb.Args{namespace, n}
	where := after.beyond("d.decided_at, d.id", "<", &args)
	if about != uuid.Nil {
		id := args.Add(about)
		where += ` AND (d.memory_id = ` + id + ` OR d.target_id = ` + id + `)`
	}
	return queryDecisions(ctx, s.in(namespace), selectDecisions+where+` ORDER BY d.decided_at DESC, d.id DESC LIMIT $2`, args...)
}

// decision returns a decision; ErrNotFound.
func (tx transaction) decision(ctx context.Context, namespace string, id uuid.UUID) (Decision, error) {
	return only(queryDecisions(ctx, tx.In(namespace), selectDecisions+` AND d.id = $2`, namespace, id))
}

// addDecision stores a new decision.
func (tx transaction) addDecision(ctx context.Context, d Decision) error {
	_, err := tx.In(d.Namespace).Exec(ctx, `
		INSERT INTO memory.curation_decisions (namespace, id, memory_id, memory_revision, target_id, target_revision, action,
			memory_after, target_after, content_before, content_after, model, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		d.Namespace, d.ID, d.Memory.ID, d.Memory.Revision, d.Target.ID, d.Target.Revision, string(d.Action),
		d.memoryAfter, d.targetAfter, d.Before, d.Content, d.Model, d.DecidedAt)
	return err
}

// setDecision stores a decision's RevertedAt, its texts, and the revisions that the reversal made.
func (tx transaction) setDecision(ctx context.Context, d Decision) error {
	_, err := tx.In(d.Namespace).Exec(ctx, `UPDATE memory.curation_decisions
		SET reverted_at = $3, memory_after = $4, target_after = $5, content_before = $6, content_after = $7
		WHERE namespace = $1 AND id = $2`, d.Namespace, d.ID, d.RevertedAt, d.memoryAfter, d.targetAfter, d.Before, d.Content)
	return err
}

// restored tells earlier decisions that a reversal has made a memory again what it was at a revision that one of them made. They can be
// reverted in their turn.
func (tx transaction) restored(ctx context.Context, namespace string, judged Seen, now int64) error {
	if now == 0 {
		return nil // the reversal did not change it
	}
	_, err := tx.In(namespace).Exec(ctx, `UPDATE memory.curation_decisions
		SET memory_after = CASE WHEN memory_id = $2 THEN $4 ELSE memory_after END, target_after = CASE WHEN target_id = $2 THEN $4 ELSE target_after END
		WHERE namespace = $1 AND reverted_at IS NULL AND (memory_id = $2 AND memory_after = $3 OR target_id = $2 AND target_after = $3)`,
		namespace, judged.ID, judged.Revision, now)
	return err
}

// rewrites returns the unreverted updates of all memories that were rewritten from one of ids, by target, newest first. No other
// can be added until the transaction ends.
func (tx transaction) rewrites(ctx context.Context, namespace string, ids []uuid.UUID) ([]Decision, error) {
	const targets = `SELECT target_id FROM memory.curation_decisions
		WHERE namespace = $1 AND memory_id = ANY($2::uuid[]) AND action = 'update' AND reverted_at IS NULL`
	// Lock first: a rewrite locks both memories, so the rows read afterwards are complete.
	if _, err := tx.In(namespace).IDs(ctx, `SELECT id FROM memory.memories WHERE namespace = $1 AND id = ANY($2::uuid[]) ORDER BY id FOR UPDATE`, namespace, ids); err != nil {
		return nil, err
	}
	locked, err := tx.In(namespace).IDs(ctx, `SELECT id FROM memory.memories WHERE namespace = $1 AND id IN (`+targets+`) ORDER BY id FOR UPDATE`, namespace, ids)
	if err != nil || len(locked) == 0 {
		return nil, err
	}
	return queryDecisions(ctx, tx.In(namespace), selectDecisions+` AND d.action = 'update' AND d.reverted_at IS NULL AND d.target_id IN (`+targets+`)
		ORDER BY d.target_id, d.target_after DESC`, namespace, ids)
}
