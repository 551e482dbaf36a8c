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

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/telemetry"
)

const (
	// maxAnswer is what a client reads at most: above the largest answer.
	maxAnswer = 96 << 20
	// maxStreams is how many calls a connection may have running, and maxHeader the bytes of a call's metadata. Tokens of an
	// issuer have a few thousand.
	maxStreams = 250
	maxHeader  = 32 << 10
	// streamWindow is what a call may send before it is read, and connWindow what all calls of a connection may have on their way.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// handshakeTime is for TLS and the settings of HTTP/2.
	handshakeTime = 10 * time.Second
	// drainTime is how long running calls may take to end at shutdown: longer than the greatest budget of a recall.
	drainTime = 15 * time.Second
)

// Server is a gRPC server with health and reflection. It starts as NOT_SERVING; call Ready, or Watch to tie its health
// to that of what it depends on.
type Server struct {
	*registrar
	health *health.Server
	doors  *doors
	log    *slog.Logger

	concerns []func() string
}

// NewServer returns a server that bounds and validates requests, hides internal errors, survives panics and is traced.
func NewServer(tel *telemetry.Service, log *slog.Logger, more ...grpc.ServerOption) *Server {
	doors := newDoors()
	var s *Server
	known := sync.OnceValue(func() map[string]bool { return methods(s) }) // once it serves, all are registered
	options := append([]grpc.ServerOption{
		grpc.Creds(doors),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.UnknownServiceHandler(unknown),
		grpc.StatsHandler(otelgrpc.NewServerHandler(
			otelgrpc.WithTracerProvider(tel.TracerProvider),
			otelgrpc.WithMeterProvider(tel.MeterProvider),
			otelgrpc.WithPropagators(tel.Propagator),
			otelgrpc.WithFilter(filters.All(filters.Not(filters.HealthCheck()), func(info *stats.RPCTagInfo) bool { return known()[info.FullMethodName] })),
		)),
		// Whoever is gone, or sleeps, gives up what its calls hold.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, Time: 30 * time.Second, Timeout: 15 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, more...)
	s = &Server{registrar: &registrar{Server: grpc.NewServer(options...), room: newRoom(), log: log}, health: health.NewServer(), doors: doors, log: log}
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(s, s.health)
	reflection.Register(s)
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

// Admit has gate asked about every call from now on; without one, everybody is let in.
func (s *Server) Admit(gate Gate) { s.gate = gate }

// Gate is what Admit was given.
func (s *Server) Gate() Gate { return s.gate }

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

// Concern has Concerns ask reason, which says what is wrong although the server serves, or nothing. Call it before Run.
func (s *Server) Concern(reason func() string) { s.concerns = append(s.concerns, reason) }

// Concerns are what is wrong although the server serves.
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
