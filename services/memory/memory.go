// Package memory owns the records: it is the only writer of memories. Server is its gRPC face; Store is what it needs of
// a database, with one implementation for PostgreSQL and one for SQLite.
package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// Errors that every Store returns, alone or wrapped.
var (
	// ErrNotFound: no such memory or namespace.
	ErrNotFound = errors.New("not found")
	// ErrRevision: the memory has changed since the revision the caller expected.
	ErrRevision = errors.New("revision is not the expected one")
	// ErrSuperseded: the memory has been replaced already and cannot be replaced twice.
	ErrSuperseded = errors.New("already superseded")
	// ErrUnreachable: the database cannot be reached, or not be written to, just now. Whether a write took place is unknown.
	ErrUnreachable = errors.New("the database cannot be reached")
	// ErrLocked: others held what a write needs for longer than it waits. Nothing was written.
	ErrLocked = errors.New("locked by others")
)

// ConflictError says that an id or idempotency key belongs to a memory with different contents.
type ConflictError struct {
	Index int       // into the records given
	ID    uuid.UUID // of the memory that holds it
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("record %d: its id or idempotency key belongs to memory %s, which differs", e.Index, e.ID)
}

// Inserted is the outcome for one record given to Insert.
type Inserted struct {
	Record record.Record // as stored, now or earlier
	New    bool
}

// Page is a part of a namespace's records and when the namespace was made, as of one moment.
type Page struct {
	Records []record.Record
	Created time.Time
}

// Cursor is a position in a listing, newest first: everything older than it, or equally old with a smaller id, comes after. In the
// other direction it is everything newer.
type Cursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// Store keeps records. What keeps the engine from writing is one of package trouble's errors. Each writing method is one transaction that also writes the lexical index and enqueues the
// derived ones; records come back as stored and belong to the caller.
type Store interface {
	Decisions
	// Insert stores records that are complete but for nothing: id, times and revision are set by the caller. One whose
	// idempotency key, or whose id, is there already with the same contents is not stored again; with other contents
	// nothing at all is stored and the error is a *ConflictError. Unknown namespaces are created.
	// Results have the order of the records.
	Insert(ctx context.Context, records []record.Record) ([]Inserted, error)
	// Plan returns what Insert would, and the same errors, and stores nothing. New records have no Sequence.
	Plan(ctx context.Context, records []record.Record) ([]Inserted, error)
	// Update changes one record: change is given the current one and edits it; the store sets UpdatedAt and counts the
	// revision up. expected 0 accepts any revision. ErrNotFound, ErrRevision, or change's own error.
	Update(ctx context.Context, namespace string, id uuid.UUID, expected int64, change func(*record.Record) error) (record.Record, error)
	// Supersede stores a complete replacement and links the old record and the new one. A repeat with the same
	// idempotency key returns what the first call stored. ErrNotFound, ErrRevision, ErrSuperseded, *ConflictError.
	Supersede(ctx context.Context, id uuid.UUID, expected int64, replacement record.Record) (stored, old record.Record, err error)
	// Forget removes records and everything derived from them and returns how many there were. What the removed ones
	// superseded stays superseded, by their own successors where there are any.
	Forget(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error)
	// Sweep forgets up to n memories of any namespaces that expired before a moment, and returns how many. Memories that
	// another transaction is at are left for the next sweep.
	Sweep(ctx context.Context, before time.Time, n int) (int64, error)
	// Get returns records in the order of ids, leaving out those that do not exist.
	Get(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error)
	// Matches returns where the words of a query are in each of a namespace's records.
	Matches(ctx context.Context, namespace, query string, records []record.Record) ([]record.Matches, error)
	// List returns up to n records after the cursor, newest first; the zero Cursor starts. Expired records are left out.
	List(ctx context.Context, namespace string, filter record.Filter, after Cursor, n int) ([]record.Record, error)
	// Page returns up to n records of a namespace after the cursor, oldest first, expired ones included; the zero Cursor starts.
	// ErrNotFound.
	Page(ctx context.Context, namespace string, after Cursor, n int) (Page, error)
	// Scan calls fn with batches of every record of a namespace as of one moment, oldest first, until fn returns an error. It
	// keeps a connection and its snapshot for as long as that takes, so fn must not wait for strangers.
	Scan(ctx context.Context, namespace string, batch int, fn func([]record.Record) error) error
	Namespaces
}
