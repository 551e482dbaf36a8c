package memory

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

// CurationQueue is the queue's index name for memories that a curator has yet to judge.
const CurationQueue = "curation"

// Errors of decisions, besides the others of a Store.
var (
	// ErrDecided: this revision of the memory was judged already, or a decision created it.
	ErrDecided = errors.New("already decided")
	// ErrReverted: the decision has been reverted already.
	ErrReverted = errors.New("already reverted")
)

// Action is a curator's action. No action deletes anything.
type Action string

// The actions.
const (
	ActionAdd       Action = "add"       // nothing changes: the memory is new information
	ActionUpdate    Action = "update"    // an older memory, the target, is rewritten and supersedes the new one
	ActionSupersede Action = "supersede" // the new memory supersedes the target
	ActionNoop      Action = "noop"      // the target supersedes the new memory
)

// Seen is a memory at the revision that was judged.
type Seen struct {
	ID       uuid.UUID
	Revision int64
}

// Judgement is what a curator decided about a memory. It is not applied yet.
type Judgement struct {
	Namespace string
	Memory    Seen
	Action    Action
	Target    Seen   // the older memory; zero for ActionAdd
	Content   string // new content of the target, for ActionUpdate
	Model     string // that decided; empty without a model
}

// Decision is an applied judgement. It is deleted when either of its memories is forgotten or turns sensitive.
type Decision struct {
	ID uuid.UUID
	Judgement
	Before     string // the target's old content, for ActionUpdate; it and Content are empty once reverted
	DecidedAt  time.Time
	RevertedAt time.Time // zero unless reverted
	// The revisions that the decision or its reversal made; 0 for a memory that it did not change.
	memoryAfter, targetAfter int64
}

// Curatable reports whether a curator may see and change a memory.
func Curatable(r record.Record) bool {
	return !r.Sensitive && r.SupersededBy == uuid.Nil && (r.ExpiresAt.IsZero() || r.ExpiresAt.After(record.Now()))
}

// Comparable reports whether a curator may judge newer against older. If one expires, both must, and older not after newer: the
// content of newer may move into older, where it must not live longer, and what lasts must not end with what replaces it.
func Comparable(newer, older record.Record) bool {
	return Curatable(newer) && Curatable(older) && newer.ExpiresAt.IsZero() == older.ExpiresAt.IsZero() && !older.ExpiresAt.After(newer.ExpiresAt)
}

// Decide applies and records a judgement in one transaction, which adds nothing to CurationQueue. ErrDecided;
// ErrNotFound or ErrRevision if a memory has changed since it was judged, or the two are not Comparable.
func (s *Store) Decide(ctx context.Context, j Judgement) (Decision, error) {
	return returning(ctx, s, func(tx transaction) (Decision, error) {
		memory, target, err := both(ctx, tx, j)
		if err != nil {
			return Decision{}, err
		}
		judged, err := settled(ctx, tx.DB(), j.Namespace, j.Memory.ID)
		switch {
		case err != nil:
			return Decision{}, err
		case judged >= j.Memory.Revision:
			return Decision{}, ErrDecided
		case memory.Revision != j.Memory.Revision || !Curatable(memory),
			j.Action != ActionAdd && (target.Revision != j.Target.Revision || !Comparable(memory, target)):
			return Decision{}, ErrRevision
		}
		d := Decision{ID: uuid.Must(uuid.NewV7()), Judgement: j, DecidedAt: record.Now()}
		if j.Action == ActionUpdate {
			d.Before = target.Content
		}
		changeMemory, changeTarget := j.Action.changes(memory.ID, target.ID, j.Content)
		if j.Action == ActionSupersede && memory.Supersedes != uuid.Nil { // its author chose what it replaces
			changeMemory = nil
		}
		if err := d.rewrite(ctx, tx, &memory, &target, changeMemory, changeTarget); err != nil {
			return Decision{}, err
		}
		return d, tx.addDecision(ctx, d)
	})
}

// changes returns what an action changes in the memory and in its target, nil for nothing. With uuid.Nil for both, and the target's old
// content, they undo it.
func (a Action) changes(memory, target uuid.UUID, content string) (changeMemory, changeTarget func(*record.Record)) {
	switch a {
	case ActionNoop:
		return func(r *record.Record) { r.SupersededBy = target }, nil
	case ActionUpdate:
		return func(r *record.Record) { r.SupersededBy = target }, func(r *record.Record) { r.Content = content }
	case ActionSupersede:
		return func(r *record.Record) { r.Supersedes = target }, func(r *record.Record) { r.SupersededBy = memory }
	}
	return nil, nil
}

// both returns and locks the current memories of a judgement. Without a target the second is zero.
func both(ctx context.Context, tx transaction, j Judgement) (memory, target record.Record, err error) {
	wanted := map[uuid.UUID]*record.Record{j.Memory.ID: &memory}
	ids := []uuid.UUID{j.Memory.ID}
	if j.Target.ID != uuid.Nil {
		wanted[j.Target.ID] = &target
		ids = append(ids, j.Target.ID)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) // the lock order of Forget
	for _, id := range ids {
		if *wanted[id], err = tx.current(ctx, j.Namespace, id); err != nil {
			return memory, target, err
		}
	}
	return memory, target, nil
}

// rewrite changes the memories of a decision without enqueueing them for curation, and notes their new revisions. A nil change means none.
func (d *Decision) rewrite(ctx context.Context, tx transaction, memory, target *record.Record, changeMemory, changeTarget func(*record.Record)) (err error) {
	d.memoryAfter, err = rewrite(ctx, tx, memory, changeMemory)
	if err == nil {
		d.targetAfter, err = rewrite(ctx, tx, target, changeTarget)
	}
	return err
}

// rewrite changes a record, and returns its new revision: 0 without a change.
func rewrite(ctx context.Context, tx transaction, r *record.Record, change func(*record.Record)) (revision int64, err error) {
	if change == nil {
		return 0, nil
	}
	change(r)
	if err := tx.replace(ctx, r); err != nil {
		return 0, err
	}
	return r.Revision, queue.Drop(ctx, tx.Tx, CurationQueue, *r)
}

// RevertDecision restores what a decision changed, at a new revision, and returns the memories too. ErrNotFound,
// ErrReverted; ErrRevision if a memory that the decision changed has changed since.
func (s *Store) RevertDecision(ctx context.Context, namespace string, id uuid.UUID) (d Decision, records []record.Record, err error) {
	err = s.write(ctx, func(tx transaction) error {
		if d, err = tx.decision(ctx, namespace, id); err != nil {
			return err
		}
		memory, target, err := both(ctx, tx, d.Judgement)
		if err != nil {
			return err
		}
		d, err = tx.decision(ctx, namespace, id) // read again under the locks
		switch {
		case err != nil:
			return err
		case !d.RevertedAt.IsZero():
			return ErrReverted
		case d.memoryAfter != 0 && d.memoryAfter != memory.Revision, d.targetAfter != 0 && d.targetAfter != target.Revision:
			return ErrRevision
		}
		d, records, err = undo(ctx, tx, d, memory, target)
		return err
	})
	return d, records, err
}

// undo reverts a decision's changes and returns it and its memories.
func undo(ctx context.Context, tx transaction, d Decision, memory, target record.Record) (Decision, []record.Record, error) {
	changeMemory, changeTarget := d.Action.changes(uuid.Nil, uuid.Nil, d.Before)
	if d.memoryAfter == 0 {
		changeMemory = nil
	}
	if d.targetAfter == 0 {
		changeTarget = nil
	}
	if err := d.rewrite(ctx, tx, &memory, &target, changeMemory, changeTarget); err != nil {
		return Decision{}, nil, err
	}
	for judged, now := range map[Seen]int64{d.Memory: d.memoryAfter, d.Target: d.targetAfter} {
		if err := tx.restored(ctx, d.Namespace, judged, now); err != nil {
			return Decision{}, nil, err
		}
	}
	d.RevertedAt = record.Now()
	d.Before, d.Content = "", "" // no longer needed, and may quote a memory that will be forgotten
	return d, []record.Record{memory, target}, tx.setDecision(ctx, d)
}

// withdraw undoes rewrites that used memories about to be forgotten or made sensitive, and rewrites that used those
// in turn. Later rewrites of the same memory build on them and are undone too. A memory that its author has edited
// since stays as it is.
func withdraw(ctx context.Context, tx transaction, namespace string, ids []uuid.UUID) error {
	rewrites, err := tx.rewrites(ctx, namespace, ids)
	if err != nil {
		return err
	}
	for len(rewrites) > 0 {
		id := rewrites[0].Target.ID
		end := 0
		for i, d := range rewrites {
			if d.Target.ID == id && slices.Contains(ids, d.Memory.ID) {
				end = i + 1
			}
		}
		if err := withdrawFrom(ctx, tx, namespace, id, rewrites[:end]); err != nil {
			return err
		}
		rewrites = slices.DeleteFunc(rewrites, func(d Decision) bool { return d.Target.ID == id })
	}
	return nil
}

// withdrawFrom undoes the rewrites of one memory, newest first.
func withdrawFrom(ctx context.Context, tx transaction, namespace string, id uuid.UUID, rewrites []Decision) error {
	if err := withdraw(ctx, tx, namespace, []uuid.UUID{id}); err != nil {
		return err
	}
	for _, d := range rewrites {
		memory, target, err := both(ctx, tx, d.Judgement)
		if err != nil {
			return err
		}
		if target.Content == d.Content {
			_, _, err = undo(ctx, tx, d, memory, target)
		} else {
			d.Before, d.Content = "", ""
			err = tx.setDecision(ctx, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
