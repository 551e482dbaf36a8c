// Package memory owns the records: it is the only writer of memories. A write works as follows:
//  1. Server, the MemoryService, checks a request and converts it into records.
//  2. A Store begins one transaction. The rules in write.go and insert.go decide what changes; they are the same for
//     both engines.
//  3. The transaction writes the rows and the lexical index, and enqueues tasks for the derived indexes.
//  4. The response has a revision token, with which a recall waits until the indexes include the write.
//
// Decisions applies and reverts the verdicts of a curator. Sweep removes expired memories. Namespaces lists, renames
// and deletes namespaces.
package memory

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// Errors of a Store, alone or wrapped.
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
	return fmt.Sprintf("memory %d of those given: its id or idempotency key belongs to memory %s, which differs", e.Index+1, e.ID)
}

// Inserted is the outcome for one record given to Insert.
type Inserted struct {
	Record record.Record // as stored, now or earlier
	New    bool
}

// Cursor is a position in a listing. Newest first, older records follow, and equally old ones with smaller ids. In
// the other direction newer ones follow.
type Cursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}
