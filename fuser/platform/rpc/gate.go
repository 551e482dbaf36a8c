package rpc

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/panics"
)

// Gate is asked to let a call in, before anything of it is read. An error goes to the caller as it is, so that it has to be
// a gRPC status. Health checks and reflection pass without being asked about.
type Gate func(ctx context.Context, method string) (Call, error)

// Operate is the method that a gate is asked about where operators are shown what callers of all namespaces did.
const Operate = "operate"

// Call is one that was let in.
type Call interface {
	// Allow is asked about each message that the caller sends, once it keeps to the contract. An error is as a gate's.
	Allow(message any) error
	// Answer has a request that was allowed answered by handle, and returns what of the answer the caller may see.
	Answer(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error)
	// Done is told the outcome.
	Done(err error)
}

// registrar puts what every method needs around it: the gate, the intake of requests, and the outcome, panics included.
type registrar struct {
	*grpc.Server
	gate Gate // may be nil
	room *Room
	log  *slog.Logger
}

// RegisterService implements grpc.ServiceRegistrar.
func (r *registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	wrapped := *desc
	wrapped.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + method.MethodName
		wrapped.Methods[i] = grpc.MethodDesc{
			MethodName: method.MethodName,
			Handler: func(service any, ctx context.Context, _ func(any) error, interceptor grpc.UnaryServerInterceptor) (resp any, err error) {
				err = r.pass(ctx, name, true, func(in *intake) error {
					resp, err = method.Handler(service, ctx, in.next, answered(in.call, interceptor))
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
			return r.pass(messages.Context(), name, !stream.ClientStreams, func(in *intake) error {
				return stream.Handler(service, &gatedStream{messages, in})
			})
		}
	}
	r.Server.RegisterService(&wrapped, service)
}

// answered has a call's Answer around what handles a request that was allowed.
func answered(call Call, interceptor grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		answer := func(ctx context.Context, req any) (any, error) { return call.Answer(ctx, req, handler) }
		if interceptor == nil {
			return answer(ctx, req)
		}
		return interceptor(ctx, req, info, answer)
	}
}

// pass has a call made if the gate lets it in.
func (r *registrar) pass(ctx context.Context, method string, single bool, handle func(*intake) error) (err error) {
	var call Call = Anything{}
	if r.gate != nil && !open(method) {
		if call, err = r.gate(ctx, method); err != nil {
			return Ended(ctx, err)
		}
	}
	in := &intake{ctx: ctx, method: method, single: single, room: r.room, call: call}
	err = r.outcome(ctx, method, panics.Catch(ctx, r.log, method, func() error {
		defer in.close()
		return handle(in)
	}))
	call.Done(err)
	return err
}

// outcome is what the caller is told. What it may not know goes to the log.
func (r *registrar) outcome(ctx context.Context, method string, err error) error {
	out := Ended(ctx, err)
	var panicked *panics.Error // which is in the log already
	if status.Code(out) == codes.Internal && !errors.As(err, &panicked) {
		r.log.ErrorContext(ctx, "call failed", "method", method, "error", err.Error())
	}
	return out
}

// unknown answers calls to methods that nobody has registered.
func unknown(_ any, stream grpc.ServerStream) error {
	called, _ := grpc.MethodFromServerStream(stream)
	service, method := path.Split(called)
	return Ended(stream.Context(), status.Errorf(codes.Unimplemented, "unknown method %s for service %s", method, strings.Trim(service, "/")))
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
	in *intake
}

// RecvMsg implements grpc.ServerStream.
func (s *gatedStream) RecvMsg(message any) error { return s.in.next(message) }
