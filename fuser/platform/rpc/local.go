package rpc

import (
	"context"
	"reflect"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/platform/workers"
)

// Trust makes calls of this process pass on their requests as they are: neither validated nor copied. Callers must have
// validated what they were given, and must not change a request after a call. Calls from sockets are validated as ever.
func (s *Server) Trust() { s.trusting = true }

// Local is a connection to a server of the same process. A unary call passes the same checks and records the same spans as
// over a socket, and answers at the caller's deadline even if the handler does not. Messages are neither encoded nor sent: the request is
// copied, but for a server that trusts its process, and the answer is moved. Streams use the connection.
type Local struct {
	*grpc.ClientConn
	server *Server
	stats  stats.Handler
}

// NewLocal returns a connection to a server that also serves conn. Options of the server that intercept calls don't apply.
func NewLocal(server *Server, conn *grpc.ClientConn, tel *telemetry.Service) *Local {
	return &Local{conn, server, clientStats(tel)}
}

// Invoke implements grpc.ClientConnInterface. It ignores options.
func (l *Local) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	ctx = l.stats.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
	begun := time.Now()
	l.stats.HandleRPC(ctx, &stats.Begin{Client: true, BeginTime: begun})
	err := l.call(ctx, method, request.(proto.Message), reply.(proto.Message))
	l.stats.HandleRPC(ctx, &stats.End{Client: true, BeginTime: begun, EndTime: time.Now(), Error: err})
	return err
}

func (l *Local) call(ctx context.Context, method string, request, reply proto.Message) error {
	if l.GetState() == connectivity.Shutdown {
		return status.Error(codes.Canceled, "the connection is closed")
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if !l.server.trusting {
		request = proto.Clone(request)
	}
	answers, err := l.server.local.begin(ctx, l.server, method, request)
	if err != nil {
		return err
	}
	select {
	case a := <-answers:
		return l.read(a, reply)
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-l.server.local.killed.Done():
		return errStopped
	}
}

var errStopped = status.Error(codes.Unavailable, "the server has stopped")

// answer is the outcome of a local call.
type answer struct {
	reply any
	err   error
}

// read moves an answer, which nobody else has, into reply. An error of a server that was stopped may be due to that.
func (l *Local) read(a answer, reply proto.Message) error {
	switch {
	case a.err == nil:
		move(reply, a.reply.(proto.Message))
		return nil
	case l.server.local.killed.Err() != nil:
		return errStopped
	}
	return a.err
}

// move moves a message to an empty one of the same type. It copies the struct, since reflection field by field takes as long as a
// small search.
func move(to, from proto.Message) { reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem()) }

// localCalls are a server's running calls of this process.
type localCalls struct {
	killed context.Context // of all calls
	kill   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	workers *workers.Pool
}

func newLocalCalls() *localCalls {
	c := &localCalls{workers: workers.NewPool()}
	c.killed, c.kill = context.WithCancel(context.Background())
	return c
}

// begin runs a call in another goroutine, with a context that has only the deadline, the end and the metadata of the caller's.
func (c *localCalls) begin(ctx context.Context, s *Server, method string, request proto.Message) (<-chan answer, error) {
	handle, known := s.unary[method]
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errStopped
	}
	c.running.Add(1)
	served, cancel := c.served(ctx)
	unlink := context.AfterFunc(ctx, cancel)
	if sent, ok := metadata.FromOutgoingContext(ctx); ok {
		served = metadata.NewIncomingContext(served, sent)
	}
	answers := make(chan answer, 1)
	c.workers.Go(func() {
		defer c.running.Done()
		defer cancel()
		defer unlink()
		served := s.stats.TagRPC(served, &stats.RPCTagInfo{FullMethodName: method})
		begun := time.Now()
		s.stats.HandleRPC(served, &stats.Begin{BeginTime: begun})
		reply, err := handle(served, request)
		s.stats.HandleRPC(served, &stats.End{BeginTime: begun, EndTime: time.Now(), Error: err})
		answers <- answer{reply, err}
	})
	return answers, nil
}

// served returns the server's context of a call.
func (c *localCalls) served(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(c.killed, deadline)
	}
	return context.WithCancel(c.killed)
}

// close refuses further calls and waits for the running ones.
func (c *localCalls) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
	c.workers.Close()
}

// Stop ends the server and its calls at once.
func (s *Server) Stop() {
	s.local.kill()
	s.local.mu.Lock()
	s.local.closed = true
	s.local.mu.Unlock()
	s.local.workers.Close()
	s.Server.Stop()
}
