// Package diskerr names the conditions in which a database can store nothing, for both engines.
//  1. A store wraps the engine's error in one of them.
//  2. The server translates it for clients with Of.
//  3. Last remembers the latest one, logs its begin and its end, and shows it to operators.
//
// The package imports no driver.
package diskerr

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// The conditions. Their texts are fit for clients.
var (
	ErrFull     = errors.New("the disk of the database is full")
	ErrReadOnly = errors.New("the database or its disk is read-only")
	ErrDisk     = errors.New("the disk of the database has errors")
	ErrShort    = errors.New("the database has run out of memory or of another resource that its configuration limits")
)

// Of returns the condition that an error wraps, or nil.
func Of(err error) error {
	for _, known := range []error{ErrFull, ErrReadOnly, ErrDisk, ErrShort} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

// settled is how long after a condition a successful write counts as its end. Some writes succeed on a full disk: those
// that need no more space.
const settled = time.Minute

// Last is the latest condition that failed a write. The zero Last has none.
type Last struct{ noted atomic.Pointer[noted] }

type noted struct {
	err error // one of the above
	at  time.Time
}

// Note records the outcome of a write. It logs the first of several equal failures, and the end of the condition. Other
// errors say nothing about the next write.
func (l *Last) Note(ctx context.Context, err error) {
	before := l.noted.Load()
	switch of := Of(err); {
	case of != nil:
		l.noted.Store(&noted{of, time.Now()})
		if before == nil || !errors.Is(before.err, of) {
			slog.ErrorContext(ctx, "nothing can be stored", "error", err.Error())
		}
	case err == nil && before != nil && time.Since(before.at) > settled && l.noted.CompareAndSwap(before, nil):
		slog.InfoContext(ctx, "memories can be stored again")
	}
}

// Concern returns the condition as a line for operators, or "".
func (l *Last) Concern() string {
	if now := l.noted.Load(); now != nil {
		return now.err.Error() + ": nothing can be stored"
	}
	return ""
}
