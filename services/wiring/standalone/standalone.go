// Package standalone runs all five services in one process. They are the same servers, interceptors, deadlines and
// error mapping as in a deployment, joined within the process. Start works as follows:
//  1. It opens the database and migrates it, or only checks the schema with AskOnly.
//  2. It starts the index workers and the other background work.
//  3. It starts a server per leg and one for memories, for calls within the process.
//  4. It connects the gateway to them and serves it within the process (Conn). Register and Serve add a network listener.
//
// Close ends everything and closes the database last.
package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/querypath"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/llm/extractor"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/backend"
)

// Config configures a System.
type Config struct {
	Postgres string // connection URL; empty means SQLite
	SQLite   string // path of the file
	Embedder embed.Embedder
	Fallback embed.Embedder // of the same model, for queries when Embedder fails; may be nil
	Lexical  lexical.Config
	Search   replica.Config // of what is searched in memory; the zero value is the default
	Gateway  gateway.Config // the legs are in this process; nil Legs means the default ones
	Graph    graph.Config
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
	Backend *backend.Backend
	Conn    *rpc.Local // to the gateway, in memory
	// Legs are clients of the legs by name, for measurements without the gateway.
	Legs     map[string]triskelev1.LegServiceClient
	images   *replica.Set
	config   Config
	process  *telemetry.Process
	log      *slog.Logger
	gateway  *gateway.Gateway
	memories *rpc.Local
	legs     map[string]*rpc.Server
	servers  []*rpc.Server   // each before those that call it
	run      context.Context // of the listeners and the background work
	stop     context.CancelFunc
	loading  context.Context // of namespaces into memory
	unload   context.CancelFunc
	running  sync.WaitGroup
}

// Start opens the database, applies its migrations and starts every service.
func Start(ctx context.Context, config Config, process *telemetry.Process, log *slog.Logger) (_ *System, err error) {
	if config.Gateway.Legs == nil {
		config.Gateway.Legs = gateway.DefaultLegs(nil)
	}
	if config.Search == (replica.Config{}) {
		config.Search = replica.DefaultConfig()
	}
	config.Search.Brief = config.AskOnly
	s := &System{Legs: map[string]triskelev1.LegServiceClient{}, legs: map[string]*rpc.Server{}, config: config, process: process, log: log}
	s.run, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.loading, s.unload = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openDatabase(ctx); err != nil {
		return nil, err
	}
	searchers, err := s.startIndexes(ctx)
	if err != nil {
		return nil, err
	}
	s.startMemory()
	if err := s.startGateway(s.startLegs(searchers)); err != nil {
		return nil, err
	}
	curate, err := backend.Curation(ctx, s.Backend, config.Curator, s.Conn, process.Service("curator"), log)
	if err != nil {
		return nil, err
	}
	s.background("curate", curate)
	return s, nil
}

// background runs work until the system is closed; with AskOnly it does nothing.
func (s *System) background(name string, work func(context.Context)) {
	if !s.config.AskOnly {
		s.running.Go(func() { panics.Keep(s.run, s.log, name, work) })
	}
}

// openDatabase opens the database and migrates it, or only checks its schema with AskOnly.
func (s *System) openDatabase(ctx context.Context) (err error) {
	if s.Backend, err = backend.Open(ctx, s.config.Postgres, s.config.SQLite, s.process.Service("store")); err != nil {
		return err
	}
	if s.config.AskOnly {
		return s.Backend.Check(ctx)
	}
	_, err = s.Backend.Migrate(ctx, func(step schema.Step) {
		if step.State == schema.Waiting {
			s.log.WarnContext(ctx, "a migration waits for locks of other transactions", "track", step.Track, "step", step.Name)
		}
	})
	return err
}

// startIndexes opens the legs' indexes and starts the work that keeps them up to date. It returns them by leg.
func (s *System) startIndexes(ctx context.Context) (map[string]leg.Searcher, error) {
	meter := s.process.Service("dense").MeterProvider.Meter(telemetry.ScopeName)
	embedder, err := querypath.New(s.config.Embedder, s.config.Fallback, querypath.DefaultCacheBytes, meter)
	if err != nil {
		return nil, err
	}
	s.images = s.Backend.Images(s.loading, s.config.Search, s.log)
	s.background("follow the database", s.images.Follow)
	dense, err := s.Backend.Dense(ctx, s.images, embedder)
	if err != nil {
		return nil, err
	}
	s.config.Graph.Embedder = embedder
	linked := s.Backend.Graph(s.images, s.config.Graph)
	s.background("refresh the graph", func(ctx context.Context) { linked.Refresh(ctx, s.log) })
	extract, err := backend.Extraction(ctx, s.Backend, linked, s.config.Extractor, s.process.Service("graph"), s.log)
	if err != nil {
		return nil, err
	}
	s.background("extract", extract)
	for name, indexer := range map[string]queue.Indexer{"dense": dense, "graph": linked} {
		s.background("index "+name, s.Backend.Worker(name, indexer, s.log).Run)
	}
	return map[string]leg.Searcher{"lexical": s.Backend.Lexical(s.images, s.config.Lexical), "dense": dense, "graph": linked}, nil
}

// startLegs starts a server for each of the gateway's legs and returns their clients in the same order.
func (s *System) startLegs(searchers map[string]leg.Searcher) []triskelev1.LegServiceClient {
	clients := make([]triskelev1.LegServiceClient, len(s.config.Gateway.Legs))
	for i, l := range s.config.Gateway.Legs {
		tel := s.process.Service(l.Name)
		server := rpc.NewServer(tel, s.log)
		server.Trust() // the gateway has validated what it asks
		var service triskelev1.LegServiceServer = leg.NewServer(searchers[l.Name], tel, s.log)
		if s.config.Delay != nil {
			service = delayed{service, l.Name, s.config.Delay}
		}
		triskelev1.RegisterLegServiceServer(server, service)
		clients[i] = triskelev1.NewLegServiceClient(s.serve(server, s.process.Service("fuser")))
		s.legs[l.Name], s.Legs[l.Name] = server, clients[i]
	}
	return clients
}

func (s *System) startMemory() {
	server, store := rpc.NewServer(s.process.Service("memory"), s.log), s.Backend.Memory()
	server.Trust()
	triskelev1.RegisterMemoryServiceServer(server, memory.NewServer(store))
	s.background("sweep", func(ctx context.Context) { s.config.Sweep.Run(ctx, store, s.log) })
	s.memories = s.serve(server, s.process.Service("fuser"))
}

func (s *System) startGateway(legs []triskelev1.LegServiceClient) (err error) {
	tel := s.process.Service("fuser")
	if s.gateway, err = gateway.New(s.config.Gateway, legs, triskelev1.NewMemoryServiceClient(s.memories), tel, s.log); err != nil {
		return settings.Wrong(err)
	}
	inside := rpc.NewServer(tel, s.log)
	s.Register(inside)
	if !s.config.AskOnly {
		inside.CompileRules() // the other servers trust it
	}
	s.Conn = rpc.NewLocal(inside, s.process.Service("client"))
	return nil
}

// Register adds the gateway to a server of the caller, which authenticates callers, and makes it ready. Close drains it.
func (s *System) Register(server *rpc.Server) {
	triskelev1.RegisterRecallServiceServer(server, s.gateway)
	gateway.Forward(server, s.memories, triskelev1.File_triskele_v1_memory_proto)
	s.ready(server)
}

func (s *System) ready(server *rpc.Server) {
	server.Ready()
	s.servers = append(s.servers, server)
}

// serve serves calls of this process until the system is closed, and returns a connection for them.
func (s *System) serve(server *rpc.Server, tel *telemetry.Service) *rpc.Local {
	s.ready(server)
	return rpc.NewLocal(server, tel)
}

// delayed delays searches, and ends those that their callers cancel.
type delayed struct {
	triskelev1.LegServiceServer
	name string
	by   func(leg string) time.Duration
}

func (d delayed) Search(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
	if wait := d.by(d.name); wait > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
	return d.LegServiceServer.Search(ctx, req)
}

// Serve runs a server that Register was called for, until the system is closed.
func (s *System) Serve(server *rpc.Server, listener net.Listener) error {
	return server.Run(s.run, listener)
}

// Concern says what is wrong with the database, "" if nothing is. Recalls go on meanwhile.
func (s *System) Concern() string { return cmp.Or(s.Backend.Concern(), s.images.Concern()) }

// Kill stops a leg at once, like a crash.
func (s *System) Kill(leg string) error {
	server, ok := s.legs[leg]
	if !ok {
		return fmt.Errorf("no leg is called %q", leg)
	}
	server.Stop()
	return nil
}

// Close lets running calls finish, stops all services and closes the database.
func (s *System) Close() error {
	s.stop()
	for _, server := range slices.Backward(s.servers) { // a call needs those that its server calls
		server.Drain()
	}
	s.unload()
	if s.gateway != nil {
		s.gateway.Close()
	}
	s.running.Wait()
	if s.Backend == nil {
		return nil
	}
	return s.Backend.Close() // services use it until they end
}
