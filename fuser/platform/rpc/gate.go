package rpc

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/panics"
)

// Gate admits or refuses a call before any message is read. Its error must be a gRPC status, since the caller gets
// it. It is not asked about health checks and reflection.
type Gate func(ctx context.Context, method string) (Call, error)

// Operate is the method that a gate must allow before operators see the calls in all namespaces.
const Operate = "operate"

// Call is an admitted call.
type Call interface {
	// Allow decides on each valid message that the caller sends. Its error must be a gRPC status.
	Allow(message any) error
	// Answer runs handle on an allowed request and returns the part of the answer that the caller may see.
	Answer(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error)
	// Done gets the outcome.
	Done(err error)
}

// registrar wraps every method in the gate, the intake of requests, panic recovery and error mapping.
type registrar struct {
	*grpc.Server
	Gate   Gate // of all further calls; nil admits everybody
	memory *MessageMemory
	log    *slog.Logger
	// methods are the registered ones by full name. Calls of this process may come while services are registered.
	methods sync.Map

	trusting bool // see Server.Trust
}

type method struct {
	requests, answers bool // several
	handle            handler
}

// handler takes the messages of a call from in, and gives its answers to out.
type handler func(in *intake, out sink) error

// sink takes an answer, unless ctx ends before.
type sink func(ctx context.Context, answer any) error

func (r *registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	wrapped := *desc
	wrapped.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, unary := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + unary.MethodName
		one := method{false, false, func(in *intake, out sink) error {
			resp, err := unary.Handler(service, in.ctx, in.next, func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				return in.call.Answer(ctx, req, handle)
			})
			if err != nil {
				return err
			}
			return out(in.ctx, resp)
		}}
		r.methods.Store(name, one)
		wrapped.Methods[i] = grpc.MethodDesc{
			MethodName: unary.MethodName,
			Handler: func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (resp any, err error) {
				err = r.pass(&intake{ctx: ctx, method: name, single: true, memory: r.memory}, one.handle, func(_ context.Context, answer any) error {
					resp = answer
					return nil
				})
				return resp, err
			},
		}
	}
	wrapped.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, streaming := range desc.Streams {
		wrapped.Streams[i] = streaming
		name := "/" + desc.ServiceName + "/" + streaming.StreamName
		one := method{streaming.ClientStreams, streaming.ServerStreams, func(in *intake, out sink) error {
			return streaming.Handler(service, &serverStream{in: in, out: out})
		}}
		r.methods.Store(name, one)
		wrapped.Streams[i].Handler = func(_ any, messages grpc.ServerStream) error {
			in := &intake{ctx: messages.Context(), method: name, single: !one.requests, memory: r.memory}
			return r.pass(in, one.handle, func(_ context.Context, answer any) error { return messages.SendMsg(answer) })
		}
	}
	r.Server.RegisterService(&wrapped, service)
}

// serverStream is a handler's side of a stream. The handlers set no headers and no trailers, which would need the embedded stream.
type serverStream struct {
	grpc.ServerStream
	in  *intake
	out sink
}

func (s *serverStream) Context() context.Context { return s.in.ctx }

func (s *serverStream) RecvMsg(message any) error { return s.in.next(message) }

func (s *serverStream) SendMsg(message any) error { return s.out(s.in.ctx, message) }

// pass runs handle if the gate admits the call. It logs the cause of an internal error, which the caller does not get.
func (r *registrar) pass(in *intake, handle handler, out sink) (err error) {
	if in.call, err = r.admit(in.ctx, in.method); err != nil {
		return err
	}
	cause := panics.Catch(in.ctx, r.log, in.method, func() error {
		defer in.close()
		return handle(in, out)
	})
	err = Ended(in.ctx, cause)
	var panicked *panics.Error // already in the log
	if code := status.Code(err); (code == codes.Internal || code == codes.DataLoss) && !errors.As(cause, &panicked) {
		r.log.ErrorContext(in.ctx, "call failed", "method", in.method, "error", cause.Error())
	}
	in.call.Done(err)
	return err
}

type admittedKey struct{}

// admit asks the gate about a call, unless it was admitted before.
func (r *registrar) admit(ctx context.Context, method string) (Call, error) {
	if r.Gate == nil || strings.HasPrefix(method, "/grpc.") { // health checks and reflection are open
		return Anything{}, nil
	}
	if before, ok := ctx.Value(admittedKey{}).(Call); ok {
		return before, nil
	}
	call, err := r.Gate(ctx, method)
	return call, Ended(ctx, err)
}

func unknown(_ any, stream grpc.ServerStream) error {
	called, _ := grpc.MethodFromServerStream(stream)
	return Ended(stream.Context(), unknownMethod(called))
}

func unknownMethod(name string) error {
	service, method := path.Split(name)
	return status.Errorf(codes.Unimplemented, "unknown method %s for service %s", method, strings.Trim(service, "/"))
}

// Anything is a Call without restrictions.
type Anything struct{}

func (Anything) Allow(any) error { return nil }

func (Anything) Answer(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	return handle(ctx, request)
}

func (Anything) Done(error) {}
