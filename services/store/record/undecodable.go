package record

import (
	"fmt"

	"github.com/google/uuid"
)

// UndecodableError reports that a stored memory cannot be decoded. It contains neither the memory's content nor the
// cause, which may quote it.
type UndecodableError struct {
	Namespace string
	ID        uuid.UUID
	Column    string // the first bad one, "" if unknown
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("memory %s in %s: %s", e.ID, e.Namespace, e.Public())
}

// Damaged marks the error for clients: it is about one memory, and the service is sound.
func (e *UndecodableError) Damaged() {}

// Public returns the error without the memory's id and namespace.
func (e *UndecodableError) Public() string {
	if e.Column == "" {
		return "the stored memory cannot be decoded"
	}
	return "the stored memory cannot be decoded: column " + e.Column
}
