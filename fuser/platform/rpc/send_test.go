package rpc_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

func TestSendInTime(t *testing.T) {
	t.Parallel()
	gone := errors.New("the receiver has gone")
	for name, x := range map[string]struct {
		takes time.Duration
		err   error
		want  codes.Code
	}{
		"at once":    {0, nil, codes.OK},
		"just":       {rpc.SendTime - time.Millisecond, nil, codes.OK},
		"has gone":   {time.Second, gone, codes.Unknown},
		"never":      {time.Hour, nil, codes.DeadlineExceeded},
		"only after": {rpc.SendTime + time.Millisecond, gone, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got string
				err := rpc.SendInTime(func(message *string) error {
					time.Sleep(x.takes) // of the bubble's clock
					got = *message
					return x.err
				}, new("text"), rpc.SendTime)
				if status.Code(err) != x.want {
					t.Errorf("got %v, want %v", err, x.want)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if got != "text" {
					t.Errorf("%q was sent, want %q", got, "text")
				}
			})
		})
	}
}
