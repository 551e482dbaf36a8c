// Package panics keeps a panic in one task from ending the process. gRPC and HTTP servers recover in each call, but a goroutine
// that works beside the calls has to do so itself. Catch runs one task, and Keep runs one that goes on until it is told to end.
//
// The value of a panic may quote the text of a memory. Only its type is logged, the words of a runtime error, and the stack,
// which has addresses in place of arguments.
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

// leastPause and mostPause bound how long Keep waits after a panic before it begins again.
const leastPause, mostPause = time.Second, time.Minute

// Error is a panic that was caught. Its text is fit for logs and operators.
type Error struct{ cause string }

func (e *Error) Error() string { return "panic (" + e.cause + "); the log has its stack" }

// Public says that the text may be kept and shown, see services/store/queue.
func (e *Error) Public() string { return e.Error() }

var count atomic.Int64

// Count is how many panics this process has caught.
func Count() int64 { return count.Load() }

// Catch runs a task and returns its error. A panic is an *Error, which is logged under the task's name and counted. Without a log
// of its own, nil, it goes to slog's default.
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

// cause is what may be said of a panic's value.
func cause(value any) string {
	if err, ok := value.(runtime.Error); ok {
		return err.Error() // has types and numbers only
	}
	return fmt.Sprintf("%T", value)
}

// Keep runs a task that returns when ctx ends, or when it is done. After a panic it begins the task again.
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
