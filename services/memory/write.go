package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// Insert implements Store.
func (s *Database) Insert(ctx context.Context, records []record.Record) ([]Inserted, error) {
	return s.Prepare(ctx, records)(ctx)
}

// Prepare implements Store.
func (s *Database) Prepare(ctx context.Context, records []record.Record) func(context.Context) ([]Inserted, error) {
	ready := s.prepare(ctx, records)
	return func(ctx context.Context) ([]Inserted, error) {
		insert := func(ready prepared) ([]Inserted, error) {
			return returning(ctx, s, func(tx transaction) ([]Inserted, error) { return tx.insert(ctx, records, ready) })
		}
		inserted, err := insert(ready)
		if errors.Is(err, errDerived) && ctx.Err() == nil { // a worker of the queue tries again, and says why it fails
			ready.derived = nil
			return insert(ready)
		}
		return inserted, err
	}
}

// Update implements Store.
func (s *Database) Update(ctx context.Context, namespace string, id uuid.UUID, expected int64, change func(*record.Record) error) (record.Record, error) {
	return returning(ctx, s, func(tx transaction) (record.Record, error) { return update(ctx, tx, namespace, id, expected, change) })
}

// Supersede implements Store.
func (s *Database) Supersede(ctx context.Context, id uuid.UUID, expected int64, replacement record.Record) (stored, old record.Record, err error) {
	err = s.write(ctx, func(tx transaction) error {
		stored, old, err = supersede(ctx, tx, id, expected, replacement)
		return err
	})
	return stored, old, err
}

// Forget implements Store.
func (s *Database) Forget(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error) {
	return returning(ctx, s, func(tx transaction) (int64, error) { return forget(ctx, tx, namespace, ids) })
}

// Sweep implements Store.
func (s *Database) Sweep(ctx context.Context, before time.Time, n int) (int64, error) {
	return returning(ctx, s, func(tx transaction) (swept int64, err error) {
		expired, err := tx.expired(ctx, before, n)
		if err != nil {
			return 0, err
		}
		for _, namespace := range slices.Sorted(maps.Keys(expired)) {
			n, err := forget(ctx, tx, namespace, expired[namespace])
			if err != nil {
				return swept, err
			}
			swept += n
		}
		return swept, nil
	})
}

// Decide implements Decisions.
func (s *Database) Decide(ctx context.Context, j Judgement) (Decision, error) {
	return returning(ctx, s, func(tx transaction) (Decision, error) { return decide(ctx, tx, j) })
}

// RevertDecision implements Decisions.
func (s *Database) RevertDecision(ctx context.Context, namespace string, id uuid.UUID) (d Decision, records []record.Record, err error) {
	err = s.write(ctx, func(tx transaction) error {
		d, records, err = revert(ctx, tx, namespace, id)
		return err
	})
	return d, records, err
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
	if after.Sensitive && !current.Sensitive {
		if err := withdraw(ctx, tx, namespace, []uuid.UUID{id}); err != nil {
			return record.Record{}, err
		}
		if current, err = tx.current(ctx, namespace, id); err != nil {
			return record.Record{}, err
		}
		if after, err = revise(current, change); err != nil {
			return record.Record{}, err
		}
	}
	err = tx.replace(ctx, &after)
	return after, err
}

// supersede is Store.Supersede.
func supersede(ctx context.Context, tx transaction, id uuid.UUID, expected int64, replacement record.Record) (stored, old record.Record, err error) {
	current, err := tx.current(ctx, replacement.Namespace, id)
	if err != nil {
		return stored, old, err
	}
	replaced := current.SupersededBy != uuid.Nil
	switch {
	case replaced && replacement.IdempotencyKey == "":
		return stored, old, ErrSuperseded
	case !replaced && expected != 0 && current.Revision != expected:
		return stored, old, ErrRevision
	}
	replacement.Supersedes = id
	if replacement.Thread == "" {
		replacement.Thread, replacement.Position = current.Thread, current.Position
	}
	inserted, err := tx.insert(ctx, []record.Record{replacement}, tx.unprepared(ctx))
	if err != nil {
		return stored, old, err
	}
	stored = inserted[0].Record
	switch {
	case replaced && current.SupersededBy != stored.ID: // if equal, an earlier call did this
		return stored, old, ErrSuperseded
	case !replaced && !inserted[0].New: // stored already, but not as this one's replacement
		return stored, old, &ConflictError{0, stored.ID}
	}
	old, err = tx.current(ctx, replacement.Namespace, id)
	return stored, old, err
}

// link marks the predecessors of new records as superseded, if they exist and are not superseded yet.
func link(ctx context.Context, tx transaction, records []record.Record) error {
	for _, r := range records {
		if r.Supersedes == uuid.Nil {
			continue
		}
		old, err := tx.current(ctx, r.Namespace, r.Supersedes)
		if errors.Is(err, ErrNotFound) || err == nil && old.SupersededBy != uuid.Nil {
			continue
		}
		if err != nil {
			return err
		}
		if old, err = revise(old, func(old *record.Record) error {
			old.SupersededBy = r.ID
			return nil
		}); err != nil {
			return err
		}
		if err := tx.replace(ctx, &old); err != nil {
			return err
		}
	}
	return nil
}

// forget is Store.Forget.
func forget(ctx context.Context, tx transaction, namespace string, ids []uuid.UUID) (int64, error) {
	if err := withdraw(ctx, tx, namespace, ids); err != nil {
		return 0, err
	}
	if err := tx.closeChains(ctx, namespace, ids); err != nil {
		return 0, err
	}
	return tx.remove(ctx, namespace, ids)
}

// revise returns the changed record at the next revision.
func revise(current record.Record, change func(*record.Record) error) (record.Record, error) {
	after := current
	if err := change(&after); err != nil {
		return record.Record{}, err
	}
	after.Revision = current.Revision%record.MaxRevision + 1 // an import may have used the last number; continue with 1
	after.UpdatedAt = record.Now()
	return after, nil
}
