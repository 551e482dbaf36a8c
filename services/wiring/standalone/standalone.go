// Package standalone runs all five services in one process. They are the same servers, interceptors, deadlines and
// error mapping as in a deployment, joined by in-memory connections. Start works as follows:
//  1. It opens the database and migrates it, or only checks the schema with AskOnly.
//  2. It starts the index workers and the other background work.
//  3. It starts a server per leg and one for memories, each on an in-memory listener.
//  4. It connects the gateway to them and serves it in memory (Conn). Serve adds a network listener.
//
// Close ends everything and closes the database last.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/querypath"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/llm/extractor"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/backend"
)

// pipeBytes is the buffer of an in-memory connection.
const pipeBytes = 1 << 20

// Config configures a System.
type Config struct {
	Postgres string // connection URL; empty means SQLite
	SQLite   string // path of the file
	Embedder embed.Embedder
	Fallback embed.Embedder // of the same model, for queries when Embedder fails; may be nil
	Lexical  lexical.Config
	Dense    dense.Config
	Gateway  gateway.Config // the legs are in this process; nil Legs means the default ones
	Graph    graph.Config   // the zero value is the default
	Curator  curator.Config // without a URL curation is not run
	// Extractor extracts facts from memories; without a URL it is not run.
	Extractor extractor.Config
	Sweep     memory.Sweep // of expired memories; the zero value never sweeps
	// AskOnly is for short-lived callers: the database is not migrated, and there is no background work.
	AskOnly bool
	// Delay, if not nil, returns a delay for each search of a leg: a fault to test with.
	Delay func(leg string) time.Duration
}

// System is a running set of services.
type System struct {
	Backend backend.Backend
	Conn    *grpc.ClientConn // to the gateway, in memory
	// Legs are clients of the legs by name, for measurements without the gateway.
	Legs    map[string]triskelev1.LegServiceClient
	gateway *rpc.Server // the one in memory
	outside func(*rpc.Server, net.Listener) error
	legs    map[string]*rpc.Server
	stop    context.CancelFunc
	running sync.WaitGroup
	closers []func() error
}

// Start opens the database, applies its migrations and starts every service.
func Start(ctx context.Context, config Config, process *telemetry.Process, log *slog.Logger) (_ *System, err error) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &System{Legs: map[string]triskelev1.LegServiceClient{}, legs: map[string]*rpc.Server{}, stop: stop}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.Backend, err = backend.Open(ctx, config.Postgres, config.SQLite, process.Service("store"))
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.Backend.Close)
	background := func(name string, work func(context.Context)) {
		if !config.AskOnly {
			s.running.Go(func() { panics.Keep(run, log, name, work) })
		}
	}
	if config.AskOnly {
		err = s.Backend.Check(ctx)
	} else {
		_, err = s.Backend.Migrate(ctx, func(step schema.Step) {
			if step.State == schema.Waiting {
				log.WarnContext(ctx, "a migration waits for locks of other transactions", "track", step.Track, "step", step.Name)
			}
		})
	}
	if err != nil {
		return nil, err
	}
	denseTel := process.Service("dense")
	embedder, err := querypath.New(config.Embedder, config.Fallback, querypath.DefaultCacheBytes, denseTel.MeterProvider.Meter(telemetry.ScopeName))
	if err != nil {
		return nil, err
	}
	dense, err := s.Backend.Dense(ctx, embedder, config.Dense)
	if err != nil {
		return nil, err
	}
	if config.Graph == (graph.Config{}) {
		config.Graph = graph.DefaultConfig()
	}
	config.Graph.Embedder = embedder
	linked := s.Backend.Graph(config.Graph)
	background("refresh the graph", func(ctx context.Context) { linked.Refresh(ctx, log) })
	extract, err := backend.Extraction(ctx, s.Backend, linked, config.Extractor, process.Service("graph"), log)
	if err != nil {
		return nil, err
	}
	background("extract", extract)
	for name, indexer := range map[string]queue.Indexer{"dense": dense, "graph": linked} {
		background("index "+name, s.Backend.Worker(name, indexer, log).Run)
	}

	background("fold the lexical index", func(ctx context.Context) { s.Backend.FoldLexical(ctx, log) })

	gatewayTel := process.Service("fuser")
	searchers := map[string]leg.Searcher{"lexical": s.Backend.Lexical(config.Lexical), "dense": dense, "graph": linked}
	if config.Gateway.Legs == nil {
		config.Gateway.Legs = gateway.DefaultLegs(nil)
	}
	clients := make([]triskelev1.LegServiceClient, len(config.Gateway.Legs))
	for i, l := range config.Gateway.Legs {
		tel := denseTel
		if l.Name != denseTel.Name {
			tel = process.Service(l.Name)
		}
		server := rpc.NewServer(tel, log, grpc.ChainUnaryInterceptor(delay(l.Name, config.Delay)))
		triskelev1.RegisterLegServiceServer(server, leg.NewServer(searchers[l.Name], tel, log))
		conn, err := s.serve(run, server, l.Name, gatewayTel)
		if err != nil {
			return nil, err
		}
		s.legs[l.Name] = server
		clients[i] = triskelev1.NewLegServiceClient(conn)
		s.Legs[l.Name] = clients[i]
	}

	records := rpc.NewServer(process.Service("memory"), log)
	store := s.Backend.Memory()
	triskelev1.RegisterMemoryServiceServer(records, memory.NewServer(store))
	background("sweep", func(ctx context.Context) { config.Sweep.Run(ctx, store, log) })
	conn, err := s.serve(run, records, "memory", gatewayTel)
	if err != nil {
		return nil, err
	}
	memories := triskelev1.NewMemoryServiceClient(conn)

	g, err := gateway.New(config.Gateway, clients, memories, gatewayTel, log)
	if err != nil {
		return nil, err
	}
	register := func(server *rpc.Server) {
		triskelev1.RegisterRecallServiceServer(server, g)
		triskelev1.RegisterMemoryServiceServer(server, gateway.NewForwarder(memories))
	}
	s.gateway = rpc.NewServer(gatewayTel, log)
	register(s.gateway)
	if s.Conn, err = s.serve(run, s.gateway, "fuser", process.Service("client")); err != nil {
		return nil, err
	}
	s.outside = func(server *rpc.Server, listener net.Listener) error {
		register(server)
		server.Ready()
		return server.Run(run, listener)
	}
	work, err := backend.Curation(ctx, s.Backend, config.Curator, s.Conn, process.Service("curator"), log)
	if err != nil {
		return nil, err
	}
	background("curate", work)
	if !config.AskOnly {
		for _, server := range append(slices.Collect(maps.Values(s.legs)), records, s.gateway) {
			server.CompileRules()
		}
	}
	return s, nil
}

// serve runs a server on an in-memory listener and returns a connection to it.
func (s *System) serve(ctx context.Context, server *rpc.Server, name string, tel *telemetry.Service) (*grpc.ClientConn, error) {
	listener := bufconn.Listen(pipeBytes)
	server.Ready()
	s.running.Go(func() { _ = server.Run(ctx, listener) })
	conn, err := rpc.Dial("passthrough:///"+name, tel, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	}))
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, conn.Close)
	return conn, nil
}

// delay delays searches, and ends those that their callers cancel.
func delay(name string, of func(string) time.Duration) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if of != nil {
			if wait := of(name); wait > 0 {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(wait):
				}
			}
		}
		return handler(ctx, req)
	}
}

// Serve also serves the gateway on the caller's server, which authenticates callers, until the system is closed.
func (s *System) Serve(server *rpc.Server, listener net.Listener) error {
	return s.outside(server, listener)
}

// Kill stops a leg at once, like a crash.
func (s *System) Kill(leg string) error {
	server, ok := s.legs[leg]
	if !ok {
		return fmt.Errorf("no leg is called %q", leg)
	}
	server.Stop()
	return nil
}

// Close stops all services and closes the database.
func (s *System) Close() error {
	s.stop()
	var errs []error
	for i := len(s.closers) - 1; i > 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.running.Wait()
	if len(s.closers) > 0 {
		errs = append(errs, s.closers[0]()) // the database; services use it until they end
	}
	return errors.Join(errs...)
}
