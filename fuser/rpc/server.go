// Package rpc is the gRPC scaffolding that every server and client of the project shares: validation, error mapping,
// panics, health, reflection, telemetry, listeners and dialling. It knows no service and imports no database driver.
package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
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

	"github.com/triskele/triskele/fuser/panics"
	"github.com/triskele/triskele/fuser/telemetry"
)

const (
	// MaxMessageBytes is what a server reads at most. It lies above the declared bounds of every field, so that an
	// oversized field is refused by name; only what is larger still is cut off by the transport.
	MaxMessageBytes = 96 << 20
	// drainTime is how long running calls may take to end at shutdown: longer than the greatest budget of a recall.
	drainTime = 15 * time.Second
)

// Server is a gRPC server with health and reflection. It starts as NOT_SERVING; call Ready, or Watch to tie its health
// to that of what it depends on.
type Server struct {
	*registrar
	operators Gate
	health    *health.Server
	doors     *doors
	log       *slog.Logger
}

// NewServer returns a server that validates requests, hides internal errors, survives panics and is traced.
func NewServer(tel *telemetry.Service, log *slog.Logger, more ...grpc.ServerOption) *Server {
	guard, doors := guard{log: log}, newDoors()
	var s *Server
	known := sync.OnceValue(func() map[string]bool { return methods(s) }) // once it serves, all are registered
	options := append([]grpc.ServerOption{
		grpc.Creds(doors),
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.ForceServerCodecV2(newServerCodec()),
		grpc.StatsHandler(otelgrpc.NewServerHandler(
			otelgrpc.WithTracerProvider(tel.TracerProvider),
			otelgrpc.WithMeterProvider(tel.MeterProvider),
			otelgrpc.WithPropagators(tel.Propagator),
			otelgrpc.WithFilter(filters.All(filters.Not(filters.HealthCheck()), func(info *stats.RPCTagInfo) bool { return known()[info.FullMethodName] })),
		)),
		grpc.ChainUnaryInterceptor(guard.unary),
		grpc.ChainStreamInterceptor(guard.stream),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, more...)
	s = &Server{registrar: &registrar{Server: grpc.NewServer(options...)}, health: health.NewServer(), doors: doors, log: log}
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(s.Server, s.health)
	reflection.Register(s.Server)
	return s
}

// methods returns the full names of those that a server has. Others stay out of telemetry: gRPC answers a call of one without an
// end for its span, which would be held for ever, and the name is whatever a stranger says.
func methods(s *Server) map[string]bool {
	names := map[string]bool{}
	for service, info := range s.GetServiceInfo() {
		for _, method := range info.Methods {
			names["/"+service+"/"+method.Name] = true
		}
	}
	return names
}

// Admit has gate asked about every call from now on; without one, everybody is let in. operators is the gate for what the
// page for operators asks on behalf of those who open it: not over a connection that could show who they are.
func (s *Server) Admit(gate, operators Gate) { s.gate, s.operators = gate, operators }

// Gate is what Admit was given for callers.
func (s *Server) Gate() Gate { return s.gate }

// Operators is the gate for operators that Admit was given.
func (s *Server) Operators() Gate { return s.operators }

// Encrypt has the server speak TLS only, with this configuration, which it takes over. Call it before Run.
func (s *Server) Encrypt(config *tls.Config) {
	config.NextProtos = []string{"h2"}
	s.doors.config = config
}

// HTTP returns a listener of the connections that speak HTTP/1.1, which are refused otherwise, encrypted if the server's are:
// *tls.Conn after the handshake. Who offers both protocols, as browsers do, gets HTTP/1.1. It is closed with the server. Call it
// after Encrypt and before Run.
func (s *Server) HTTP() net.Listener {
	s.doors.http = make(chan net.Conn)
	if s.doors.config != nil {
		s.doors.config.NextProtos = []string{"http/1.1", "h2"}
	}
	return given{s.doors}
}

// Ready turns health to SERVING, for the whole server and each of its services.
func (s *Server) Ready() {
	s.setAll(healthpb.HealthCheckResponse_SERVING)
}

// Serving says whether health is SERVING.
func (s *Server) Serving() bool {
	resp, err := s.health.Check(context.Background(), &healthpb.HealthCheckRequest{})
	return err == nil && resp.GetStatus() == healthpb.HealthCheckResponse_SERVING
}

func (s *Server) setAll(status healthpb.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", status)
	for name := range s.GetServiceInfo() {
		s.health.SetServingStatus(name, status)
	}
}

// Watch keeps health equal to the outcome of check, which it calls once before it returns and then every interval until
// ctx ends.
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
	go func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				update()
			}
		}
	}()
}

// Run serves until ctx ends, then says NOT_SERVING, lets running calls finish and returns.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.health.Shutdown()
		s.doors.close()
		force := time.AfterFunc(drainTime, s.Stop)
		defer force.Stop()
		s.GracefulStop()
	})
	defer s.doors.close()
	if s.doors.http != nil {
		listener = accepting{listener}
	}
	err := s.Serve(listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// ErrNotLoopback refuses an address that other machines can reach.
var ErrNotLoopback = errors.New("is not loopback, so that other machines could reach it")

// Listen opens a TCP listener. An address that other machines can reach is ErrNotLoopback unless remote is set: because calls
// are encrypted and callers known, or because the operator wants it so.
func Listen(address string, remote bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen address: %w", err)
	}
	if !resolved.IP.IsLoopback() && !remote {
		return nil, fmt.Errorf("listen address %s %w", address, ErrNotLoopback)
	}
	return net.Listen("tcp", address)
}

// guard is what every call passes: validation on the way in, error mapping and panic recovery on the way out.
type guard struct{ log *slog.Logger }

func (g guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	err = panics.Catch(ctx, g.log, info.FullMethod, func() (err error) {
		if err = g.validate(req); err == nil {
			resp, err = handler(ctx, req)
		}
		return err
	})
	return resp, g.outcome(ctx, info.FullMethod, err)
}

func (g guard) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := panics.Catch(stream.Context(), g.log, info.FullMethod, func() error {
		return handler(service, &validatedStream{ServerStream: stream, guard: g})
	})
	return g.outcome(stream.Context(), info.FullMethod, err)
}

type validatedStream struct {
	grpc.ServerStream
	guard guard
}

func (s *validatedStream) RecvMsg(message any) error {
	if err := receive(s.ServerStream.RecvMsg, message); err != nil {
		return err
	}
	return s.guard.validate(message)
}

func (g guard) validate(req any) error {
	message, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	return FromViolations("", protovalidate.Validate(message))
}

func (g guard) outcome(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	out, internal := public(ctx, err)
	var panicked *panics.Error // which is in the log already
	if internal && !errors.As(err, &panicked) {
		g.log.ErrorContext(ctx, "call failed", "method", method, "error", err.Error())
	}
	return out
}
