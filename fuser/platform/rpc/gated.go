package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// WithGate asks gate about every call over conn, as a server would. The gate reads the context's incoming metadata.
// Streams are refused.
func WithGate(conn grpc.ClientConnInterface, gate Gate) grpc.ClientConnInterface {
	return gatedConn{conn, gate}
}

type gatedConn struct {
	grpc.ClientConnInterface
	gate Gate
}

// Invoke implements grpc.ClientConnInterface.
func (g gatedConn) Invoke(ctx context.Context, method string, request, reply any, opts ...grpc.CallOption) (err error) {
	call, err := g.gate(ctx, method)
	if err != nil {
		return err
	}
	defer func() { call.Done(err) }()
	if err := validate(request.(proto.Message)); err != nil {
		return err
	}
	if err := call.Allow(request); err != nil {
		return err
	}
	answer, err := call.Answer(ctx, request, func(ctx context.Context, request any) (any, error) {
		one := reply.(proto.Message).ProtoReflect().New().Interface() // Answer may run this several times
		return one, g.ClientConnInterface.Invoke(ctx, method, request, one, opts...)
	})
	if err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), answer.(proto.Message))
	return nil
}

// NewStream implements grpc.ClientConnInterface.
func (gatedConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams cannot be checked here")
}
