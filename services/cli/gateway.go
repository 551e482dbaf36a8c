package cli

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/fuser/trust"
	"github.com/triskele/triskele/services/cli/client"
)

// flushTime is what the telemetry gets to be sent in when a command ends.
const flushTime = 2 * time.Second

// gatewayFlags say which gateway a command calls.
type gatewayFlags struct {
	Address string        `help:"Address of the gateway, 127.0.0.1:7400 if not given." default:"127.0.0.1:7400" env:"TRISKELE_ADDRESS" placeholder:"HOST:PORT"`
	Timeout time.Duration `help:"Give up on a call after this long." default:"30s"`
	Bearer  trust.Bearer  `embed:""`
	TLS     trust.TLS     `embed:""`
}

// namespaceFlag is for commands that work on one namespace.
type namespaceFlag struct {
	Namespace string `short:"n" help:"Namespace." default:"default" env:"TRISKELE_NAMESPACE"`
}

// session is a connection to a gateway for the length of one command.
type session struct {
	*client.Client
	conn     *grpc.ClientConn
	recorder *telemetry.Recorder
}

// with connects, runs a command's calls and closes the connection. A gateway that cannot be reached becomes an error that
// says what to do.
func (g gatewayFlags) with(ctx context.Context, calls func(*session) error) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	tel := process.Service("triskele")
	options, err := g.Bearer.Dial(g.TLS, g.Address)
	if err != nil {
		return err
	}
	conn, err := rpc.Dial(g.Address, tel, options...)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	err = calls(&session{client.New(conn), conn, tel.Recorder})
	if status.Code(err) == codes.Unavailable && conn.GetState() != connectivity.Ready {
		return fmt.Errorf("no gateway answers at %s: start one with `triskele up`, or say where it is with --address", g.Address)
	}
	return err
}

// flush sends in what telemetry is left. A collector that is away must not fail a command.
func flush(ctx context.Context, process *telemetry.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	_ = process.Shutdown(ctx)
}

// call is with for a single call under the timeout.
func (g gatewayFlags) call(ctx context.Context, one func(context.Context, *session) error) error {
	return g.with(ctx, func(s *session) error {
		limited, cancel := context.WithTimeout(ctx, g.Timeout)
		defer cancel()
		err := one(limited, s)
		if limited.Err() != nil && ctx.Err() == nil && status.Code(err) == codes.DeadlineExceeded {
			return fmt.Errorf("no answer within %v; --timeout allows more", g.Timeout)
		}
		return err
	})
}
