package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/rerank"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// flushTime bounds the last export of telemetry.
const flushTime = 2 * time.Second

type gatewayFlags struct {
	Address string        `help:"Address of the gateway, 127.0.0.1:7400 if not given." default:"127.0.0.1:7400" env:"TRISKELE_ADDRESS" placeholder:"HOST:PORT" group:"Gateway:"`
	Timeout time.Duration `help:"Timeout of a call." default:"30s" group:"Gateway:"`
	Bearer  auth.Bearer   `embed:"" group:"Gateway:"`
	TLS     auth.TLS      `embed:"" group:"Gateway:"`
}

// namespaceFlag is for commands that work on one namespace.
type namespaceFlag struct {
	Namespace string `short:"n" help:"Namespace." default:"default" env:"TRISKELE_NAMESPACE"`
}

// checkNamespace refuses what no call accepts. An agent could not correct it.
func checkNamespace(name string) error {
	if protovalidate.Validate(&triskelev1.GetNamespaceRequest{Namespace: name}) != nil {
		return fmt.Errorf("%q is no namespace: it must have lower-case letters, digits, '.', '_' and '-', in parts divided by '/', and at most 128 bytes", name)
	}
	return nil
}

type session struct {
	*client.Client
	recorder *telemetry.Recorder
}

// with connects, runs a command's calls and closes the connection. Each call has the timeout, and a stream has none. The errors for
// an unreachable gateway say what to do.
func (g gatewayFlags) with(ctx context.Context, calls func(*session) error) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	if refused(ctx, g.Address) {
		return g.absent(nil)
	}
	tel := process.Service("triskele")
	c, err := dial(g.Address, g.Bearer, g.TLS, tel, client.WithTimeout(g.Timeout))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	began := time.Now()
	err = calls(&session{c, tel.Recorder})
	switch code := status.Code(err); {
	case code == codes.Unavailable && c.Conn().GetState() != connectivity.Ready:
		return g.absent(err)
	case code == codes.DeadlineExceeded && ctx.Err() == nil && time.Since(began) >= g.Timeout*9/10: // a service may be the first to see it; before, it says which time is over
		return fmt.Errorf("no answer within %v; --timeout allows more", g.Timeout)
	case code == codes.Unauthenticated:
		return fmt.Errorf("%w; --token-file or TRISKELE_TOKEN gives one, `triskele token create` makes one", err)
	}
	return err
}

// absent says why a call had no connection, and what to do. The error is the call's, nil if nothing listens.
func (g gatewayFlags) absent(err error) error {
	said := status.Convert(err).Message()
	_, quoted, _ := strings.Cut(said, "connection error: desc = ") // as grpc-go reports what a connection ended with
	quoted, _ = strconv.QuotedPrefix(quoted)
	reason, _ := strconv.Unquote(quoted)
	_, handshake, tried := strings.Cut(reason, "authentication handshake failed: ")
	ended := strings.HasPrefix(reason, "error reading server preface: ") || strings.Contains(said, "write tcp ")
	switch {
	case tried && strings.HasSuffix(handshake, "does not look like a TLS handshake"):
		return fmt.Errorf("what answers at %s has no TLS: leave out --tls-ca, which turns it on", g.Address)
	case tried:
		return fmt.Errorf("no TLS connection to %s: %s; --address must be in the gateway's certificate, and --tls-ca name its authority", g.Address, handshake)
	case ended && g.TLS.CA == "":
		return fmt.Errorf("what answers at %s is no gateway without TLS: if it serves TLS, name its authority with --tls-ca", g.Address)
	case ended: // a server of TLS 1.3 looks at the client's certificate after the client's handshake
		return fmt.Errorf("what answers at %s ends the connection: if it wants certificates of its callers, give one that it accepts with --tls-cert and --tls-key", g.Address)
	}
	return fmt.Errorf("no gateway answers at %s: start one with `triskele up`, or give its address with --address", g.Address)
}

// refuseTime bounds the question whether anything listens.
const refuseTime = 200 * time.Millisecond

// refused reports whether it is certain that nothing listens at host:port. A call would be tried again for longer than a person at a
// terminal wants to wait.
func refused(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: refuseTime}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// checkAddress refuses a URL as the address of a gateway. Callers over HTTP have one for the same port.
func checkAddress(address string) error {
	if scheme, _, found := strings.Cut(address, "://"); found && strings.HasPrefix(strings.ToLower(scheme), "http") {
		return fmt.Errorf("--address must be HOST:PORT, without %s://", scheme)
	}
	return nil
}

func dial(address string, bearer auth.Bearer, tls auth.TLS, tel *telemetry.Service, more ...client.Option) (*client.Client, error) {
	if err := checkAddress(address); err != nil {
		return nil, settings.Wrong(err)
	}
	options, err := bearer.Dial(tls, address)
	if err != nil {
		return nil, err
	}
	return client.Dial(address, append(more, client.WithDialOptions(append(options, rpc.Traced(tel))...))...)
}

// flush exports the remaining telemetry. A missing collector must not fail a command.
func flush(ctx context.Context, process *telemetry.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	_ = process.Shutdown(ctx)
}

// storeFlags select a gateway or, without one, a database.
type storeFlags struct {
	Address string      `help:"Address of a gateway to ask. Without it the command opens the database itself, which may be in use by other programs." env:"TRISKELE_ADDRESS" placeholder:"HOST:PORT" group:"Gateway, instead of the database:"`
	Bearer  auth.Bearer `embed:"" group:"Gateway, instead of the database:"`
	TLS     auth.TLS    `embed:"" group:"Gateway, instead of the database:"`
	databaseFlags
	Embedder open.Flags `embed:"" group:"Embedder:"`
}

// open connects to the named gateway, or starts a system in this process. With askOnly it changes nothing in
// the database, not even its schema.
func (f storeFlags) open(ctx context.Context, env *Env, process *telemetry.Process, askOnly bool, log *slog.Logger) (_ grpc.ClientConnInterface, stop func() error, err error) {
	if f.Address != "" {
		var more []client.Option
		if askOnly {
			more = append(more, client.WithDialOptions(grpc.WithDisableRetry())) // no time for retries
		}
		c, err := dial(f.Address, f.Bearer, f.TLS, process.Service("triskele"), more...)
		if err != nil {
			return nil, nil, err
		}
		return c.Conn(), c.Close, nil
	}
	t, err := f.target(env)
	if err != nil {
		return nil, nil, err
	}
	embedder, fallback, err := f.Embedder.Open(env.Getenv)
	if err != nil {
		return nil, nil, err
	}
	if askOnly {
		err = t.exists()
	} else {
		err = t.create(ctx, env)
	}
	if err != nil {
		return nil, nil, err
	}
	config := gateway.DefaultConfig()
	config.Rerank = rerank.Default()
	system, err := standalone.Start(ctx, standalone.Config{
		Postgres: t.url, SQLite: t.path, Embedder: embedder, Fallback: fallback, Gateway: config, AskOnly: askOnly,
		Sweep: memory.Sweep{After: 24 * time.Hour, Every: time.Hour},
	}, process, log)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", t, err)
	}
	return system.Conn, system.Close, nil
}
