package gateway

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Forwarder forwards record calls to the memory service, so that agents need one address only. Errors of the memory service
// are public already and pass unchanged, except the transport's.
type Forwarder struct {
	triskelev1.UnimplementedMemoryServiceServer
	memory triskelev1.MemoryServiceClient
}

// NewForwarder returns a forwarder to a memory service.
func NewForwarder(memory triskelev1.MemoryServiceClient) *Forwarder {
	return &Forwarder{memory: memory}
}

func forwarded[T any](resp T, err error) (T, error) { return resp, hideAddress(err) }

// hideAddress replaces the text of a transport error, which quotes the peer's address. Those of the service itself have details.
func hideAddress(err error) error {
	if st := status.Convert(err); st.Code() == codes.Unavailable && len(st.Details()) == 0 {
		return status.Error(codes.Unavailable, "the memory service cannot be reached")
	}
	return err
}

// Remember implements triskelev1.MemoryServiceServer.
func (f *Forwarder) Remember(ctx context.Context, req *triskelev1.RememberRequest) (*triskelev1.RememberResponse, error) {
	return forwarded(f.memory.Remember(ctx, req))
}

// Update implements triskelev1.MemoryServiceServer.
func (f *Forwarder) Update(ctx context.Context, req *triskelev1.UpdateRequest) (*triskelev1.UpdateResponse, error) {
	return forwarded(f.memory.Update(ctx, req))
}

// Supersede implements triskelev1.MemoryServiceServer.
func (f *Forwarder) Supersede(ctx context.Context, req *triskelev1.SupersedeRequest) (*triskelev1.SupersedeResponse, error) {
	return forwarded(f.memory.Supersede(ctx, req))
}

// Forget implements triskelev1.MemoryServiceServer.
func (f *Forwarder) Forget(ctx context.Context, req *triskelev1.ForgetRequest) (*triskelev1.ForgetResponse, error) {
	return forwarded(f.memory.Forget(ctx, req))
}

// Get implements triskelev1.MemoryServiceServer.
func (f *Forwarder) Get(ctx context.Context, req *triskelev1.GetRequest) (*triskelev1.GetResponse, error) {
	return forwarded(f.memory.Get(ctx, req))
}

// List implements triskelev1.MemoryServiceServer.
func (f *Forwarder) List(ctx context.Context, req *triskelev1.ListRequest) (*triskelev1.ListResponse, error) {
	return forwarded(f.memory.List(ctx, req))
}

// GetNamespace implements triskelev1.MemoryServiceServer.
func (f *Forwarder) GetNamespace(ctx context.Context, req *triskelev1.GetNamespaceRequest) (*triskelev1.GetNamespaceResponse, error) {
	return forwarded(f.memory.GetNamespace(ctx, req))
}

// ListNamespaces implements triskelev1.MemoryServiceServer.
func (f *Forwarder) ListNamespaces(ctx context.Context, req *triskelev1.ListNamespacesRequest) (*triskelev1.ListNamespacesResponse, error) {
	return forwarded(f.memory.ListNamespaces(ctx, req))
}

// RenameNamespace implements triskelev1.MemoryServiceServer.
func (f *Forwarder) RenameNamespace(ctx context.Context, req *triskelev1.RenameNamespaceRequest) (*triskelev1.RenameNamespaceResponse, error) {
	return forwarded(f.memory.RenameNamespace(ctx, req))
}

// DeleteNamespace implements triskelev1.MemoryServiceServer.
func (f *Forwarder) DeleteNamespace(ctx context.Context, req *triskelev1.DeleteNamespaceRequest) (*triskelev1.DeleteNamespaceResponse, error) {
	return forwarded(f.memory.DeleteNamespace(ctx, req))
}

// ListDecisions implements triskelev1.MemoryServiceServer.
func (f *Forwarder) ListDecisions(ctx context.Context, req *triskelev1.ListDecisionsRequest) (*triskelev1.ListDecisionsResponse, error) {
	return forwarded(f.memory.ListDecisions(ctx, req))
}

// RevertDecision implements triskelev1.MemoryServiceServer.
func (f *Forwarder) RevertDecision(ctx context.Context, req *triskelev1.RevertDecisionRequest) (*triskelev1.RevertDecisionResponse, error) {
	return forwarded(f.memory.RevertDecision(ctx, req))
}

// Import implements triskelev1.MemoryServiceServer.
func (f *Forwarder) Import(in grpc.ClientStreamingServer[triskelev1.ImportRequest, triskelev1.ImportResponse]) error {
	ctx, cancel := context.WithCancel(in.Context()) // ends the inner call with the outer one
	defer cancel()
	out, err := f.memory.Import(ctx)
	if err != nil {
		return hideAddress(err)
	}
	for {
		req, err := in.Recv()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// A failed Send means that the inner call has ended; CloseAndRecv returns its error.
		if err != nil || out.Send(req) != nil {
			resp, err := out.CloseAndRecv()
			if err != nil {
				return hideAddress(err)
			}
			return in.SendAndClose(resp)
		}
	}
}

// Export implements triskelev1.MemoryServiceServer.
func (f *Forwarder) Export(req *triskelev1.ExportRequest, out grpc.ServerStreamingServer[triskelev1.ExportResponse]) error {
	in, err := f.memory.Export(out.Context(), req) // ends with out's context, and so when this returns
	if err != nil {
		return hideAddress(err)
	}
	for {
		resp, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return hideAddress(err)
		}
		if err := rpc.SendInTime(out.Send, resp, rpc.SendTime); err != nil {
			return err
		}
	}
}
