package replica

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// Part is what a leg keeps of each memory of a namespace, beside the Rows. Read is called without a lock and must not touch
// what searches see; all else is called when no search runs.
type Part interface {
	// Read reads what the database has of memories, and returns what then applies it: under the lock, after the memories'
	// rows are known. A memory without data is one that the part has to forget. If ids is nil, it is to read all memories: the
	// rows are known already, nobody searches yet, and Read applies what it reads itself and may return nil.
	Read(ctx context.Context, tx Tx, namespace string, ids []uuid.UUID) (apply func(), err error)
	// Drop forgets a row, whose memory has been deleted.
	Drop(row uint32)
	// Bytes is about the memory that the part takes.
	Bytes() int64
}

// Kind says what a change of a memory changed, so that each part reads only what concerns it.
type Kind string

// Kinds of changes, as in the log.
const (
	Records Kind = "m" // the memory itself, with its words
	Vectors Kind = "d" // its vectors
	Graph   Kind = "g" // its concepts, facts and links
)

// Need is what a search needs of a namespace's image.
type Need struct {
	Part    string // name of the leg's part
	Filter  record.Filter
	AsOf    time.Time // zero means now
	AtLeast int64     // sequence number of a write that the image must have; 0 means none
}

// View is a namespace's image at one point of the order of commits. It holds the image's lock until Close.
type View struct {
	*Rows
	*Selection
	Part Part
	// Age is how old the image may be; Reason says why it is older than Config.MaxAge, which is so only while the database does
	// not answer.
	Age    time.Duration
	Reason string
	// Stale reports that the image lacks the write of Need.AtLeast.
	Stale bool
	close func()
}

// Close ends the use of a view.
func (v *View) Close() {
	v.Selection.release()
	v.close()
}

var (
	// ErrCold is the error for an image that was not loaded in time. Loading goes on.
	ErrCold = errors.New("the namespace is not in memory yet")
	// ErrTooLarge is the error for a namespace that does not fit into the memory for images.
	ErrTooLarge = errors.New("the namespace is too large to be kept in memory")
)

// Set keeps the images of namespaces and lets them follow the database.
type Set struct{}

// Register adds a leg's part to the images, before the first search.
func (s *Set) Register(name string, kind Kind, empty func(*Rows) Part) {}

// View returns the image of a namespace, which follows the database: it is at most Config.MaxAge old. A namespace that is
// not in memory is loaded; that may take the given share of ctx's time, 0 to 1. The caller must Close the view.
func (s *Set) View(ctx context.Context, namespace string, need Need, share float64) (*View, error) {
	return nil, nil
}
