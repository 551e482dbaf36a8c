package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/resilience"
)

// one is a picker of one connection.
type one struct{}

func (one) Pick(balancer.PickInfo) (balancer.PickResult, error) { return balancer.PickResult{}, nil }

// TestConnectionThatIsNotReady: gRPC picks again if the connection is lost meanwhile, which says nothing about the address.
func TestConnectionThatIsNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known := &replica{breaker: resilience.NewBreaker(nil)}
		p := &picker{endpoints: []endpoint{{picker: one{}, replica: known}}}
		end := func(with balancer.DoneInfo) {
			result, err := p.Pick(balancer.PickInfo{Ctx: context.Background()})
			if err != nil {
				t.Fatal(err)
			}
			result.Done(with)
		}
		for known.breaker.State() != gobreaker.StateOpen {
			end(balancer.DoneInfo{Err: status.Error(codes.Unavailable, "away"), BytesSent: true})
		}
		time.Sleep(2 * time.Second) // the next call is the probe
		end(balancer.DoneInfo{})
		if got := known.breaker.State(); got == gobreaker.StateClosed {
			t.Error("a call that was not made has closed the circuit breaker")
		}
		end(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
		if got := known.breaker.State(); got != gobreaker.StateClosed {
			t.Errorf("the circuit breaker is %v after a call that succeeded, want closed", got)
		}
	})
}
