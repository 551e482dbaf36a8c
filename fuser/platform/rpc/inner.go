package rpc

import (
	"context"
	"log/slog"
	"math"
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

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

const pipeBytes = 1 << 20 // buffer of a connection

// InnerConn is a connection to a server in memory, for callers of other protocols than gRPC.
type InnerConn struct {
	*grpc.ClientConn
	// MessageMemory bounds callers' messages, besides the server's own.
	*MessageMemory
	gate Gate
}

// Admit asks the gate about a call before its messages are read. A call with the returned context does not ask again.
func (e *InnerConn) Admit(ctx context.Context, method string) (context.Context, error) {
	if e.gate == nil || open(method) {
		return ctx, nil
	}
	call, err := e.gate(ctx, method)
	if err != nil {
		return ctx, Ended(ctx, err)
	}
	return context.WithValue(ctx, admittedKey{}, call), nil
}

type admittedKey struct{}

// Inner returns a connection to a server in memory, for callers of other protocols than gRPC. Calls pass all checks
// of a server. gate may be nil; it sees the peer of the client's context, see From. serve registers services and
// serves until closeInner closes the listener.
func Inner(gate Gate, tel *telemetry.Service, log *slog.Logger, serve func(*Server, net.Listener) error, more ...grpc.DialOption) (inside *InnerConn, closeInner func(), err error) {
	listener := bufconn.Listen(pipeBytes)
	callers := &callers{}
	conn, err := grpc.NewClient("passthrough:///inner", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
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
	// All callers share one connection, and the edge bounds their headers.
	inner := NewServer(tel, log, grpc.MaxConcurrentStreams(math.MaxUint32), grpc.MaxHeaderListSize(pipeBytes))
	if gate != nil {
		inner.Admit(func(ctx context.Context, method string) (Call, error) {
			caller := callers.of(ctx)
			if caller.admitted != nil {
				return caller.admitted, nil
			}
			if caller.peer != nil {
				ctx = peer.NewContext(ctx, caller.peer)
			}
			return gate(ctx, method)
		})
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve(inner, listener) // ends when the listener is closed
	}()
	return &InnerConn{conn, newMessageMemory(), gate}, func() {
		_ = conn.Close()
		_ = listener.Close()
		<-served
	}, nil
}

// callers are the callers of running calls, by the number in a call's metadata.
type callers struct {
	last    atomic.Uint64
	running sync.Map
}

type caller struct {
	peer     *peer.Peer // nil if unknown
	admitted Call       // nil unless admitted before
}

const callerKey = "triskele-caller"

func (c *callers) note(ctx context.Context) context.Context {
	var one caller
	one.peer, _ = peer.FromContext(ctx)
	one.admitted, _ = ctx.Value(admittedKey{}).(Call)
	if one.peer == nil && one.admitted == nil {
		return ctx
	}
	number := strconv.FormatUint(c.last.Add(1), 10)
	c.running.Store(number, one)
	context.AfterFunc(ctx, func() { c.running.Delete(number) })
	return metadata.AppendToOutgoingContext(ctx, callerKey, number)
}

func (c *callers) of(ctx context.Context) caller {
	for _, number := range metadata.ValueFromIncomingContext(ctx, callerKey) {
		if one, ok := c.running.Load(number); ok {
			return one.(caller)
		}
	}
	return caller{}
}

// From returns an HTTP request's context with the peer and token where a gate looks for them.
func From(r *http.Request) context.Context {
	p := &peer.Peer{Addr: remote(r.RemoteAddr)}
	if r.TLS != nil {
		p.AuthInfo = credentials.TLSInfo{State: *r.TLS, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	}
	ctx := metadata.NewIncomingContext(r.Context(), metadata.MD{"authorization": r.Header.Values("Authorization")})
	return peer.NewContext(ctx, p)
}

// remote is an address as HTTP has it.
type remote string

// Network implements net.Addr.
func (remote) Network() string { return "tcp" }

func (r remote) String() string { return string(r) }
