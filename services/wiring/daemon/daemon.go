// Package daemon runs one service on PostgreSQL as a program. Main works as follows:
//  1. It parses the flags, opens the database (and its standby) and waits until it answers.
//  2. It checks that the schema has the tracks that the service needs.
//  3. It builds the service, and starts its background work and the server.
//  4. Health follows the database until the context ends; then the server drains and the work ends.
package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/program"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/embed/querypath"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/backend"
)

// gatewayName is the name in the gateway's certificate: with TLS, services accept only calls from it.
const gatewayName = "fuser"

type flags struct {
	program.Flags
	kong.Plugins        // flags of the service
	Postgres     string `help:"PostgreSQL connection URL." required:"" env:"TRISKELE_POSTGRES" placeholder:"URL" group:"Database:"`
	PostgresRead string `name:"postgres-read" help:"Connection URL of a hot standby on which searches run; writes still go to --postgres." env:"TRISKELE_POSTGRES_READ" placeholder:"URL" group:"Database:"`
}

// Service is the service that a program runs.
type Service struct {
	Register func(server *rpc.Server)
	Work     map[string]func(ctx context.Context) // background work until ctx ends, by a name for the log
	// Images are what a leg searches in memory, kept up to date here; nil for a service that needs the database for all it does.
	Images *replica.Set
}

// Program is what a service is built on: an open database with a checked schema.
type Program struct {
	*backend.Backend
	Peers auth.TLS // for calls to other services
	Tel   *telemetry.Service
	Log   *slog.Logger
}

// Leg is the service of a leg that searches images. A leg that is a queue.Indexer gets a worker for its index, which has its name.
func (p Program) Leg(index leg.Searcher, images *replica.Set) Service {
	s := Service{
		Register: func(server *rpc.Server) {
			triskelev1.RegisterLegServiceServer(server, leg.NewServer(index, p.Tel, p.Log))
		},
		Work: map[string]func(context.Context){}, Images: images,
	}
	if indexer, is := index.(queue.Indexer); is {
		s.Work["index "+p.Tel.Name] = p.Worker(p.Tel.Name, indexer, p.Log).Run
	}
	return s
}

// Embedder opens the embedder of a leg.
func (p Program) Embedder(flags open.Flags) (embed.Embedder, error) {
	first, fallback, err := flags.Open(os.Getenv)
	if err != nil {
		return nil, err
	}
	return querypath.New(first, fallback, querypath.DefaultCacheBytes, p.Tel.MeterProvider.Meter(telemetry.ScopeName))
}

// Build makes the service.
type Build func(ctx context.Context, p Program) (Service, error)

// Main runs a service as program.Main does. Its schema track has its name. listen is the default address. own are pointers to structs
// of the service's own flags.
func Main(name, description, listen string, build Build, own ...any) {
	f := flags{Plugins: own}
	program.Main(name, description, &f, &f.Flags, kong.Vars{"listen": listen, "tls_clients": gatewayName},
		func(ctx context.Context, tel *telemetry.Service, operators *admin.Server, log *slog.Logger) error {
			return run(ctx, f, build, operators, Program{Peers: f.Listener.TLS, Tel: tel, Log: log})
		})
}

func run(ctx context.Context, f flags, build Build, operators *admin.Server, p Program) (err error) {
	if p.Backend, err = backend.OpenOnStandby(ctx, f.Postgres, f.PostgresRead, p.Tel); err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	if err := p.WaitReady(ctx, p.Log); err != nil {
		return nil // stopped while waiting
	}
	if err := p.Check(ctx, schema.Needs(p.Tel.Name)...); err != nil {
		return err
	}
	service, err := build(ctx, p)
	if err != nil {
		return err
	}
	server, listener, err := f.Listener.Open(auth.Access{}, p.Tel, p.Log)
	if err != nil {
		return err
	}
	service.Register(server)
	server.CompileRules()
	var working sync.WaitGroup
	defer working.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop() // the work ends also when serving fails
	for name, work := range service.Work {
		working.Go(func() { panics.Keep(ctx, p.Log, name, work) })
	}
	working.Go(func() { panics.Keep(ctx, p.Log, "follow the standby", p.Standby().Follow) })
	concern := p.Concern
	if service.Images != nil {
		working.Go(func() { panics.Keep(ctx, p.Log, "follow the database", service.Images.Follow) })
		concern = func() string { return cmp.Or(p.Concern(), service.Images.Concern()) }
	}
	if service.Images == nil || service.Images.Fresh() {
		server.Watch(ctx, 2*time.Second, p.Ping)
	} else { // it answers from memory while the database does not
		server.Ready()
	}
	server.Concern(concern)
	operators.Health(server.Serving, server.Concerns)
	p.Log.Info("serving", "address", listener.Addr().String(), "version", telemetry.Version())
	if err := server.Run(ctx, listener); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
