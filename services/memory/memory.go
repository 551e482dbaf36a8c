// Package memory owns the records: it is the only writer of memories. A write works as follows:
//  1. Server, the MemoryService, checks a request and converts it into records.
//  2. A Store begins one transaction. The rules in write.go and insert.go decide what changes; they are the same for
//     both engines.
//  3. The engine (Postgres, SQLite) writes the rows and the lexical index, and enqueues tasks for the derived
//     indexes.
//  4. The response has a revision token, with which a recall waits until the indexes include the write.
//
// Decisions applies and reverts the verdicts of a curator. Sweep removes expired memories. Namespaces lists, renames
// and deletes namespaces.
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
	// ErrLocked: a write waited too long for a lock. Nothing was written.
	ErrLocked = errors.New("locked by another transaction")
)

// ConflictError says that an id or idempotency key belongs to a memory with different contents.
type ConflictError struct {
	Index int       // into the records given
	ID    uuid.UUID // of the memory that has it
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("record %d: its id or idempotency key belongs to memory %s, which differs", e.Index, e.ID)
}

// Inserted is the outcome for one record given to Insert.
type Inserted struct {
	Record record.Record // as stored, now or earlier
	New    bool
}

// Page is a part of a namespace's records and the namespace's creation time, from one snapshot.
type Page struct {
	Records []record.Record
	Created time.Time
}

// Cursor is a position in a listing. Newest first, older records follow, and equally old ones with smaller ids. In
// the other direction newer ones follow.
type Cursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// Store keeps records. An error that prevents all writes is one of package diskerr's. Each writing method is one
// transaction, which also writes the lexical index and enqueues the derived ones. Records are returned as stored and
// belong to the caller.
type Store interface {
	Decisions
	// Insert stores complete records: the caller sets id, times and revision. A record whose idempotency key or id
	// exists with the same contents is not stored again. With other contents nothing is stored and the error is a
	// *ConflictError. Unknown namespaces are created. Results have the order of the records.
	Insert(ctx context.Context, records []record.Record) ([]Inserted, error)
	// Prepare does what an Insert of the records can do before its transaction, and returns the rest of it. The rest of one Insert may
	// run while another one is prepared.
	Prepare(ctx context.Context, records []record.Record) (insert func(context.Context) ([]Inserted, error))
	// Plan returns the results and errors of Insert without storing anything. New records have no Sequence.
	Plan(ctx context.Context, records []record.Record) ([]Inserted, error)
	// Update changes one record: change edits the current record, and the store sets UpdatedAt and increments the
	// revision. expected 0 accepts any revision. ErrNotFound, ErrRevision, or change's own error.
	Update(ctx context.Context, namespace string, id uuid.UUID, expected int64, change func(*record.Record) error) (record.Record, error)
	// Supersede stores a complete replacement and links the old record and the new one. A repeat with the same
	// idempotency key returns what the first call stored. ErrNotFound, ErrRevision, ErrSuperseded, *ConflictError.
	Supersede(ctx context.Context, id uuid.UUID, expected int64, replacement record.Record) (stored, old record.Record, err error)
	// Forget removes records with all derived data and returns how many there were. Records that they superseded stay
	// superseded, by the next successor if there is one.
	Forget(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error)
	// Sweep forgets up to n memories of any namespaces that expired before a time, and returns how many. It skips
	// memories that another transaction has locked.
	Sweep(ctx context.Context, before time.Time, n int) (int64, error)
	// Get returns records in the order of ids, leaving out those that do not exist.
	Get(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error)
	// Matches returns the places of a query's words in each of a namespace's records.
	Matches(ctx context.Context, namespace, query string, records []record.Record) ([]record.Matches, error)
	// Surroundings returns, for each of a namespace's records, up to n neighbours on each side in its thread, in the thread's
	// order. Only records that are live, not sensitive and pass the filter count. A record without a thread has none.
	Surroundings(ctx context.Context, namespace string, of []record.Record, n int, filter record.Filter) ([]Surroundings, error)
	// List returns up to n records after the cursor, newest first; the zero Cursor starts. Expired records are left out.
	List(ctx context.Context, namespace string, filter record.Filter, after Cursor, n int) ([]record.Record, error)
	// Page returns up to n records of a namespace after the cursor, oldest first, expired ones included; the zero Cursor starts.
	// ErrNotFound.
	Page(ctx context.Context, namespace string, after Cursor, n int) (Page, error)
	// Scan calls fn with batches of all records of a namespace from one snapshot, oldest first, until fn returns an
	// error. It holds a connection and its snapshot meanwhile, so fn must not wait for clients.
	Scan(ctx context.Context, namespace string, batch int, fn func([]record.Record) error) error
	Namespaces
}
