package record

import (
	"fmt"

	"github.com/google/uuid"
)

// UndecodableError says that a stored memory is not what this program can read. Nothing of what it says is in the error,
// nor is the cause, which may quote it.
type UndecodableError struct {
	Namespace string
	ID        uuid.UUID
	Column    string // the first that cannot be read, "" if that is not known
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("memory %s in %s: %s", e.ID, e.Namespace, e.Public())
}

// Public is the error for whoever knows already which memory it is.
func (e *UndecodableError) Public() string {
	if e.Column == "" {
		return "the stored memory cannot be decoded"
	}
	return "the stored memory cannot be decoded: column " + e.Column
}
