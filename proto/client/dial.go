package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // registers the client's side of health checking
	"google.golang.org/grpc/keepalive"
)

const (
	// DefaultTimeout bounds a call whose context has no deadline. Streams are not bounded.
	DefaultTimeout = 10 * time.Second
	// maxMessage is the size in bytes of the largest message that a gateway sends.
	maxMessage = 96 << 20
	// connectPause is the longest pause between two tries to connect, and connectTime the least time of a try.
	connectPause, connectTime = 5 * time.Second, 20 * time.Second
)

// serviceConfig spreads calls over those replicas behind a name whose health is SERVING. gRPC retries reads with backoff if a
// replica cannot be reached. It does not retry writes: the caller can, with an idempotency key.
const serviceConfig = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"healthCheckConfig": {"serviceName": ""},
	"methodConfig": [{
		"name": [
			{"service": "triskele.v1.RecallService"},
			{"service": "triskele.v1.MemoryService", "method": "Get"},
			{"service": "triskele.v1.MemoryService", "method": "List"},
			{"service": "triskele.v1.MemoryService", "method": "GetNamespace"},
			{"service": "triskele.v1.MemoryService", "method": "ListNamespaces"},
			{"service": "triskele.v1.MemoryService", "method": "ListDecisions"}
		],
		"retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.05s", "maxBackoff": "0.5s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]
}`

// Option changes how Dial connects.
type Option func(*settings)

type settings struct {
	tls     *tls.Config
	token   string
	timeout time.Duration
	more    []grpc.DialOption
}

// WithTLS encrypts the connection. An empty configuration trusts the system's certificate authorities.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithToken sends a token with each call. It needs TLS unless the gateway is on this machine.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithTimeout bounds calls whose context has no deadline, instead of DefaultTimeout.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithDialOptions adds options of gRPC, for instance for tracing. They override the options that Dial sets.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.more = append(s.more, options...) }
}

// Dial prepares a connection to a gateway. The target is in gRPC's name syntax: host:port, or dns:///host:port for all
// addresses of a name. Dial does not wait for the gateway: while it is down, calls fail with UNAVAILABLE, and succeed again a few
// seconds after it is back. Close the client when done.
func Dial(target string, options ...Option) (*Client, error) {
	s := settings{timeout: DefaultTimeout}
	for _, option := range options {
		option(&s)
	}
	transport := insecure.NewCredentials()
	if s.tls != nil {
		transport = credentials.NewTLS(s.tls)
	}
	pauses := backoff.DefaultConfig
	pauses.MaxDelay = connectPause
	dial := []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: connectTime}),
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(), // a name server must not change it
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithChainUnaryInterceptor(deadline(s.timeout)),
	}
	if s.token != "" {
		option, err := SendToken(s.token, target, s.tls != nil)
		if err != nil {
			return nil, err
		}
		dial = append(dial, option)
	}
	conn, err := grpc.NewClient(target, append(dial, s.more...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	c := New(conn)
	c.conn = conn
	return c, nil
}

// deadline returns an interceptor that bounds calls whose context has no deadline.
func deadline(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if _, ok := ctx.Deadline(); !ok {
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx = limited
		}
		return invoke(ctx, method, req, reply, cc, options...)
	}
}

// SendToken returns an option that sends a token with each call, for programs that dial without this package. It returns an
// error if calls are not encrypted and the target may be on another machine.
func SendToken(secret, target string, encrypted bool) (grpc.DialOption, error) {
	if !encrypted && !loopback(target) {
		return nil, errors.New("a token is sent to another machine only with TLS")
	}
	return grpc.WithPerRPCCredentials(token(strings.TrimSpace(secret))), nil
}

// loopback reports whether a target is certain to be on this machine.
func loopback(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	_, name, found := strings.Cut(target, ":///")
	if !found { // no scheme, or a scheme with an authority
		name = target
	}
	host, _, err := net.SplitHostPort(name)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// token is the credential that each call carries.
type token string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. SendToken has checked the transport.
func (token) RequireTransportSecurity() bool { return false }
