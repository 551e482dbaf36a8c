package rpc

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendTime bounds how long a receiver may block the next message of a stream. A sleeping laptop blocks for ever.
const SendTime = 30 * time.Second

// SendInTime sends a message of a stream. The error is DEADLINE_EXCEEDED if the receiver takes none within limit. The
// handler must then return, which ends the stream and the send.
func SendInTime[T any](send func(T) error, message T, limit time.Duration) error {
	_, err := inTime(limit, "the client read nothing for %v", func() (struct{}, error) { return struct{}{}, send(message) })
	return err
}

// inTime returns what do returns, or an error after limit. do must end with its call.
func inTime[T any](limit time.Duration, late string, do func() (T, error)) (out T, err error) {
	type outcome struct {
		out T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		out, err := do()
		done <- outcome{out, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.out, o.err
	case <-timer.C:
		return out, status.Errorf(codes.DeadlineExceeded, late, limit)
	}
}
