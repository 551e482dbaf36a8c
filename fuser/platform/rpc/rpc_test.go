package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// service is a recall service made of a function, which also serves imports.
type service struct {
	triskelev1.UnimplementedRecallServiceServer
	triskelev1.UnimplementedMemoryServiceServer
	recall func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)
}

func (s service) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	return s.recall(ctx, req)
}

func (s service) Import(stream grpc.ClientStreamingServer[triskelev1.ImportRequest, triskelev1.ImportResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// syncBuffer is a log that two goroutines may use.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start serves s on a real socket and returns the server, a connection, and the log.
func start(t testing.TB, s service, more ...grpc.DialOption) (*rpc.Server, *grpc.ClientConn, *syncBuffer) {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	server := rpc.NewServer(process.Service("test"), slog.New(slog.NewJSONHandler(log, nil)))
	triskelev1.RegisterRecallServiceServer(server, s)
	triskelev1.RegisterMemoryServiceServer(server, s)
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	server.Ready() // or our own clients would not call it
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, listener) }()
	conn, err := rpc.Dial(listener.Addr().String(), process.Service("client"), more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return server, conn, log
}

func returns(err error) service {
	return service{recall: func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		return &triskelev1.RecallResponse{}, err
	}}
}

func valid() *triskelev1.RecallRequest {
	return &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "q"}
}

// violations returns the fields that an INVALID_ARGUMENT error names.
func violations(t *testing.T, err error) string {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.InvalidArgument {
		t.Fatalf("want INVALID_ARGUMENT, got %v", err)
	}
	var fields []string
	for _, detail := range st.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, v.GetField()+": "+v.GetDescription())
			}
		}
	}
	return strings.Join(fields, "; ")
}

func TestOutOfBoundsIsRefusedByName(t *testing.T) {
	_, conn, _ := start(t, returns(nil))
	client := triskelev1.NewRecallServiceClient(conn)
	zero, million, half := int32(0), int32(1_000_000), 1.5
	for name, x := range map[string]struct {
		edit func(*triskelev1.RecallRequest)
		want []string
	}{
		"limit 0":          {func(r *triskelev1.RecallRequest) { r.Limit = &zero }, []string{"limit", "1"}},
		"limit a million":  {func(r *triskelev1.RecallRequest) { r.Limit = &million }, []string{"limit", "1000"}},
		"400 KB query":     {func(r *triskelev1.RecallRequest) { r.Query = strings.Repeat("x", 400<<10) }, []string{"query", "32768"}},
		"NUL in the query": {func(r *triskelev1.RecallRequest) { r.Query = "a\x00b" }, []string{"query: must not contain a NUL character"}},
		"no namespace":     {func(r *triskelev1.RecallRequest) { r.Namespaces = nil }, []string{"namespaces", "1"}},
		"bad namespace":    {func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"n", "Über all"} }, []string{"namespaces[1]"}},
		"neither query":    {func(r *triskelev1.RecallRequest) { r.Query = "" }, []string{"query: must be given unless a vector is"}},
		"alpha":            {func(r *triskelev1.RecallRequest) { r.Fusion = &triskelev1.Fusion{Alpha: &half} }, []string{"fusion.alpha", "1"}},
		"weight of a leg": {func(r *triskelev1.RecallRequest) {
			w := -1.
			r.Legs = map[string]*triskelev1.LegOptions{"dense": {Weight: &w}}
		}, []string{"legs", "weight", "0"}},
		"unknown sort":         {func(r *triskelev1.RecallRequest) { r.SortBy = 99 }, []string{"sort_by"}},
		"too many tags":        {func(r *triskelev1.RecallRequest) { r.Filter = &triskelev1.Filter{TagsAny: make([]string, 65)} }, []string{"filter.tags_any", "64"}},
		"no scale":             {func(r *triskelev1.RecallRequest) { r.MinScore = &triskelev1.MinScore{Value: 0.5} }, []string{"min_score.scale: is missing: must be one of SCORE_SCALE_RRF"}},
		"five thousand floats": {func(r *triskelev1.RecallRequest) { r.Vector = make([]float32, 5000) }, []string{"vector", "4096"}},
	} {
		req := valid()
		x.edit(req)
		_, err := client.Recall(t.Context(), req)
		got := violations(t, err)
		for _, part := range x.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: violations %q do not mention %q", name, got, part)
			}
		}
	}
	if _, err := client.Recall(t.Context(), valid()); err != nil {
		t.Errorf("a valid request: %v", err)
	}
}

// raw sends bytes as they are, which no generated client would.
type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (raw) Name() string { return "proto" }

func TestMalformedMessagesAreTheSendersFault(t *testing.T) {
	_, conn, _ := start(t, returns(nil), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{})))
	query := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "\xff\xfe")
	var out []byte
	err := conn.Invoke(t.Context(), triskelev1.RecallService_Recall_FullMethodName, query, &out)
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a query that is not UTF-8: got %v, want INVALID_ARGUMENT", err)
	}
	err = conn.Invoke(t.Context(), triskelev1.RecallService_Recall_FullMethodName, []byte{0xff}, &out)
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("no message at all: %v", err)
	}
	// The same within a stream.
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, triskelev1.MemoryService_Import_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	content := protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), "\xff")
	if err := stream.SendMsg(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), content)); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&out); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a content in a stream that is not UTF-8: got %v, want INVALID_ARGUMENT", err)
	}
}

func TestNothingInternalLeaks(t *testing.T) {
	secret := errors.New(`ERROR: duplicate key "hunter2" (SQLSTATE 23505)`)
	for name, x := range map[string]struct {
		err    error
		want   codes.Code
		logged bool
	}{
		"internal error":       {secret, codes.Internal, true},
		"wrapped status":       {fmt.Errorf("%w: %w", secret, status.Error(codes.NotFound, "x")), codes.Internal, true},
		"context deadline":     {fmt.Errorf("hunter2: %w", context.DeadlineExceeded), codes.DeadlineExceeded, false},
		"public status passes": {status.Error(codes.NotFound, "no such memory"), codes.NotFound, false},
	} {
		_, conn, log := start(t, returns(x.err))
		_, err := triskelev1.NewRecallServiceClient(conn).Recall(t.Context(), valid())
		if status.Code(err) != x.want || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the client got %v", name, err)
		}
		if logged := strings.Contains(log.String(), "hunter2"); logged != x.logged {
			t.Errorf("%s: cause in the log: %v\n%s", name, logged, log)
		}
	}
}

func TestPanicIsAnErrorOfItsCallOnly(t *testing.T) {
	panics := true
	_, conn, log := start(t, service{recall: func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		if panics {
			panics = false
			panic("boom")
		}
		return &triskelev1.RecallResponse{}, nil
	}})
	client := triskelev1.NewRecallServiceClient(conn)
	if _, err := client.Recall(t.Context(), valid()); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "boom") {
		t.Errorf("the client got %v", err)
	}
	var entry struct{ Panic, Stack, Task string }
	if err := json.Unmarshal([]byte(log.String()), &entry); err != nil || entry.Panic != "string" || !strings.Contains(entry.Stack, "rpc_test") || !strings.HasSuffix(entry.Task, "/Recall") {
		t.Errorf("log %q, %v", log, err)
	}
	if strings.Contains(log.String(), "boom") {
		t.Errorf("the log quotes the panic: %q", log)
	}
	if _, err := client.Recall(t.Context(), valid()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

var errPanic = errors.New("panic with this")

func TestHealthFollowsTheCheck(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(process.Service("test"), slog.New(slog.DiscardHandler))
	triskelev1.RegisterRecallServiceServer(server, returns(nil))
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	// Our own clients would not call a server that is not serving.
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	health := healthpb.NewHealthClient(conn)
	of := func(service string) healthpb.HealthCheckResponse_ServingStatus {
		resp, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetStatus()
	}
	if got := of(""); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("before it is ready: %v", got)
	}
	watch, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() healthpb.HealthCheckResponse_ServingStatus {
		resp, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetStatus()
	}
	next() // the state it began with
	results := make(chan error, 1)
	results <- nil
	server.Watch(t.Context(), 10*time.Millisecond, func(context.Context) error {
		err := <-results
		results <- err // stays so until it is changed
		if err == errPanic {
			panic(err)
		}
		return err
	})
	if got := next(); got != healthpb.HealthCheckResponse_SERVING || of(triskelev1.RecallService_ServiceDesc.ServiceName) != got {
		t.Errorf("database up: %v", got)
	}
	<-results
	results <- errors.New("gone")
	if got := next(); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("database gone: %v", got)
	}
	<-results
	results <- nil
	if got := next(); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("database back: %v", got)
	}
	<-results
	results <- errPanic
	if got := next(); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the check panics: %v", got)
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	_, conn, _ := start(t, returns(nil))
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || !strings.Contains(resp.String(), "triskele.v1.RecallService") || !strings.Contains(resp.String(), "grpc.health.v1.Health") {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestListenIsLoopbackUnlessToldOtherwise(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if l, err := rpc.Listen(address, false); err == nil {
			_ = l.Close()
			t.Errorf("%s: accepted", address)
		} else if !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", address, err)
		}
		l, err := rpc.Listen(address, true)
		if err != nil {
			t.Errorf("%s, allowed: %v", address, err)
			continue
		}
		_ = l.Close()
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := rpc.Listen(address, false)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("%s listens on %v", address, l.Addr())
		}
		_ = l.Close()
	}
}

func TestStopLetsRunningCallsFinish(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	server := rpc.NewServer(process.Service("test"), slog.New(slog.DiscardHandler))
	triskelev1.RegisterRecallServiceServer(server, service{recall: func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		close(entered)
		<-leave
		return &triskelev1.RecallResponse{}, nil
	}})
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	server.Ready()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, listener) }()
	conn, err := rpc.Dial(listener.Addr().String(), process.Service("client"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answered := make(chan error, 1)
	go func() {
		_, err := triskelev1.NewRecallServiceClient(conn).Recall(context.Background(), valid())
		answered <- err
	}()
	<-entered
	cancel()
	close(leave)
	if err := <-answered; err != nil {
		t.Errorf("the running call: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// openSpans counts spans that have started and not ended, and all that have started.
type openSpans struct {
	sdktrace.SpanProcessor
	open, all atomic.Int64
}

func (s *openSpans) OnStart(context.Context, sdktrace.ReadWriteSpan) { s.open.Add(1); s.all.Add(1) }
func (s *openSpans) OnEnd(sdktrace.ReadOnlySpan)                     { s.open.Add(-1) }

// TestInventedMethodsLeaveNoSpan: a span of a method that there is not would never end.
func TestInventedMethodsLeaveNoSpan(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spans := &openSpans{}
	tel := *process.Service("test")
	tel.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	server := rpc.NewServer(&tel, slog.New(slog.DiscardHandler))
	triskelev1.RegisterRecallServiceServer(server, returns(nil))
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"/invented.Service/Method", "/triskele.v1.RecallService/Invented", triskelev1.RecallService_Recall_FullMethodName} {
		_ = conn.Invoke(t.Context(), method, valid(), &triskelev1.RecallResponse{})
	}
	_ = conn.Close()
	server.GracefulStop()
	<-served
	if open, all := spans.open.Load(), spans.all.Load(); open != 0 || all != 1 {
		t.Errorf("got %d spans, %d of them open, want one that has ended", all, open)
	}
}
