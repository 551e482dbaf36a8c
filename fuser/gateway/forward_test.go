package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// endless is a memory service whose exports have no end.
type endless struct {
	triskelev1.MemoryServiceClient
	grpc.ClientStream
}

func (e endless) Export(context.Context, *triskelev1.ExportRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[triskelev1.ExportResponse], error) {
	return e, nil
}

func (endless) Recv() (*triskelev1.ExportResponse, error) { return &triskelev1.ExportResponse{}, nil }

// asleep is a caller that takes nothing until its call ends.
type asleep struct {
	grpc.ServerStream
	ctx context.Context
}

func (a asleep) Context() context.Context { return a.ctx }

func (a asleep) Send(*triskelev1.ExportResponse) error {
	<-a.ctx.Done()
	return a.ctx.Err()
}

// TestExportToSomebodyAsleep: the gateway gives up an export that its caller does not take.
func TestExportToSomebodyAsleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*rpc.SendTime)
		defer cancel()
		err := gateway.NewForwarder(endless{}).Export(&triskelev1.ExportRequest{}, asleep{ctx: ctx})
		if status.Code(err) != codes.DeadlineExceeded || ctx.Err() != nil {
			t.Errorf("got %v, the call ended: %v; want DEADLINE_EXCEEDED before that", err, ctx.Err())
		}
	})
}

// without is a memory service without its database.
type without struct {
	triskelev1.MemoryServiceClient
	err error
}

func (w without) Get(context.Context, *triskelev1.GetRequest, ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	return nil, w.err
}

// The service's own errors pass. Those of its connection name its address.
func TestUnavailable(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{
		{rpc.StoreAway("the database cannot be reached"), "the database cannot be reached"},
		{rpc.PartAway("the node cannot be reached"), "the node cannot be reached"},
		{status.Error(codes.Unavailable, "dial tcp 10.0.0.7:7401: refused"), "the memory service cannot be reached"},
	} {
		_, err := gateway.NewForwarder(without{err: x.err}).Get(t.Context(), &triskelev1.GetRequest{})
		if got := status.Convert(err).Message(); got != x.want {
			t.Errorf("got %q, want %q", got, x.want)
		}
		if rpc.IsPartAway(err) != rpc.IsPartAway(x.err) {
			t.Errorf("%q is about a part: got %v, want %v", x.want, rpc.IsPartAway(err), rpc.IsPartAway(x.err))
		}
	}
}
