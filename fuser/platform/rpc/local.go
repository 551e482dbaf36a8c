package rpc

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/platform/workers"
)

// Trust makes calls of this process pass on their requests as they are: neither validated nor copied. Callers must have
// validated what they were given, and must not change a request after a call. Calls from sockets are validated as ever.
func (s *Server) Trust() { s.trusting = true }

// Local is a connection to a server of the same process. A call passes the same checks and records the same spans as over a
// socket, and answers at the caller's deadline even if the handler does not. Messages are neither encoded nor sent: requests
// are copied, unless callers give them away or the server trusts its process, and answers are moved. The gate sees the peer of the
// caller's context.
type Local struct {
	// MessageMemory bounds messages that callers of other protocols send.
	*MessageMemory
	server *Server
	stats  stats.Handler // nil records nothing on the caller's side
	given  bool          // callers give their requests away
}

var _ grpc.ClientConnInterface = (*Local)(nil)

// NewLocal returns a connection to a server. tel records the caller's side of the calls; it may be nil.
func NewLocal(server *Server, tel *telemetry.Service) *Local {
	l := &Local{MessageMemory: newMessageMemory(), server: server}
	if tel != nil {
		l.stats = clientStats(tel)
	}
	return l
}

// Give says that callers do not use a request after its call has begun. It returns l.
func (l *Local) Give() *Local {
	l.given = true
	return l
}

// Admit asks the gate about a call before its messages are read. A call with the returned context does not ask again.
func (l *Local) Admit(ctx context.Context, method string) (context.Context, error) {
	call, err := l.server.admit(ctx, method)
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, admittedKey{}, call), nil
}

// Invoke implements grpc.ClientConnInterface. It ignores options.
func (l *Local) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	ctx, end := observe(ctx, l.stats, true, method)
	err := l.invoke(ctx, method, request.(proto.Message), reply.(proto.Message))
	end(err)
	return err
}

func (l *Local) invoke(ctx context.Context, method string, request, reply proto.Message) error {
	request = l.own(request)
	var answer proto.Message
	call, err := l.begin(ctx, method, func(context.Context) (proto.Message, error) { return request, nil }, func(_ context.Context, given any) error {
		answer = given.(proto.Message)
		return nil
	})
	if err != nil {
		return err
	}
	if err := call.wait(ctx); err != nil {
		return err
	}
	move(reply, answer)
	return nil
}

// NewStream implements grpc.ClientConnInterface. It ignores options.
func (l *Local) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, end := observe(ctx, l.stats, true, method)
	requests := make(chan proto.Message)
	s := &localStream{conn: l, ctx: ctx, requests: requests, answers: make(chan proto.Message), desc: desc}
	s.closeSend = sync.OnceFunc(func() { close(requests) })
	var err error
	if s.call, err = l.begin(ctx, method, s.next, s.answer); err != nil {
		end(err)
		return nil, err
	}
	go func() { end(s.call.wait(ctx)) }()
	return s, nil
}

// localStream is the caller's side of a stream.
type localStream struct {
	grpc.ClientStream // nil: there are no headers and trailers
	conn              *Local
	ctx               context.Context
	call              *localCall
	requests, answers chan proto.Message
	first             proto.Message // the answer that Header waited for, until RecvMsg returns it
	closeSend         func()
	desc              *grpc.StreamDesc
}

// next is the server's source.
func (s *localStream) next(ctx context.Context) (proto.Message, error) {
	select {
	case message, ok := <-s.requests:
		if !ok {
			return nil, io.EOF
		}
		return message, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answer is the server's sink.
func (s *localStream) answer(ctx context.Context, message any) error {
	select {
	case s.answers <- message.(proto.Message):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *localStream) Context() context.Context { return s.ctx }

// Header implements grpc.ClientStream. As over a socket, it waits for the first answer. The error of a call that ends without any is its
// error, too. Call it before RecvMsg.
func (s *localStream) Header() (_ metadata.MD, err error) {
	if s.first, err = s.take(); errors.Is(err, io.EOF) {
		err = nil
	}
	return nil, err
}

func (*localStream) Trailer() metadata.MD { return nil }

func (s *localStream) CloseSend() error {
	s.closeSend()
	return nil
}

// SendMsg implements grpc.ClientStream. It returns when the server has taken the message, or the call has ended. RecvMsg returns the
// error then.
func (s *localStream) SendMsg(message any) error {
	select {
	case s.requests <- s.conn.own(message.(proto.Message)):
		return nil
	case <-s.call.ended:
	case <-s.call.killed:
	case <-s.ctx.Done():
	}
	if s.desc.ClientStreams {
		return io.EOF
	}
	return nil
}

func (s *localStream) RecvMsg(message any) (err error) {
	answer := s.first
	if s.first = nil; answer == nil {
		if answer, err = s.take(); err != nil {
			return err
		}
	}
	move(message.(proto.Message), answer)
	if s.desc.ServerStreams {
		return nil
	}
	return s.call.wait(s.ctx)
}

func (s *localStream) take() (proto.Message, error) {
	select {
	case answer := <-s.answers:
		return answer, nil
	case <-s.call.ended:
	case <-s.call.killed:
	case <-s.ctx.Done():
	}
	if err := s.call.wait(s.ctx); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// own returns a message that the server may keep.
func (l *Local) own(message proto.Message) proto.Message {
	if l.given || l.server.trusting {
		return message
	}
	return proto.Clone(message)
}

// move moves a message, which nobody else has, to an empty one of the same type. It copies the struct, since reflection field by
// field takes as long as a small search.
func move(to, from proto.Message) { reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem()) }

// observe records a call, on its caller's side or on its server's, until end is called. handler may be nil.
func observe(ctx context.Context, handler stats.Handler, client bool, method string) (_ context.Context, end func(error)) {
	if handler == nil {
		return ctx, func(error) {}
	}
	ctx = handler.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
	begun := time.Now()
	handler.HandleRPC(ctx, &stats.Begin{Client: client, BeginTime: begun})
	return ctx, func(err error) {
		handler.HandleRPC(ctx, &stats.End{Client: client, BeginTime: begun, EndTime: time.Now(), Error: err})
	}
}

// BothWays reports whether a method may answer before it has all of its messages.
func (l *Local) BothWays(name string) bool {
	found, known := l.server.methods.Load(name)
	return known && found.(method).requests && found.(method).answers
}

// ServeFrames makes a call whose messages come as frames. send gets the answers. It may still run when the call has ended, see
// SendInTime.
func (l *Local) ServeFrames(ctx context.Context, method string, frames Frames, send func(proto.Message) error) error {
	served, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return l.server.serve(served, method, &intake{frames: frames, memory: l.MessageMemory}, func(_ context.Context, answer any) error {
		return send(answer.(proto.Message))
	})
}

func (s *Server) serve(ctx context.Context, name string, in *intake, out sink) error {
	found, known := s.methods.Load(name)
	if !known {
		return Ended(ctx, unknownMethod(name))
	}
	ctx, end := observe(ctx, s.stats, false, name)
	one := found.(method)
	in.ctx, in.method, in.single = ctx, name, !one.requests
	var answer any
	taking, unary := out, !one.requests && !one.answers
	if unary { // its answer goes out when the call has ended, since that may wait for the caller
		taking = func(_ context.Context, given any) error { answer = given; return nil }
	}
	err := s.pass(in, one.handle, taking)
	end(err)
	if err == nil && unary {
		return out(ctx, answer)
	}
	return err
}

// localCalls are a server's running calls of this process.
type localCalls struct {
	killed context.Context // of all calls
	kill   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	workers *workers.Pool
}

// localCall is a call that runs in a goroutine of its own.
type localCall struct {
	ended, killed <-chan struct{}
	err           error // once ended
}

var errStopped = status.Error(codes.Unavailable, "the server has stopped")

// wait returns the call's error when it has ended, or ctx has. An error of a server that was stopped may be due to that.
func (c *localCall) wait(ctx context.Context) error {
	select {
	case <-c.ended:
		if c.err == nil {
			return nil
		}
		select {
		case <-c.killed:
			return errStopped
		default:
			return c.err
		}
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-c.killed:
		return errStopped
	}
}

func (l *Local) begin(ctx context.Context, method string, given source, out sink) (*localCall, error) {
	served, leave, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	call := &localCall{ended: ended, killed: l.server.local.killed.Done()}
	l.server.local.workers.Go(func() {
		defer leave()
		call.err = l.server.serve(served, method, &intake{given: given, trusted: l.server.trusting}, out)
		close(ended)
	})
	return call, nil
}

// enter returns the server's context of a call until leave is called. It has only the deadline, the end and the metadata of the
// caller's, and what the gate asks for.
func (l *Local) enter(ctx context.Context) (served context.Context, leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, status.FromContextError(err).Err()
	}
	c := l.server.local
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, errStopped
	}
	c.running.Add(1)
	served, cancel := c.served(ctx)
	unlink := context.AfterFunc(ctx, cancel)
	if sent, ok := metadata.FromOutgoingContext(ctx); ok {
		served = metadata.NewIncomingContext(served, sent)
	}
	if l.server.Gate != nil {
		if from, ok := peer.FromContext(ctx); ok {
			served = peer.NewContext(served, from)
		}
		if call, ok := ctx.Value(admittedKey{}).(Call); ok {
			served = context.WithValue(served, admittedKey{}, call)
		}
	}
	return served, func() {
		unlink()
		cancel()
		c.running.Done()
	}, nil
}

func (c *localCalls) served(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(c.killed, deadline)
	}
	return context.WithCancel(c.killed)
}

// close refuses further calls and waits for the running ones.
func (c *localCalls) close() {
	c.refuse()
	c.running.Wait()
	c.workers.Close()
}

func (c *localCalls) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Stop ends the server and its calls at once.
func (s *Server) Stop() {
	s.local.kill()
	s.local.refuse()
	s.local.workers.Close()
	s.Server.Stop()
}
