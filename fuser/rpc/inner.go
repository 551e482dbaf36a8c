package rpc

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"

	"github.com/triskele/triskele/fuser/telemetry"
)

const pipeBytes = 1 << 20 // of a connection in memory

// Inner returns a connection to a server in memory, for what a program offers in other protocols than gRPC. Everything is checked as
// a call from elsewhere: gate, which may be nil, is asked, and knows a call's peer to be that of the context on the client's side,
// see From. serve registers services and serves until the listener is closed, which closing does.
func Inner(gate Gate, tel *telemetry.Service, log *slog.Logger, serve func(*Server, net.Listener) error, more ...grpc.DialOption) (conn *grpc.ClientConn, closeInner func(), err error) {
	listener := bufconn.Listen(pipeBytes)
	callers := &callers{}
	conn, err = grpc.NewClient("passthrough:///inner", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes)),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(callers.note(ctx), method, req, reply, conn, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(callers.note(ctx), desc, conn, method, opts...)
		}),
	}, more...)...)
	if err != nil {
		return nil, nil, err
	}
	inner := NewServer(tel, log)
	if gate != nil {
		inner.Admit(func(ctx context.Context, method string) (Call, error) { return gate(callers.restore(ctx), method) })
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve(inner, listener) // ends with the listener, or with the program
	}()
	return conn, func() {
		_ = conn.Close()
		_ = listener.Close()
		<-served
	}, nil
}

// callers are the peers of running calls, by the number that a call carries: only the number travels.
type callers struct {
	last  atomic.Uint64
	peers sync.Map
}

const callerKey = "triskele-caller"

func (c *callers) note(ctx context.Context) context.Context {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ctx
	}
	number := strconv.FormatUint(c.last.Add(1), 10)
	c.peers.Store(number, p)
	context.AfterFunc(ctx, func() { c.peers.Delete(number) })
	return metadata.AppendToOutgoingContext(ctx, callerKey, number)
}

func (c *callers) restore(ctx context.Context) context.Context {
	for _, number := range metadata.ValueFromIncomingContext(ctx, callerKey) {
		if p, ok := c.peers.Load(number); ok {
			return peer.NewContext(ctx, p.(*peer.Peer))
		}
	}
	return ctx
}

// From returns the context of an HTTP request with its sender as the peer.
func From(r *http.Request) context.Context {
	p := &peer.Peer{Addr: remote(r.RemoteAddr)}
	if r.TLS != nil {
		p.AuthInfo = credentials.TLSInfo{State: *r.TLS, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	}
	return peer.NewContext(r.Context(), p)
}

// remote is an address as HTTP has it.
type remote string

// Network implements net.Addr.
func (remote) Network() string { return "tcp" }

func (r remote) String() string { return string(r) }
