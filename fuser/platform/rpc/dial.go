package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// Dial prepares a connection to target, in gRPC's name syntax, and does not wait for it. Calls fail while the peer is
// down, and succeed again about a second after it is back.
func Dial(target string, tel *telemetry.Service, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(), // a name server must not change it
		grpc.WithResolvers(refreshing{resolver.Get("dns")}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithChainUnaryInterceptor(bare),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
		Traced(tel),
	}, more...)
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	return conn, nil
}

// Traced records the calls of a connection as spans and metrics.
func Traced(tel *telemetry.Service) grpc.DialOption { return grpc.WithStatsHandler(clientStats(tel)) }

func clientStats(tel *telemetry.Service) stats.Handler {
	return otelgrpc.NewClientHandler(
		otelgrpc.WithTracerProvider(tel.TracerProvider),
		otelgrpc.WithMeterProvider(tel.MeterProvider),
		otelgrpc.WithPropagators(tel.Propagator),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	)
}

func bare(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return Bare(invoke(ctx, method, req, reply, conn, options...))
}

// Bare returns a call's error as a bare status. gRPC wraps the error of a last retry. If the server refused the call before its message, gRPC
// keeps no status and returns io.EOF. The code can then only be the one that is retried.
func Bare(err error) error {
	var wrapped interface{ GRPCStatus() *status.Status }
	switch {
	case errors.As(err, &wrapped):
		return wrapped.GRPCStatus().Err()
	case errors.Is(err, io.EOF):
		return status.Error(codes.Unavailable, "the server refused the call twice")
	}
	return err
}
