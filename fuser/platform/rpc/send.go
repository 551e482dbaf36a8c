package rpc

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendTime is how long a receiver may take to make room for the next message of a stream. A laptop that went to sleep never does.
const SendTime = 30 * time.Second

// SendInTime sends a message of a stream. If the receiver makes no room for it in time, the error is DEADLINE_EXCEEDED, and the
// handler has to return: that ends the stream and with it the send.
func SendInTime[T any](send func(*T) error, message *T, limit time.Duration) error {
	sent := make(chan error, 1)
	go func() { sent <- send(message) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		return status.Errorf(codes.DeadlineExceeded, "the receiver took nothing for %v", limit)
	}
}
