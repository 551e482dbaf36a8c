package memory

import (
	"context"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/record"
)

// transaction is what the rules of changing records need of an engine.
type transaction interface {
	// current returns a record and keeps others from changing it until the transaction ends; ErrNotFound.
	current(ctx context.Context, namespace string, id uuid.UUID) (record.Record, error)
	// insert is Store.Insert.
	insert(ctx context.Context, records []record.Record) ([]Inserted, error)
	// replace writes a changed record and brings its indexes along.
	replace(ctx context.Context, r record.Record) error
}

// update is Store.Update.
func update(ctx context.Context, tx transaction, namespace string, id uuid.UUID, expected int64, change func(*record.Record) error) (record.Record, error) {
	current, err := tx.current(ctx, namespace, id)
	if err != nil {
		return record.Record{}, err
	}
	if expected != 0 && current.Revision != expected {
		return record.Record{}, ErrRevision
	}
	after, err := revise(current, change)
	if err != nil {
		return record.Record{}, err
	}
	return after, tx.replace(ctx, after)
}

// supersede is Store.Supersede.
func supersede(ctx context.Context, tx transaction, id uuid.UUID, expected int64, replacement record.Record) (stored, old record.Record, err error) {
	current, err := tx.current(ctx, replacement.Namespace, id)
	if err != nil {
		return stored, old, err
	}
	if current.SupersededBy != uuid.Nil && replacement.IdempotencyKey == "" {
		return stored, old, ErrSuperseded
	}
	replacement.Supersedes = id
	inserted, err := tx.insert(ctx, []record.Record{replacement})
	if err != nil {
		return stored, old, err
	}
	stored = inserted[0].Record
	switch {
	case !inserted[0].New && current.SupersededBy == stored.ID: // what an earlier call of the same kind has done
		return stored, current, nil
	case current.SupersededBy != uuid.Nil:
		return stored, old, ErrSuperseded
	case expected != 0 && current.Revision != expected:
		return stored, old, ErrRevision
	}
	old, err = revise(current, func(r *record.Record) error {
		r.SupersededBy = stored.ID
		return nil
	})
	if err != nil {
		return stored, old, err
	}
	return stored, old, tx.replace(ctx, old)
}

// revise returns the record as changed, one revision on.
func revise(current record.Record, change func(*record.Record) error) (record.Record, error) {
	after := current
	if err := change(&after); err != nil {
		return record.Record{}, err
	}
	after.Revision = current.Revision + 1
	after.UpdatedAt = record.Now()
	return after, nil
}
