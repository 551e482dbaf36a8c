package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Gate is asked to let a call in, before anything of it is read. An error goes to the caller as it is, so that it has to be
// a gRPC status. Health checks and reflection pass without being asked about.
type Gate func(ctx context.Context, method string) (Call, error)

// Operate is the method that a gate is asked about where operators are shown what callers of all namespaces did.
const Operate = "operate"

// Call is one that was let in.
type Call interface {
	// Allow is asked about each message that the caller sends, once it is known to be valid. An error is as a gate's.
	Allow(message any) error
	// Answer has a request that was allowed answered by handle, and returns what of the answer the caller may see.
	Answer(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error)
	// Done is told the outcome.
	Done(err error)
}

// registrar puts what every method needs around it: the gate, and receive to decode requests.
type registrar struct {
	*grpc.Server
	gate Gate // may be nil
}

// RegisterService implements grpc.ServiceRegistrar.
func (r *registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	wrapped := *desc
	wrapped.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + method.MethodName
		wrapped.Methods[i] = grpc.MethodDesc{
			MethodName: method.MethodName,
			Handler: func(service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (resp any, err error) {
				err = r.pass(ctx, name, func(call Call) error {
					resp, err = method.Handler(service, ctx, func(message any) error { return receive(decode, message) }, allowed(call, interceptor))
					return err
				})
				return resp, err
			},
		}
	}
	wrapped.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, stream := range desc.Streams {
		wrapped.Streams[i] = stream
		name := "/" + desc.ServiceName + "/" + stream.StreamName
		wrapped.Streams[i].Handler = func(service any, messages grpc.ServerStream) error {
			return r.pass(messages.Context(), name, func(call Call) error {
				return stream.Handler(service, &gatedStream{messages, call})
			})
		}
	}
	r.Server.RegisterService(&wrapped, service)
}

// allowed asks call about a request after the interceptor, which validates it. What is not valid is neither compared nor counted.
func allowed(call Call, interceptor grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return interceptor(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			if err := call.Allow(req); err != nil {
				return nil, err
			}
			return call.Answer(ctx, req, handler)
		})
	}
}

// pass has a call made if the gate lets it in.
func (r *registrar) pass(ctx context.Context, method string, handle func(Call) error) error {
	if r.gate == nil {
		return handle(Anything{})
	}
	call, err := r.gate(ctx, method)
	if err != nil {
		return err
	}
	outcome := status.Error(codes.Internal, "panic") // unless handle returns
	defer func() { call.Done(outcome) }()
	outcome = handle(call)
	return outcome
}

// Anything is a Call that may do anything.
type Anything struct{}

// Allow implements Call.
func (Anything) Allow(any) error { return nil }

// Answer implements Call.
func (Anything) Answer(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	return handle(ctx, request)
}

// Done implements Call.
func (Anything) Done(error) {}

type gatedStream struct {
	grpc.ServerStream
	call Call
}

// RecvMsg implements grpc.ServerStream.
func (s *gatedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	return s.call.Allow(message)
}
