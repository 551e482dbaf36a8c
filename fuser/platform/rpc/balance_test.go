package rpc_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/rpc/rpctest"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// replica is a leg on an address of its own.
type replica struct {
	triskelev1.UnimplementedLegServiceServer
	server *rpc.Server
	calls  atomic.Int64
	fails  atomic.Bool
}

func (r *replica) Search(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
	r.calls.Add(1)
	if req.GetQuery() == "takes too long" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if r.fails.Load() {
		return nil, status.Error(codes.Internal, "broken")
	}
	return &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK}, nil
}

// startReplica serves on 127.0.0.last; ready says whether it says so.
func startReplica(t *testing.T, tel *telemetry.Service, last byte, port int, ready bool) *replica {
	t.Helper()
	server := rpc.NewServer(tel, slog.New(slog.DiscardHandler))
	r := &replica{server: server}
	triskelev1.RegisterLegServiceServer(server, r)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", last, port))
	if err != nil {
		t.Fatal(err)
	}
	if ready {
		server.Ready()
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return r
}

// freePort returns a port that is free on every loopback address of the test.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tel := process.Service("test")
	port, names := freePort(t), rpctest.ServeNames(t)
	one, two := startReplica(t, tel, 1, port, true), startReplica(t, tel, 2, port, true)
	names.Set("leg.test", 1, 2)
	conn, err := rpc.Dial(names.Target("leg.test", port), tel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	leg := triskelev1.NewLegServiceClient(conn)
	search := func(options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := leg.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Query: "q", Depth: 1}, options...)
		return err
	}
	// until calls without a pause until a condition holds; none may fail.
	until := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !holds(); {
			if err := search(); err != nil {
				t.Fatalf("until %s: %v", what, err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("not within 30 s: %s", what)
			}
		}
	}
	until("both are called", func() bool { return one.calls.Load() > 20 && two.calls.Load() > 20 })
	before := [2]int64{one.calls.Load(), two.calls.Load()}
	for range 100 {
		if err := search(); err != nil {
			t.Fatal(err)
		}
	}
	// The turn begins anew, at either, when the names are looked up again.
	if a, b := one.calls.Load()-before[0], two.calls.Load()-before[1]; a+b != 100 || min(a, b) < 45 {
		t.Errorf("of 100 calls, one got %d and the other %d", a, b)
	}

	// One that comes is found without any connection being lost; one that is not ready is left alone.
	three, four := startReplica(t, tel, 3, port, true), startReplica(t, tel, 4, port, false)
	names.Set("leg.test", 1, 2, 3, 4)
	until("the third is called", func() bool { return three.calls.Load() > 20 })
	if four.calls.Load() != 0 {
		t.Errorf("%d calls of a server that is not serving", four.calls.Load())
	}
	four.server.Ready()
	until("the fourth is called", func() bool { return four.calls.Load() > 20 })

	// One that is killed costs no call: what it was asked is asked of another one.
	one.server.Stop()
	known := two.calls.Load()
	until("the second is called on", func() bool { return two.calls.Load() > known+50 })

	// One that fails every call is passed over.
	two.fails.Store(true)
	failed := 0
	for range 200 {
		if search() != nil {
			failed++
		}
	}
	if failed == 0 || failed > 10 {
		t.Errorf("%d of 200 calls failed; the broken one should have been passed over after 5", failed)
	}
	two.fails.Store(false)
	known = two.calls.Load()
	until("the repaired one is called again", func() bool { return two.calls.Load() > known+20 })

	// If all fail, calls still go out: the caller learns the truth.
	two.fails.Store(true)
	three.fails.Store(true)
	four.fails.Store(true)
	for range 50 {
		if err := search(); status.Code(err) != codes.Internal {
			t.Fatalf("all are broken: %v", err)
		}
	}
}

// TestHurriedCalls: calls with little time say nothing about the replica that their namespace prefers.
func TestHurriedCalls(t *testing.T) {
	t.Parallel()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tel := process.Service("test")
	port, names := freePort(t), rpctest.ServeNames(t)
	replicas := []*replica{startReplica(t, tel, 1, port, true), startReplica(t, tel, 2, port, true)}
	names.Set("leg.test", 1, 2)
	conn, err := rpc.Dial(names.Target("leg.test", port), tel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	leg := triskelev1.NewLegServiceClient(conn)
	search := func(query string, given time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), given)
		defer cancel()
		_, err := leg.Search(rpc.Near(ctx, "n"), &triskelev1.SearchRequest{Namespace: "n", Query: query, Depth: 1})
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); replicas[0].calls.Load() == 0 || replicas[1].calls.Load() == 0; {
		if _, err := leg.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Query: "q", Depth: 1}); err != nil || time.Now().After(deadline) {
			t.Fatalf("one of the replicas gets no calls: %v", err)
		}
	}
	counts := func() [2]int64 { return [2]int64{replicas[0].calls.Load(), replicas[1].calls.Load()} }
	preferred, before := 0, counts()
	if err := search("q", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if counts()[1] > before[1] {
		preferred = 1
	}
	for range 20 {
		if err := search("takes too long", 5*time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("got %v, want DEADLINE_EXCEEDED", err)
		}
	}
	before = counts()
	if err := search("q", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if counts()[preferred] == before[preferred] {
		t.Error("the preferred replica gets no calls any more")
	}
}

// late holds back the message of a search until its call has ended. The next answer on the connection shows that gRPC has seen the
// end.
type late struct {
	conn  *grpc.ClientConn
	ended chan struct{}
}

func (l *late) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (l *late) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (l *late) HandleConn(context.Context, stats.ConnStats) {}

func (l *late) HandleRPC(ctx context.Context, event stats.RPCStats) {
	search := ctx.Value(l) != nil
	switch event.(type) {
	case *stats.OutHeader:
		if search {
			<-l.ended
			_, _ = healthpb.NewHealthClient(l.conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		}
	case *stats.InTrailer:
		if search {
			l.ended <- struct{}{}
		}
	}
}

// TestRefusedTwice refuses a call and its retry, once before they send their message. The caller gets the server's code.
func TestRefusedTwice(t *testing.T) {
	t.Parallel()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(process.Service("test"), slog.New(slog.DiscardHandler))
	server.Gate = func(context.Context, string) (rpc.Call, error) { return nil, status.Error(codes.Unavailable, "away") }
	triskelev1.RegisterLegServiceServer(server, &replica{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Ready()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	watch := &late{ended: make(chan struct{}, 1)}
	watch.conn, err = rpc.Dial(listener.Addr().String(), process.Service("test"), grpc.WithStatsHandler(watch))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.conn.Close() })
	for when, ctx := range map[string]context.Context{"before the message": context.WithValue(t.Context(), watch, true), "at any time": t.Context()} {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := triskelev1.NewLegServiceClient(watch.conn).Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Query: "q", Depth: 1}, grpc.WaitForReady(true))
		st, bare := err.(interface{ GRPCStatus() *status.Status }) //nolint:errorlint // callers pass on bare statuses only
		if !bare || st.GRPCStatus().Code() != codes.Unavailable {
			t.Errorf("refused %s: got %T %v, want a bare status with %s", when, err, err, codes.Unavailable)
		}
	}
}

// TestNear calls three replicas for many keys: each key stays with one, and only the keys of one that goes away move.
func TestNear(t *testing.T) {
	t.Parallel()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tel := process.Service("test")
	port, names := freePort(t), rpctest.ServeNames(t)
	replicas := []*replica{startReplica(t, tel, 1, port, true), startReplica(t, tel, 2, port, true), startReplica(t, tel, 3, port, true)}
	names.Set("near.test", 1, 2, 3)
	const keys = 60
	// where returns the replica that each key is near, after all the wanted ones are connected.
	where := func(wanted int) (at [keys]int) {
		t.Helper()
		conn, err := rpc.Dial(names.Target("near.test", port), tel)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		leg := triskelev1.NewLegServiceClient(conn)
		call := func(ctx context.Context) (which int) {
			t.Helper()
			var before [3]int64
			for i, r := range replicas {
				before[i] = r.calls.Load()
			}
			if _, err := leg.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Query: "q", Depth: 1}); err != nil {
				t.Fatal(err)
			}
			for i, r := range replicas {
				if r.calls.Load() > before[i] {
					return i
				}
			}
			t.Fatal("no replica was called")
			return 0
		}
		seen := map[int]bool{}
		for deadline := time.Now().Add(30 * time.Second); len(seen) < wanted; {
			if seen[call(t.Context())] = true; time.Now().After(deadline) {
				t.Fatalf("not within 30 s: calls of %d replicas, got %v", wanted, seen)
			}
		}
		for key := range at {
			at[key] = call(rpc.Near(t.Context(), fmt.Sprint("tenant/", key)))
			if again := call(rpc.Near(t.Context(), fmt.Sprint("tenant/", key))); again != at[key] {
				t.Errorf("key %d was near replica %d and then %d", key, at[key], again)
			}
		}
		twice := rpc.Near(t.Context(), "tenant/0")
		if first, second := call(twice), call(twice); first != at[0] || second == first {
			t.Errorf("two calls of one context went to %d and %d, want %d and another one", first, second, at[0])
		}
		return at
	}
	before := where(3)
	var held [3]int
	for _, i := range before {
		held[i]++
	}
	for i, n := range held {
		if n < keys/6 {
			t.Errorf("replica %d is near %d of %d keys, want about %d", i, n, keys, keys/3)
		}
	}
	replicas[1].server.Stop()
	names.Set("near.test", 1, 3)
	for key, now := range where(2) {
		if was := before[key]; was != 1 && now != was || now == 1 {
			t.Errorf("key %d moved from replica %d to %d when replica 1 went", key, was, now)
		}
	}
}
