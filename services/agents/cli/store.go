package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/proto/client"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/wiring/standalone"
)

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
		err = t.create()
	}
	if err != nil {
		return nil, nil, err
	}
	system, err := standalone.Start(ctx, standalone.Config{
		Postgres: t.url, SQLite: t.path, Embedder: embedder, Fallback: fallback, Gateway: gateway.DefaultConfig(), AskOnly: askOnly,
		Sweep: memory.Sweep{After: 24 * time.Hour, Every: time.Hour},
	}, process, log)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", t, err)
	}
	return system.Conn, system.Close, nil
}
