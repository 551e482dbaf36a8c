package replica

import (
	"context"

	"github.com/google/uuid"
)

// source is the database of either engine.
type source interface {
	// snapshot runs fn on one snapshot, about one namespace. whole says that fn reads all of a large one, and not few memories.
	snapshot(ctx context.Context, namespace string, whole bool, fn func(Tx) error) error
	// since returns the memories that changed after a position, by kind, and the position of the snapshot. exists is false
	// for a namespace that does not exist. Without a position nothing is read but the snapshot's.
	since(ctx context.Context, tx Tx, namespace string, at position) (changes, error)
	// poll returns which of the namespaces may have changed since their positions.
	poll(ctx context.Context, namespaces []string, at []position) (changed []bool, err error)
	// still reports whether a namespace is at a position, if a snapshot would cost more; else false.
	still(ctx context.Context, namespace string, at position) (bool, error)
	// prune removes old rows of the log.
	prune(ctx context.Context) error
}

// position is a point in the order of commits.
type position struct {
	epoch    string // of the namespace: another one is another namespace of the same name
	timeline int64  // PostgreSQL's
	last     int64  // number of a change: of the namespace on PostgreSQL, of the file on SQLite
}

// changes are the memories that changed between two positions.
type changes struct {
	exists bool
	gap    bool // the log does not reach back to the first position
	now    position
	ids    map[Kind][]uuid.UUID
}

// continues reports whether an image at a position can go on from there.
func (c changes) continues(at position) bool {
	return c.exists && !c.gap && c.now.epoch == at.epoch && c.now.timeline == at.timeline
}
