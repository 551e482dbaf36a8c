package gateway

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

// Forward serves a service, described in its file, by a connection to it, so that agents need one address only. Errors of the service are public
// already and pass unchanged, except the transport's. The server must be an rpc.Server, which intercepts all calls.
func Forward(server grpc.ServiceRegistrar, to grpc.ClientConnInterface, file protoreflect.FileDescriptor) {
	service := file.Services().Get(0)
	desc := grpc.ServiceDesc{ServiceName: string(service.FullName()), Metadata: file.Path()}
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		f := forwarder{to, method, rpc.NameOf(method)}
		name, requests, answers := string(method.Name()), method.IsStreamingClient(), method.IsStreamingServer()
		if requests || answers {
			desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: name, Handler: f.stream, ClientStreams: requests, ServerStreams: answers})
		} else {
			desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: f.unary})
		}
	}
	server.RegisterService(&desc, nil)
}

type forwarder struct {
	to     grpc.ClientConnInterface
	method protoreflect.MethodDescriptor
	name   string
}

func (f forwarder) unary(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	request := rpc.NewMessage(f.method.Input())
	if err := decode(request); err != nil {
		return nil, err
	}
	return intercept(ctx, request, &grpc.UnaryServerInfo{FullMethod: f.name}, func(ctx context.Context, request any) (any, error) {
		answer := rpc.NewMessage(f.method.Output())
		if err := f.to.Invoke(ctx, f.name, request, answer); err != nil {
			return nil, f.hideAddress(rpc.Bare(err))
		}
		return answer, nil
	})
}

func (f forwarder) stream(_ any, outer grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(outer.Context()) // ends the inner call with the outer one
	defer cancel()
	inner, err := f.to.NewStream(ctx, &grpc.StreamDesc{ClientStreams: f.method.IsStreamingClient(), ServerStreams: f.method.IsStreamingServer()}, f.name)
	if err != nil {
		return f.hideAddress(err)
	}
	var refused error // of a request; the inner call does those before it
	for number := 1; ; number++ {
		request := rpc.NewMessage(f.method.Input())
		err := outer.RecvMsg(request)
		if err != nil && !errors.Is(err, io.EOF) {
			if refused = rpc.InMessage(number, err); !f.method.IsStreamingClient() {
				return refused
			}
		}
		// A failed SendMsg means that the inner call has ended; RecvMsg returns its error.
		if err != nil || inner.SendMsg(request) != nil || !f.method.IsStreamingClient() {
			break
		}
	}
	_ = inner.CloseSend() // never fails
	for {
		answer := rpc.NewMessage(f.method.Output())
		err := inner.RecvMsg(answer)
		if err == nil && refused != nil {
			return refused
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return f.hideAddress(err)
		}
		if err := rpc.SendInTime(outer.SendMsg, any(answer), rpc.SendTime); err != nil || !f.method.IsStreamingServer() {
			return err
		}
	}
}

// hideAddress replaces the text of a transport error, which quotes the peer's address. Those of the service itself have details.
func (f forwarder) hideAddress(err error) error {
	if st := status.Convert(err); st.Code() == codes.Unavailable && len(st.Details()) == 0 {
		return status.Errorf(codes.Unavailable, "the %s service cannot be reached, or is not ready", strings.ToLower(strings.TrimSuffix(string(f.method.Parent().Name()), "Service")))
	}
	return err
}
