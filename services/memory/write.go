package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Insert stores complete records: the caller sets id, times and revision. A record whose idempotency key or id
// exists with the same contents is not stored again. With other contents nothing is stored and the error is a
// *ConflictError. Unknown namespaces are created. Results have the order of the records.
func (s *Store) Insert(ctx context.Context, records []record.Record) ([]Inserted, error) {
	return s.Prepare(ctx, records)(ctx)
}

// Prepare does what an Insert of the records can do before its transaction, and returns the rest of it. The rest of one Insert may
// run while another one is prepared.
func (s *Store) Prepare(ctx context.Context, records []record.Record) func(context.Context) ([]Inserted, error) {
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

// Update changes one record: change edits the current record, and the store sets UpdatedAt and increments the
// revision. expected 0 accepts any revision. ErrNotFound, ErrRevision, or change's own error.
func (s *Store) Update(ctx context.Context, namespace string, id uuid.UUID, expected int64, change func(*record.Record) error) (record.Record, error) {
	return returning(ctx, s, func(tx transaction) (record.Record, error) {
		current, err := tx.current(ctx, namespace, id)
		if err != nil {
			return record.Record{}, err
		}
		if expected != 0 && current.Revision != expected {
			return record.Record{}, ErrRevision
		}
		after := current
		if err := change(&after); err != nil {
			return record.Record{}, err
		}
		if after.Sensitive && !current.Sensitive {
			if err := withdraw(ctx, tx, namespace, []uuid.UUID{id}); err != nil {
				return record.Record{}, err
			}
			if after, err = tx.current(ctx, namespace, id); err != nil {
				return record.Record{}, err
			}
			if err := change(&after); err != nil {
				return record.Record{}, err
			}
		}
		err = tx.replace(ctx, &after)
		return after, err
	})
}

// Supersede stores a complete replacement and links the old record and the new one. A repeat with the same
// idempotency key returns what the first call stored. ErrNotFound, ErrRevision, ErrSuperseded, *ConflictError.
func (s *Store) Supersede(ctx context.Context, id uuid.UUID, expected int64, replacement record.Record) (stored, old record.Record, err error) {
	err = s.write(ctx, func(tx transaction) error {
		replacement := replacement // as given, in each attempt
		current, err := tx.current(ctx, replacement.Namespace, id)
		if err != nil {
			return err
		}
		replaced := current.SupersededBy != uuid.Nil
		switch {
		case replaced && replacement.IdempotencyKey == "":
			return ErrSuperseded
		case !replaced && expected != 0 && current.Revision != expected:
			return ErrRevision
		}
		replacement.Supersedes = id
		if replacement.Thread == "" {
			replacement.Thread, replacement.Position = current.Thread, current.Position
		}
		inserted, err := tx.insert(ctx, []record.Record{replacement}, tx.unprepared(ctx))
		if err != nil {
			return err
		}
		stored = inserted[0].Record
		switch {
		case replaced && current.SupersededBy != stored.ID: // if equal, an earlier call did this
			return ErrSuperseded
		case !replaced && !inserted[0].New: // stored already, but not as this one's replacement
			return &ConflictError{0, stored.ID}
		}
		old, err = tx.current(ctx, replacement.Namespace, id)
		return err
	})
	return stored, old, err
}

// Forget removes records with all derived data and returns how many there were. Records that they superseded stay
// superseded, by the next successor if there is one.
func (s *Store) Forget(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error) {
	return returning(ctx, s, func(tx transaction) (int64, error) { return forget(ctx, tx, namespace, ids) })
}

// Sweep forgets up to n memories of any namespaces that expired before a time, and returns how many. It skips
// memories that another transaction has locked.
func (s *Store) Sweep(ctx context.Context, before time.Time, n int) (int64, error) {
	return returning(ctx, s, func(tx transaction) (swept int64, err error) {
		expired, err := sqldb.Query(ctx, tx.In(postgres.AllNamespaces), `
			SELECT namespace, id FROM memory.memories WHERE expires_at < $1 ORDER BY expires_at LIMIT $2`, []any{before, n},
			sqldb.Into(func(key *record.Key) []any { return []any{&key.Namespace, &key.ID} }))
		if err != nil {
			return 0, err
		}
		ids := map[string][]uuid.UUID{}
		for _, key := range expired {
			ids[key.Namespace] = append(ids[key.Namespace], key.ID)
		}
		for _, namespace := range slices.Sorted(maps.Keys(ids)) { // locks are had within a namespace
			locked, err := tx.In(namespace).IDs(ctx, `SELECT id FROM memory.memories
				WHERE namespace = $1 AND id = ANY($2::uuid[]) AND expires_at < $3 ORDER BY id FOR UPDATE SKIP LOCKED`, namespace, ids[namespace], before)
			if err != nil {
				return swept, err
			}
			n, err := forget(ctx, tx, namespace, locked)
			if err != nil {
				return swept, err
			}
			swept += n
		}
		return swept, nil
	})
}

// link marks the predecessors of new records as superseded, if they exist and are not superseded yet. It leaves one to which a new
// record's own successors lead: in a circle, all would be hidden.
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
		circular, err := leads(ctx, tx, r, old.ID)
		if err != nil {
			return err
		}
		if circular {
			continue
		}
		old.SupersededBy = r.ID
		if err := tx.replace(ctx, &old); err != nil {
			return err
		}
	}
	return nil
}

// leads reports whether the successors of a record lead to another one.
func leads(ctx context.Context, tx transaction, r record.Record, to uuid.UUID) (bool, error) {
	for seen := map[uuid.UUID]bool{}; r.SupersededBy != uuid.Nil && !seen[r.SupersededBy]; {
		if r.SupersededBy == to {
			return true, nil
		}
		seen[r.SupersededBy] = true
		next, err := tx.current(ctx, r.Namespace, r.SupersededBy)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r = next
	}
	return false, nil
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
