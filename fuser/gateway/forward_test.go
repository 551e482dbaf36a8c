package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// forwarding are the handlers of a gateway that forwards.
type forwarding struct{ grpc.ServiceDesc }

// RegisterService implements grpc.ServiceRegistrar.
func (f *forwarding) RegisterService(service *grpc.ServiceDesc, _ any) { f.ServiceDesc = *service }

func forward(to grpc.ClientConnInterface) (f forwarding) {
	gateway.Forward(&f, to, triskelev1.File_triskele_v1_memory_proto)
	return f
}

// endless is a memory service whose exports have no end.
type endless struct {
	grpc.ClientConnInterface
	grpc.ClientStream
}

func (e endless) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return e, nil
}

func (endless) SendMsg(any) error { return nil }

func (endless) CloseSend() error { return nil }

func (endless) RecvMsg(any) error { return nil }

// asleep is a caller that takes nothing until its call ends.
type asleep struct {
	grpc.ServerStream
	ctx context.Context
}

func (a asleep) Context() context.Context { return a.ctx }

func (asleep) RecvMsg(any) error { return nil }

func (a asleep) SendMsg(any) error {
	<-a.ctx.Done()
	return a.ctx.Err()
}

// TestExportToSomebodyAsleep: the gateway gives up an export that its caller does not take.
func TestExportToSomebodyAsleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*rpc.SendTime)
		defer cancel()
		streams := forward(endless{}).Streams
		export := slices.IndexFunc(streams, func(s grpc.StreamDesc) bool { return s.StreamName == "Export" })
		err := streams[export].Handler(nil, asleep{ctx: ctx})
		if status.Code(err) != codes.DeadlineExceeded || ctx.Err() != nil {
			t.Errorf("got %v, the call ended: %v; want DEADLINE_EXCEEDED before that", err, ctx.Err())
		}
	})
}

// without is a memory service without its database.
type without struct {
	grpc.ClientConnInterface
	err error
}

func (w without) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return w.err }

func passing(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return handle(ctx, request)
}

// The service's own errors pass. Those of its connection name its address.
// retried is a memory service whose client has tried again.
type retried struct {
	grpc.ClientConnInterface
	err error
}

func (r retried) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return fmt.Errorf("max retries exhausted, failing with error: %w", r.err)
}

// The error of a last retry is that of the service.
func TestErrorAfterRetries(t *testing.T) {
	away := rpc.PartAway("the store is away")
	for _, method := range forward(retried{err: away}).Methods {
		_, err := method.Handler(nil, t.Context(), func(any) error { return nil }, func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(ctx, req)
		})
		if got := rpc.Ended(t.Context(), err); status.Code(got) != codes.Unavailable || status.Convert(got).Message() != "the store is away" {
			t.Errorf("%s: got %v, want %v", method.MethodName, got, away)
		}
	}
}

func TestUnavailable(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{
		{rpc.StoreAway("the database cannot be reached"), "the database cannot be reached"},
		{rpc.PartAway("the node cannot be reached"), "the node cannot be reached"},
		{status.Error(codes.Unavailable, "dial tcp 10.0.0.7:7401: refused"), "the memory service cannot be reached, or is not ready"},
	} {
		_, err := forward(without{err: x.err}).Methods[0].Handler(nil, t.Context(), func(any) error { return nil }, passing)
		if got := status.Convert(err).Message(); got != x.want {
			t.Errorf("got %q, want %q", got, x.want)
		}
		if rpc.IsPartAway(err) != rpc.IsPartAway(x.err) {
			t.Errorf("%q is about a part: got %v, want %v", x.want, rpc.IsPartAway(err), rpc.IsPartAway(x.err))
		}
	}
}
