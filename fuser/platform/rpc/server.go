// Package rpc is the gRPC base of every server and client of the project. It imports no service and no database
// driver.
//
// A call passes through a Server in these steps:
//
//  1. The muxer does the TLS handshake and hands HTTP/1.1 connections to the listener of Server.HTTP.
//  2. The registrar asks the Gate, which admits or refuses the call by its method and metadata.
//  3. The intake reads each message within its limits of bytes and memory, decodes it and validates it.
//  4. Call.Allow decides on the message. The handler then runs under Call.Answer, and panics are caught.
//  5. Ended turns the handler's error into a gRPC status that is safe for the caller. Call.Done gets the outcome.
//
// Local is a connection to a server of the same process, which leaves out the wire. Callers of other protocols use it, too. Dial is the
// client's side: round robin over a name's addresses with health checks, a circuit breaker each and one retry.
package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"buf.build/go/protovalidate"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/platform/workers"
)

const (
	// maxAnswer bounds an answer that a client reads, in bytes.
	maxAnswer = 96 << 20
	// maxStreams bounds the concurrent calls of a connection, and maxHeader the bytes of a call's metadata. Tokens
	// of an issuer have a few thousand.
	maxStreams = 250
	maxHeader  = 32 << 10
	// streamWindow bounds the unread bytes of a call, and connWindow those of all calls of a connection.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// handshakeTime is for TLS and the HTTP/2 settings.
	handshakeTime = 10 * time.Second
	// drainTime bounds running calls at shutdown. It exceeds the greatest budget of a recall.
	drainTime = 15 * time.Second
)

// Server is a gRPC server with health and reflection. It starts as NOT_SERVING. Ready sets SERVING, and Watch ties
// health to a check.
type Server struct {
	*registrar
	health *health.Server
	muxer  *muxer
	stats  stats.Handler
	local  *localCalls

	concerns []func() string
}

// NewServer returns a server that bounds and validates requests, hides internal errors, survives panics and is traced.
func NewServer(tel *telemetry.Service, log *slog.Logger) *Server {
	mux := newMuxer()
	var s *Server
	// Telemetry leaves unknown methods out: gRPC never ends the span of a call to one, and the caller chooses its name.
	known := func(info *stats.RPCTagInfo) bool {
		_, ok := s.methods.Load(info.FullMethodName)
		return ok
	}
	observed := otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(tel.TracerProvider),
		otelgrpc.WithMeterProvider(tel.MeterProvider),
		otelgrpc.WithPropagators(tel.Propagator),
		otelgrpc.WithFilter(filters.All(filters.Not(filters.HealthCheck()), known)),
	)
	options := []grpc.ServerOption{
		grpc.Creds(mux),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.UnknownServiceHandler(unknown),
		grpc.StatsHandler(observed),
		// Drops dead and sleeping peers, with all their calls hold.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, Time: 30 * time.Second, Timeout: 15 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	s = &Server{
		registrar: &registrar{Server: grpc.NewServer(options...), memory: newMessageMemory(), log: log},
		health:    health.NewServer(), muxer: mux, stats: observed, local: &localCalls{workers: workers.NewPool()},
	}
	s.local.killed, s.local.kill = context.WithCancel(context.Background())
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(s, s.health)
	reflection.Register(s)
	return s
}

// Encrypt makes the server speak TLS only and takes ownership of config. Call it before Run.
func (s *Server) Encrypt(config *tls.Config) {
	config.NextProtos = []string{"h2"}
	s.muxer.config = config
}

// HTTP returns a listener of the HTTP/1.1 connections, each a *tls.Conn after its handshake if the server speaks TLS.
// Without it they are refused. Clients that offer both protocols, as browsers do, get HTTP/1.1. It is closed with the
// server. Call it after Encrypt and before Run.
func (s *Server) HTTP() net.Listener {
	s.muxer.http = make(chan net.Conn)
	if s.muxer.config != nil {
		s.muxer.config.NextProtos = []string{"http/1.1", "h2"}
	}
	return httpListener{s.muxer}
}

// Ready sets health to SERVING, for the server and each of its services.
func (s *Server) Ready() { s.setAll(healthpb.HealthCheckResponse_SERVING) }

// Serving says whether health is SERVING.
func (s *Server) Serving() bool {
	resp, err := s.health.Check(context.Background(), &healthpb.HealthCheckRequest{})
	return err == nil && resp.GetStatus() == healthpb.HealthCheckResponse_SERVING
}

// Concern adds a reason to Concerns. reason returns a problem, or "" for none. Call it before Run.
func (s *Server) Concern(reason func() string) { s.concerns = append(s.concerns, reason) }

// Concerns returns the problems of a server that serves.
func (s *Server) Concerns() (all []string) {
	for _, reason := range s.concerns {
		if text := reason(); text != "" {
			all = append(all, text)
		}
	}
	return all
}

func (s *Server) setAll(status healthpb.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", status)
	for name := range s.GetServiceInfo() {
		s.health.SetServingStatus(name, status)
	}
}

// Watch sets health by the outcome of check. It calls check once before it returns, then every interval until ctx
// ends.
func (s *Server) Watch(ctx context.Context, interval time.Duration, check func(context.Context) error) {
	healthy := false
	update := func() {
		ctx, cancel := context.WithTimeout(ctx, interval)
		defer cancel()
		err := panics.Catch(ctx, s.log, "health check", func() error { return check(ctx) })
		switch {
		case err == nil && !healthy:
			healthy = true
			s.Ready()
		case err != nil && healthy:
			healthy = false
			s.log.WarnContext(ctx, "not serving", "error", err.Error())
			s.setAll(healthpb.HealthCheckResponse_NOT_SERVING)
		}
	}
	update()
	go every(ctx, interval, update)
}

// every runs a task after each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, task func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			task()
		}
	}
}

// Run serves until ctx ends, then drains the server and returns.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		s.Drain()
	})
	defer s.muxer.close()
	if s.muxer.http != nil {
		listener = handoffListener{listener}
	}
	err := s.Serve(listener)
	if !stop() {
		<-drained
	}
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Drain sets NOT_SERVING, lets running calls finish and stops the server.
func (s *Server) Drain() {
	s.health.Shutdown()
	s.muxer.close()
	force := time.AfterFunc(drainTime, s.Stop)
	defer force.Stop()
	s.GracefulStop()
	s.local.close()
}

// ErrNotLoopback refuses an address that other machines can reach.
var ErrNotLoopback = errors.New("is not a loopback address: other machines could reach it")

// Listen opens a TCP listener. An address that other machines can reach is ErrNotLoopback unless remote is set. Set
// it if calls are encrypted and callers known, or if the operator wants it.
func Listen(address string, remote bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, settings.Wrong(fmt.Errorf("listen address: %w", err))
	}
	if !resolved.IP.IsLoopback() && !remote {
		return nil, settings.Wrong(fmt.Errorf("listen address %s %w", address, ErrNotLoopback))
	}
	return net.Listen("tcp", address)
}

// NameOf returns the name of a method in calls, such as /triskele.v1.RecallService/Recall.
func NameOf(method protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
}

// NewMessage returns an empty message of the type that was generated for a description. It panics if this program has none.
func NewMessage(described protoreflect.MessageDescriptor) proto.Message {
	generated, err := protoregistry.GlobalTypes.FindMessageByName(described.FullName())
	if err != nil {
		panic(fmt.Sprintf("%s: %v", described.FullName(), err))
	}
	return generated.New().Interface()
}

// CompileRules compiles the validation rules of all requests of the server's services. Otherwise the first call of
// each kind waits for it, ten milliseconds or more. A program that ends after one call needs none.
func (s *Server) CompileRules() {
	for name := range s.GetServiceInfo() {
		found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		service, known := found.(protoreflect.ServiceDescriptor)
		if !known {
			continue
		}
		for i := range service.Methods().Len() {
			_ = protovalidate.Validate(NewMessage(service.Methods().Get(i).Input())) // compiles the rules
		}
	}
}
