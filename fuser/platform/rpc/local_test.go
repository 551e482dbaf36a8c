package rpc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// eachWay runs fn with a service over a socket, and in the same process.
func eachWay(t *testing.T, s service, fn func(t *testing.T, server *rpc.Server, conn grpc.ClientConnInterface)) {
	t.Run("socket", func(t *testing.T) {
		server, conn, _ := start(t, s, grpc.WithDisableRetry())
		fn(t, server, conn)
	})
	t.Run("local", func(t *testing.T) {
		server, _, _ := start(t, s, grpc.WithDisableRetry())
		process, err := telemetry.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fn(t, server, rpc.NewLocal(server, process.Service("client")))
	})
}

type valueKey struct{}

// expiring has a deadline that comes when the test says so: how soon a server begins is up to the machine.
type expiring struct {
	context.Context
	deadline time.Time
	expired  chan struct{}
}

func (e expiring) Deadline() (time.Time, bool) { return e.deadline, true }

func (e expiring) Done() <-chan struct{} { return e.expired }

func (e expiring) Err() error {
	select {
	case <-e.expired:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestLocalCallsAreLikeOthers: what a caller gets does not depend on the way.
func TestLocalCallsAreLikeOthers(t *testing.T) {
	hang, running := make(chan struct{}), make(chan context.Context, 1)
	s := service{recall: func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		switch req.GetQuery() {
		case "panic":
			panic("for a test")
		case "status":
			return nil, status.Error(codes.NotFound, "no such thing")
		case "cause":
			return nil, errors.New("the password is 1234")
		case "hang":
			running <- ctx
			<-hang
		case "wait":
			running <- ctx
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if ctx.Value(valueKey{}) != nil {
			return nil, status.Error(codes.Internal, "the server sees the client's values")
		}
		if got := metadata.ValueFromIncomingContext(ctx, "sent"); len(got) != 1 || got[0] != "metadata" {
			return nil, status.Error(codes.Internal, "the server does not see the client's metadata")
		}
		req.Namespaces[0] = "changed"
		return &triskelev1.RecallResponse{TraceId: req.GetQuery()}, nil
	}}
	eachWay(t, s, func(t *testing.T, _ *rpc.Server, conn grpc.ClientConnInterface) {
		client := triskelev1.NewRecallServiceClient(conn)
		ask := func(ctx context.Context, query string) (*triskelev1.RecallResponse, error) {
			return client.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: query})
		}
		ctx := metadata.AppendToOutgoingContext(context.WithValue(t.Context(), valueKey{}, "private"), "sent", "metadata")
		req := valid()
		if resp, err := client.Recall(ctx, req); err != nil || resp.GetTraceId() != "q" || req.GetNamespaces()[0] != "n" {
			t.Errorf("got %v, %v, and the request became %v", resp, err, req)
		}
		for query, want := range map[string]struct {
			code codes.Code
			text string
		}{
			"":       {codes.InvalidArgument, ""},
			"panic":  {codes.Internal, "internal error; the server's log has the cause"},
			"status": {codes.NotFound, "no such thing"},
			"cause":  {codes.Internal, "internal error; the server's log has the cause"},
		} {
			if _, err := ask(ctx, query); status.Code(err) != want.code || want.text != "" && status.Convert(err).Message() != want.text {
				t.Errorf("%q: got %v, want %v: %s", query, err, want.code, want.text)
			}
		}
		if err := conn.Invoke(ctx, "/triskele.v1.RecallService/Invented", valid(), &triskelev1.RecallResponse{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("an unknown method: got %v, want Unimplemented", err)
		}
		ended := make(chan error, 1)
		begin := func(ctx context.Context, query string) {
			go func() {
				_, err := ask(ctx, query)
				ended <- err
			}()
		}
		short := expiring{ctx, time.Now().Add(time.Hour), make(chan struct{})}
		begin(short, "hang")
		at, has := (<-running).Deadline()
		close(short.expired)
		if err := <-ended; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a handler that hangs: got %v, want DeadlineExceeded", err)
		}
		hang <- struct{}{}
		if !has || at.Sub(short.deadline).Abs() > time.Minute {
			t.Errorf("the server's deadline is %v, want %v", at, short.deadline)
		}
		ending, end := context.WithCancel(ctx)
		begin(ending, "wait")
		served := <-running
		end()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("a cancelled call: got %v, want Canceled", err)
		}
		<-served.Done()
		if _, err := ask(ending, "q"); status.Code(err) != codes.Canceled {
			t.Errorf("a call that was cancelled before: got %v, want Canceled", err)
		}
	})
}

// TestLocalStreamsAreLikeOthers: each message is checked, the caller keeps what it sent, and the end is the server's.
func TestLocalStreamsAreLikeOthers(t *testing.T) {
	eachWay(t, service{}, func(t *testing.T, server *rpc.Server, conn grpc.ClientConnInterface) {
		client := triskelev1.NewMemoryServiceClient(conn)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for name, x := range map[string]struct {
			content string
			want    codes.Code
		}{
			"valid messages":     {"x", codes.Internal}, // the service returns io.EOF, which is no status
			"an invalid message": {"", codes.InvalidArgument},
		} {
			stream, err := client.Import(ctx)
			if err != nil {
				t.Fatal(err)
			}
			req := &triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: "n", Content: x.content}}}
			for range 2 {
				if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("%s: send: %v", name, err)
				}
			}
			if _, err := stream.CloseAndRecv(); status.Code(err) != x.want || len(req.GetMemories()) != 1 {
				t.Errorf("%s: got %v, want %v, and the request became %v", name, err, x.want, req)
			}
		}
		waiting, err := client.Import(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := waiting.RecvMsg(&triskelev1.ImportResponse{}); status.Code(err) != codes.Canceled {
			t.Errorf("a cancelled stream: got %v, want Canceled", err)
		}
		running, err := client.Import(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server.Stop()
		if err := running.RecvMsg(&triskelev1.ImportResponse{}); status.Code(err) != codes.Unavailable {
			t.Errorf("a stopped server: got %v, want Unavailable", err)
		}
	})
}

// TestRefusedLocalStreams: a caller of a stream of answers gets the gate's error, however early it comes.
func TestRefusedLocalStreams(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(process.Service("test"), slog.New(slog.DiscardHandler))
	server.Gate = func(context.Context, string) (rpc.Call, error) {
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	triskelev1.RegisterMemoryServiceServer(server, service{})
	client := triskelev1.NewMemoryServiceClient(rpc.NewLocal(server, nil))
	for range 100 {
		stream, err := client.Export(t.Context(), &triskelev1.ExportRequest{Namespace: "n"})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.PermissionDenied {
			t.Fatalf("got %v, want PermissionDenied", err)
		}
	}
	server.Stop()
}

// TestStopEndsLocalCalls: a server that stops ends its calls, and takes no more.
func TestStopEndsLocalCalls(t *testing.T) {
	running := make(chan context.Context, 1)
	s := service{recall: func(ctx context.Context, _ *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		running <- ctx
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	eachWay(t, s, func(t *testing.T, server *rpc.Server, conn grpc.ClientConnInterface) {
		client := triskelev1.NewRecallServiceClient(conn)
		ended := make(chan error, 1)
		go func() {
			_, err := client.Recall(t.Context(), valid())
			ended <- err
		}()
		served := <-running
		server.Stop()
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("a running call: got %v, want Unavailable", err)
		}
		<-served.Done()
		if _, err := client.Recall(t.Context(), valid()); status.Code(err) != codes.Unavailable {
			t.Errorf("a later call: got %v, want Unavailable", err)
		}
	})
}

// TestTrustedCalls: a server that trusts its process gets requests as they are from there, and validates those of sockets.
func TestTrustedCalls(t *testing.T) {
	var got *triskelev1.RecallRequest
	s := service{recall: func(_ context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		got = req
		return &triskelev1.RecallResponse{TraceId: "t"}, nil
	}}
	eachWay(t, s, func(t *testing.T, server *rpc.Server, conn grpc.ClientConnInterface) {
		server.Trust()
		_, local := conn.(*rpc.Local)
		want := codes.InvalidArgument
		if local {
			want = codes.OK
		}
		req := &triskelev1.RecallRequest{Namespaces: []string{"n"}} // without a query
		resp, err := triskelev1.NewRecallServiceClient(conn).Recall(t.Context(), req)
		if status.Code(err) != want {
			t.Fatalf("got %v, %v, want %v", resp, err, want)
		}
		if local && (resp.GetTraceId() != "t" || &got.Namespaces[0] != &req.Namespaces[0]) {
			t.Errorf("got the answer %v to a copy of the request, want %q to the request itself", resp, "t")
		}
	})
}
