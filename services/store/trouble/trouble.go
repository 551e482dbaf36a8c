// Package trouble names what keeps a database from storing anything, whichever engine it is, and remembers the last of it. A
// store wraps the engine's error in one of these; who serves it tells clients and operators the words. It imports no driver.
package trouble

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
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

// settled is how long after a trouble a write that succeeds is taken as its end. On a full disk some still do: those that need no
// more room.
const settled = time.Minute

// Last is the trouble that writes have lately had. The zero Last is none.
type Last struct{ noted atomic.Pointer[noted] }

type noted struct {
	err error // one of the above
	at  time.Time
}

// Note takes the outcome of a write. The first of several that fail in the same way is logged, and the end of the trouble. Errors
// that are no trouble say nothing about the next write.
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

// Concern is the trouble as a line for operators, "" for none.
func (l *Last) Concern() string {
	if now := l.noted.Load(); now != nil {
		return now.err.Error() + ": nothing can be stored"
	}
	return ""
}
