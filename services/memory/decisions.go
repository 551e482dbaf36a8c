package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// CurationQueue is the name under which the queue holds the memories that a curator has yet to judge.
const CurationQueue = "curation"

// Errors of Decisions, besides those of Store.
var (
	// ErrDecided: this revision of the memory has been judged already, or a decision made it.
	ErrDecided = errors.New("decided already")
	// ErrReverted: the decision has been reverted already.
	ErrReverted = errors.New("reverted already")
)

// Action is what can be done about a new memory. None deletes anything.
type Action string

// The actions.
const (
	ActionAdd       Action = "add"       // nothing: it says something new
	ActionUpdate    Action = "update"    // an older memory, the target, is rewritten, and supersedes it
	ActionSupersede Action = "supersede" // it supersedes the target
	ActionNoop      Action = "noop"      // the target supersedes it
)

// Seen is a memory at the revision that was judged.
type Seen struct {
	ID       uuid.UUID
	Revision int64
}

// undecodable is the error for a row that was read as far as d. The cause may quote it.
func undecodable(d Decision, cause error) error {
	if d.ID == uuid.Nil {
		return cause // reading had not begun
	}
	return fmt.Errorf("decision %s in %s cannot be decoded (%T)", d.ID, d.Namespace, cause)
}

// Verdict is what a curator thinks should be done about a memory.
type Verdict struct {
	Namespace string
	Memory    Seen
	Action    Action
	Target    Seen   // the older memory; zero for ActionAdd
	Content   string // what the target is to say, for ActionUpdate
	Model     string // that decided; empty if none was asked
}

// Decision is a verdict that has been carried out.
type Decision struct {
	ID uuid.UUID
	Verdict
	Before     string // the target's content as it was, for ActionUpdate; it and Content are empty once reverted
	DecidedAt  time.Time
	RevertedAt time.Time // zero unless it was reverted
	// The revisions that the decision, or its reversal, made; 0 of a memory that it left alone.
	memoryAfter, targetAfter int64
}

// Decisions carries out what a curator decides and remembers it, so that it can be undone. A decision holds nothing of a
// memory that has been forgotten or turned sensitive: it goes with either of its two memories.
type Decisions interface {
	// SetCuration switches on or off that new and changed memories are put into CurationQueue. Off empties it.
	SetCuration(ctx context.Context, on bool) error
	// Curation says which it is.
	Curation(ctx context.Context) (bool, error)
	// Decided says whether a memory needs no judgement at a revision, because it had one or a decision made it.
	Decided(ctx context.Context, namespace string, memory Seen) (bool, error)
	// Decide carries out and records a verdict in one transaction, which puts nothing into CurationQueue. ErrDecided;
	// ErrNotFound or ErrRevision if one of the memories is no longer as it was judged, or must not be touched.
	Decide(ctx context.Context, v Verdict) (Decision, error)
	// ListDecisions returns up to n decisions after the cursor, newest first; about is one of the memories concerned, or
	// uuid.Nil for all.
	ListDecisions(ctx context.Context, namespace string, about uuid.UUID, after Cursor, n int) ([]Decision, error)
	// RevertDecision makes what a decision changed as it was, at a new revision, and returns the memories concerned too.
	// ErrNotFound, ErrReverted; ErrRevision if a memory that the decision changed has changed since.
	RevertDecision(ctx context.Context, namespace string, id uuid.UUID) (Decision, []record.Record, error)
}

// Curatable says whether a curator may see and change a memory. One that expires is left alone: what it says must
// neither outlive it nor end with it.
func Curatable(r record.Record) bool {
	return !r.Sensitive && r.SupersededBy == uuid.Nil && r.ExpiresAt.IsZero()
}

// decisionRows is what the rules of decisions need of an engine's transaction.
type decisionRows interface {
	// settled returns the newest revision of a memory that was judged, or made by a decision or its reversal; 0 for none.
	settled(ctx context.Context, namespace string, id uuid.UUID) (int64, error)
	// decision returns a decision; ErrNotFound.
	decision(ctx context.Context, namespace string, id uuid.UUID) (Decision, error)
	// addDecision stores a new decision.
	addDecision(ctx context.Context, d Decision) error
	// setDecision stores a decision's RevertedAt, its texts, and the revisions that the reversal made.
	setDecision(ctx context.Context, d Decision) error
	// rewrites returns the updates that have not been reverted of all memories that were rewritten from one of ids, by
	// target, the newest of each first. Until the transaction ends there can be no other.
	rewrites(ctx context.Context, namespace string, ids []uuid.UUID) ([]Decision, error)
	// unqueue takes a record out of CurationQueue if only the write that made this revision put it there.
	unqueue(ctx context.Context, r record.Record) error
}

// decide is Decisions.Decide.
func decide(ctx context.Context, tx transaction, v Verdict) (Decision, error) {
	memory, target, err := both(ctx, tx, v)
	if err != nil {
		return Decision{}, err
	}
	settled, err := tx.settled(ctx, v.Namespace, v.Memory.ID)
	switch {
	case err != nil:
		return Decision{}, err
	case settled >= v.Memory.Revision:
		return Decision{}, ErrDecided
	case memory.Revision != v.Memory.Revision || !Curatable(memory),
		v.Action != ActionAdd && (target.Revision != v.Target.Revision || !Curatable(target)):
		return Decision{}, ErrRevision
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Decision{}, fmt.Errorf("make an id: %w", err)
	}
	d := Decision{ID: id, Verdict: v, DecidedAt: record.Now()}
	var changeMemory, changeTarget func(*record.Record)
	switch v.Action {
	case ActionAdd:
	case ActionNoop:
		changeMemory = func(r *record.Record) { r.SupersededBy = target.ID }
	case ActionUpdate:
		d.Before = target.Content
		changeMemory = func(r *record.Record) { r.SupersededBy = target.ID }
		changeTarget = func(r *record.Record) { r.Content = v.Content }
	case ActionSupersede:
		if memory.Supersedes == uuid.Nil { // else its author has said what it replaces
			changeMemory = func(r *record.Record) { r.Supersedes = target.ID }
		}
		changeTarget = func(r *record.Record) { r.SupersededBy = memory.ID }
	default:
		return Decision{}, fmt.Errorf("action %q is unknown", v.Action)
	}
	if d.memoryAfter, _, err = rewrite(ctx, tx, memory, changeMemory); err != nil {
		return Decision{}, err
	}
	if d.targetAfter, _, err = rewrite(ctx, tx, target, changeTarget); err != nil {
		return Decision{}, err
	}
	return d, tx.addDecision(ctx, d)
}

// both returns the memories of a verdict as they are, kept from changing. Without a target the second is zero.
func both(ctx context.Context, tx transaction, v Verdict) (memory, target record.Record, err error) {
	wanted := map[uuid.UUID]*record.Record{v.Memory.ID: &memory}
	ids := []uuid.UUID{v.Memory.ID}
	if v.Target.ID != uuid.Nil {
		wanted[v.Target.ID] = &target
		ids = append(ids, v.Target.ID)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) // as Forget locks them
	for _, id := range ids {
		if *wanted[id], err = tx.current(ctx, v.Namespace, id); err != nil {
			return memory, target, err
		}
	}
	return memory, target, nil
}

// rewrite changes a record on behalf of a curator, who is not to judge the outcome, and returns its new revision: 0 if
// change is nil, which leaves the record alone.
func rewrite(ctx context.Context, tx transaction, r record.Record, change func(*record.Record)) (int64, record.Record, error) {
	if change == nil {
		return 0, r, nil
	}
	after, err := revise(r, func(r *record.Record) error { change(r); return nil })
	if err != nil {
		return 0, r, err
	}
	if err := tx.replace(ctx, &after); err != nil {
		return 0, r, err
	}
	return after.Revision, after, tx.unqueue(ctx, after)
}

// revert is Decisions.RevertDecision.
func revert(ctx context.Context, tx transaction, namespace string, id uuid.UUID) (Decision, []record.Record, error) {
	d, err := tx.decision(ctx, namespace, id)
	if err != nil {
		return Decision{}, nil, err
	}
	memory, target, err := both(ctx, tx, d.Verdict)
	if err != nil {
		return Decision{}, nil, err
	}
	d, err = tx.decision(ctx, namespace, id) // as it is now that nobody else can change it
	switch {
	case err != nil:
		return Decision{}, nil, err
	case !d.RevertedAt.IsZero():
		return Decision{}, nil, ErrReverted
	case d.memoryAfter != 0 && d.memoryAfter != memory.Revision, d.targetAfter != 0 && d.targetAfter != target.Revision:
		return Decision{}, nil, ErrRevision
	}
	return undo(ctx, tx, d, memory, target)
}

// undo takes back what a decision did to its memories and returns it and them as they are then.
func undo(ctx context.Context, tx transaction, d Decision, memory, target record.Record) (Decision, []record.Record, error) {
	var changeMemory, changeTarget func(*record.Record)
	if d.memoryAfter != 0 {
		changeMemory = func(r *record.Record) {
			if d.Action == ActionSupersede {
				r.Supersedes = uuid.Nil
			} else {
				r.SupersededBy = uuid.Nil
			}
		}
	}
	if d.targetAfter != 0 {
		changeTarget = func(r *record.Record) {
			if d.Action == ActionSupersede {
				r.SupersededBy = uuid.Nil
			} else {
				r.Content = d.Before
			}
		}
	}
	var err error
	if d.memoryAfter, memory, err = rewrite(ctx, tx, memory, changeMemory); err != nil {
		return Decision{}, nil, err
	}
	if d.targetAfter, target, err = rewrite(ctx, tx, target, changeTarget); err != nil {
		return Decision{}, nil, err
	}
	d.RevertedAt = record.Now()
	d.Before, d.Content = "", "" // of no more use, and perhaps written from a memory that will be forgotten
	return d, []record.Record{memory, target}, tx.setDecision(ctx, d)
}

// withdraw takes the text of memories that are about to be forgotten or turn sensitive out of those that a curator has
// rewritten from them, and from these in turn. Later rewrites of the same memory build on it and are undone with it. A
// memory whose author has changed its content since is the author's, and stays.
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

// withdrawFrom undoes what was decided to rewrite one memory, newest first.
func withdrawFrom(ctx context.Context, tx transaction, namespace string, id uuid.UUID, rewrites []Decision) error {
	if err := withdraw(ctx, tx, namespace, []uuid.UUID{id}); err != nil {
		return err
	}
	for _, d := range rewrites {
		memory, target, err := both(ctx, tx, d.Verdict)
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
