// Package panics keeps a panic in one task from ending the process. gRPC and HTTP servers recover in each call. A
// goroutine beside the calls has to do so itself.
//
//  1. Catch runs one task. A panic is logged, counted and returned as an *Error.
//  2. Keep runs a task until it returns. After a panic it runs the task again, with backoff.
//
// The value of a panic may quote the text of a memory. So the log gets only its type, the text of a runtime error,
// and the stack, which has addresses in place of arguments.
package panics

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// leastPause and mostPause bound Keep's pause after a panic.
const leastPause, mostPause = time.Second, time.Minute

// Error is a panic that was caught. Its text is fit for logs and operators.
type Error struct{ cause string }

func (e *Error) Error() string { return "panic (" + e.cause + "); the log has its stack" }

// Public marks the text as fit to keep and show, see services/store/queue.
func (e *Error) Public() string { return e.Error() }

var count atomic.Int64

// Count returns how many panics this process caught.
func Count() int64 { return count.Load() }

// Catch runs a task and returns its error. A panic is logged under name, counted and returned as an *Error. A nil log
// is slog's default.
func Catch(ctx context.Context, log *slog.Logger, name string, task func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if log == nil {
			log = slog.Default()
		}
		count.Add(1)
		caught := &Error{cause: cause(value)}
		err = caught
		log.ErrorContext(ctx, "panic", "task", name, "panic", caught.cause, "stack", string(debug.Stack()))
	}()
	return task()
}

func cause(value any) string {
	if err, ok := value.(runtime.Error); ok {
		return err.Error() // has types and numbers only
	}
	return fmt.Sprintf("%T", value)
}

// Keep runs a task until it returns, which it must when ctx ends. After a panic it runs it again.
func Keep(ctx context.Context, log *slog.Logger, name string, task func(context.Context)) {
	pause := leastPause
	for {
		began := time.Now()
		if Catch(ctx, log, name, func() error { task(ctx); return nil }) == nil {
			return
		}
		if time.Since(began) > mostPause {
			pause = leastPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}
