package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/standalone"
)

// storeFlags say where the memories are for a command that can do without a gateway.
type storeFlags struct {
	Address  string        `help:"Address of a gateway to ask; without it the command opens the database itself, which may be in use by others." env:"TRISKELE_ADDRESS" placeholder:"HOST:PORT"`
	Database databaseFlags `embed:""`
	Embedder open.Flags    `embed:""`
}

// check is for the Validate method of commands.
func (f storeFlags) check() error {
	if f.Address != "" && f.Database.given() {
		return errors.New("both a gateway and a database are given: leave out --address or the database")
	}
	return f.Database.check()
}

// open returns a connection to the gateway, one of this process's own if none is named. A process that only asks changes
// nothing in the database, not even its schema.
func (f storeFlags) open(ctx context.Context, env *Env, process *telemetry.Process, askOnly bool, log *slog.Logger) (_ *grpc.ClientConn, stop func() error, err error) {
	if f.Address != "" {
		conn, err := rpc.Dial(f.Address, process.Service("triskele"))
		if err != nil {
			return nil, nil, err
		}
		return conn, conn.Close, nil
	}
	t, err := f.Database.target(env)
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
