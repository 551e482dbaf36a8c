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
func SendInTime[T any](send func(*T) error, message *T, limit time.Duration) error {
	sent := make(chan error, 1)
	go func() { sent <- send(message) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		return status.Errorf(codes.DeadlineExceeded, "the client read nothing for %v", limit)
	}
}
