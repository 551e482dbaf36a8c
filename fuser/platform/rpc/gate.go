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
	"google.golang.org/protobuf/proto"

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
	gate   Gate // may be nil
	memory *MessageMemory
	log    *slog.Logger
	unary  map[string]handler // by full method name, for calls of this process

	trusting bool // see Server.Trust
}

// handler runs a unary method on a message.
type handler func(ctx context.Context, request proto.Message) (any, error)

// RegisterService implements grpc.ServiceRegistrar.
func (r *registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	wrapped := *desc
	wrapped.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + method.MethodName
		r.unary[name] = func(ctx context.Context, request proto.Message) (resp any, err error) {
			err = r.pass(ctx, name, true, func(in *intake) error {
				in.given, in.trusted = request, r.trusting
				resp, err = method.Handler(service, ctx, in.next, answered(in.call, nil))
				return err
			})
			return resp, err
		}
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

// answered wraps the handler of a request in call.Answer.
func answered(call Call, interceptor grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		answer := func(ctx context.Context, req any) (any, error) { return call.Answer(ctx, req, handler) }
		if interceptor == nil {
			return answer(ctx, req)
		}
		return interceptor(ctx, req, info, answer)
	}
}

// pass runs handle if the gate admits the call.
func (r *registrar) pass(ctx context.Context, method string, single bool, handle func(*intake) error) (err error) {
	var call Call = Anything{}
	if r.gate != nil && !open(method) {
		if call, err = r.gate(ctx, method); err != nil {
			return Ended(ctx, err)
		}
	}
	in := &intake{ctx: ctx, method: method, single: single, memory: r.memory, call: call}
	err = r.outcome(ctx, method, panics.Catch(ctx, r.log, method, func() error {
		defer in.close()
		return handle(in)
	}))
	call.Done(err)
	return err
}

// outcome returns the error for the caller and logs the cause of an internal one.
func (r *registrar) outcome(ctx context.Context, method string, err error) error {
	out := Ended(ctx, err)
	var panicked *panics.Error // already in the log
	if code := status.Code(out); (code == codes.Internal || code == codes.DataLoss) && !errors.As(err, &panicked) {
		r.log.ErrorContext(ctx, "call failed", "method", method, "error", err.Error())
	}
	return out
}

// unknown answers calls to unregistered methods.
func unknown(_ any, stream grpc.ServerStream) error {
	called, _ := grpc.MethodFromServerStream(stream)
	service, method := path.Split(called)
	return Ended(stream.Context(), status.Errorf(codes.Unimplemented, "unknown method %s for service %s", method, strings.Trim(service, "/")))
}

// Anything is a Call without restrictions.
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
