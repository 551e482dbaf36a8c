// Package trouble names what keeps a database from storing anything, whichever engine it is, and remembers the last of it. A
// store wraps the engine's error in one of these; who serves it tells clients and operators the words. It imports no driver.
package trouble

import (
	"errors"
	"sync/atomic"
)

// What can be the matter. Each text is fit for clients.
var (
	Full     = errors.New("the disk of the database is full")
	ReadOnly = errors.New("the database, or the disk that it is on, is read-only")
	Disk     = errors.New("the disk of the database fails")
	Short    = errors.New("the database is short of memory or of another resource that its configuration limits")
)

// Of returns which of them an error is; nil if it is none.
func Of(err error) error {
	for _, known := range []error{Full, ReadOnly, Disk, Short} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

// Last is the trouble that the last write had. The zero Last is none.
type Last struct{ err atomic.Pointer[error] }

// Note takes the outcome of a write. Errors that are no trouble say nothing about the next write.
func (l *Last) Note(err error) {
	if err == nil {
		if l.err.Load() != nil {
			l.err.Store(nil)
		}
	} else if of := Of(err); of != nil {
		l.err.Store(&of)
	}
}

// Err returns the trouble, nil if the last write had none.
func (l *Last) Err() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}
