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

// Leg is the service of a leg that searches images. A leg that is a queue.Indexer gets a worker for its index, which has its name.
func Leg(b *backend.Backend, index leg.Searcher, images *replica.Set, tel *telemetry.Service, log *slog.Logger) Service {
	s := Service{
		Register: func(server *rpc.Server) { triskelev1.RegisterLegServiceServer(server, leg.NewServer(index, tel, log)) },
		Work:     map[string]func(context.Context){}, Images: images,
	}
	if indexer, is := index.(queue.Indexer); is {
		s.Work["index "+tel.Name] = b.Worker(tel.Name, indexer, log).Run
	}
	return s
}

// Embedder opens the embedder of a leg.
func Embedder(flags open.Flags, tel *telemetry.Service) (embed.Embedder, error) {
	first, fallback, err := flags.Open(os.Getenv)
	if err != nil {
		return nil, err
	}
	return querypath.New(first, fallback, querypath.DefaultCacheBytes, tel.MeterProvider.Meter(telemetry.ScopeName))
}

// Build makes the service on an open database with a checked schema. peers is for calls to other services.
type Build func(ctx context.Context, b *backend.Backend, peers auth.TLS, tel *telemetry.Service, log *slog.Logger) (Service, error)

// Main runs a service as program.Main does. listen is the default address, track the service's own schema track. own
// are pointers to structs of the service's own flags.
func Main(name, description, listen, track string, build Build, own ...any) {
	f := flags{Plugins: own}
	program.Main(name, description, &f, &f.Flags, kong.Vars{"listen": listen, "tls_clients": gatewayName},
		func(ctx context.Context, tel *telemetry.Service, operators *admin.Server, log *slog.Logger) error {
			return run(ctx, track, f, build, tel, operators, log)
		})
}

func run(ctx context.Context, track string, f flags, build Build, tel *telemetry.Service, operators *admin.Server, log *slog.Logger) error {
	b, err := backend.OpenOnStandby(ctx, f.Postgres, f.PostgresRead, tel)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	if err := b.WaitReady(ctx, log); err != nil {
		return nil // stopped while waiting
	}
	if err := b.Check(ctx, schema.Needs(track)...); err != nil {
		return err
	}
	service, err := build(ctx, b, f.Listener.TLS, tel, log)
	if err != nil {
		return err
	}
	server, listener, err := f.Listener.Open(auth.Access{}, tel, log)
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
		working.Go(func() { panics.Keep(ctx, log, name, work) })
	}
	working.Go(func() { panics.Keep(ctx, log, "follow the standby", b.Standby().Follow) })
	concern := b.Concern
	if service.Images != nil {
		working.Go(func() { panics.Keep(ctx, log, "follow the database", service.Images.Follow) })
		concern = func() string { return cmp.Or(b.Concern(), service.Images.Concern()) }
	}
	if service.Images == nil || service.Images.Fresh() {
		server.Watch(ctx, 2*time.Second, b.Ping)
	} else { // it answers from memory while the database does not
		server.Ready()
	}
	server.Concern(concern)
	operators.Health(server.Serving, server.Concerns)
	log.Info("serving", "address", listener.Addr().String(), "version", telemetry.Version())
	if err := server.Run(ctx, listener); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
