package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/querypath"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/tests/lab/measure"
)

const (
	namespace = "bench"
	model     = 1 // the first one that a database gets
	warmUp    = 30
	turn      = 50 // searches that one store is asked in a row
)

// filters are asked in turn: none, and those that a tenth, a hundredth and a thousandth of the memories pass.
var filters = []string{"", tenth, hundredth, thousandth}

// measured is what one size gave.
type measured struct {
	size    int
	server  string
	load    string
	passing map[string]int
	embed   measure.Times
	stores  []*storeMeasured
	bare    []bareMeasured
}

// storeMeasured is what one store gave.
type storeMeasured struct {
	name     string
	filled   time.Duration
	index    time.Duration // of filled
	first    time.Duration // the first search, which on SQLite reads the vectors
	leg      measure.Times
	searches map[string]*searches
	searcher leg.Searcher
	pool     *pgxpool.Pool       // of PostgreSQL
	state    triskelev1.LegState // of a whole answer
	client   triskelev1.LegServiceClient
}

// searches are those under one filter.
type searches struct {
	times        measure.Times
	cpu          measure.CPU
	hits         [][]leg.Hit
	at10, at50   float64 // recall, mean
	fewest, want int
}

func newEmbedder(tel *telemetry.Service) (embed.Embedder, error) {
	builtin, err := static.Builtin()
	if err != nil {
		return nil, err
	}
	return querypath.New(builtin, nil, querypath.DefaultCacheBytes, tel.MeterProvider.Meter(telemetry.ScopeName))
}

// measureSize measures one size, and quantised vectors if they are wanted.
func measureSize(ctx context.Context, f flags, size int, quantised bool, tel *telemetry.Service) (*measured, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &measured{size: size, passing: map[string]int{}}
	embedder, err := newEmbedder(tel)
	if err != nil {
		return nil, err
	}
	c, err := newCorpus(ctx, f.Seed, size)
	if err != nil {
		return nil, err
	}
	say("%d memories: embedding", size)
	data, err := generate(ctx, c, size, embedder)
	if err != nil {
		return nil, err
	}
	for _, tags := range append(data.tags, []string{}) {
		for _, tag := range tags {
			m.passing[tag]++
		}
	}
	m.passing[""] = size

	var pool *pgxpool.Pool
	if size <= f.UpTo {
		var drop func()
		pool, drop, err = measure.Database(ctx, f.Postgres, tel)
		defer drop()
		if err != nil {
			return nil, err
		}
		if m.stores, err = fillPostgres(ctx, pool, data, tel); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "benchdense-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(filepath.Join(dir, "bench.db"), tel)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	lite, err := fillSQLite(ctx, db, data, tel)
	if err != nil {
		return nil, err
	}
	m.stores = append(m.stores, lite)
	for _, s := range m.stores {
		stop, err := s.serve(ctx, tel)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	say("  searching")
	if err := profiled(f.Profile, size, func() error { return m.search(ctx, f, c, newTruth(data), data.tags, tel) }); err != nil {
		return nil, err
	}
	if pool == nil {
		return m, nil
	}
	if m.bare, err = measureBare(ctx, f, pool, c, data, embedder, quantised); err != nil {
		return nil, fmt.Errorf("bare statement: %w", err)
	}
	return m, pool.QueryRow(ctx, `SELECT format('PostgreSQL %s, pgvector %s', current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector'))`).Scan(&m.server)
}

// fillPostgres returns two stores over the same tables, the second of which keeps nothing in memory.
func fillPostgres(ctx context.Context, pool *pgxpool.Pool, data memories, tel *telemetry.Service) ([]*storeMeasured, error) {
	stores := []*storeMeasured{{name: "PostgreSQL"}, {name: "PostgreSQL, index"}}
	var embedder embed.Embedder
	for i, s := range stores {
		var err error
		if embedder, err = newEmbedder(tel); err != nil { // that has not been asked what another store was
			return nil, err
		}
		config := replica.DefaultConfig()
		s.state = triskelev1.LegState_LEG_STATE_OK
		if i > 0 {
			config.Memory, s.state = 0, triskelev1.LegState_LEG_STATE_FALLBACK
		}
		store := sqldb.Store{Pool: pool}
		images := replica.New(ctx, store, config, tel.MeterProvider.Meter(telemetry.ScopeName), slog.New(slog.DiscardHandler))
		if s.searcher, err = dense.New(ctx, store, images, embedder, queue.New(store)); err != nil {
			return nil, err
		}
		go images.Follow(ctx)
		s.pool = pool
	}
	start := time.Now()
	index, err := bulk(ctx, pool, embedder, func() error { return data.copyTo(ctx, pool, namespace, model) })
	if err != nil {
		return nil, err
	}
	stores[0].filled, stores[0].index = time.Since(start), index
	say("  PostgreSQL filled in %v, of which the index %v", stores[0].filled.Round(time.Second), index.Round(time.Second))
	return stores, nil
}

func fillSQLite(ctx context.Context, db *sqlite.DB, data memories, tel *telemetry.Service) (*storeMeasured, error) {
	embedder, err := newEmbedder(tel)
	if err != nil {
		return nil, err
	}
	if _, err := schema.Up(ctx, db.Write, schema.SQLite); err != nil {
		return nil, err
	}
	store := sqldb.Store{File: db}
	images := replica.New(ctx, store, replica.DefaultConfig(), tel.MeterProvider.Meter(telemetry.ScopeName), slog.New(slog.DiscardHandler))
	searcher, err := dense.New(ctx, store, images, embedder, queue.New(store))
	if err != nil {
		return nil, err
	}
	go images.Follow(ctx)
	s := &storeMeasured{name: "SQLite", searcher: searcher, state: triskelev1.LegState_LEG_STATE_OK}
	start := time.Now()
	if err := data.insertInto(ctx, db, namespace, model); err != nil {
		return nil, err
	}
	s.filled = time.Since(start)
	say("  SQLite filled in %v", s.filled.Round(time.Second))
	return s, nil
}

// serve puts the leg's server before the searcher, on a socket as densed's.
func (s *storeMeasured) serve(ctx context.Context, tel *telemetry.Service) (stop func(), err error) {
	log := slog.New(slog.DiscardHandler)
	server := rpc.NewServer(tel, log)
	triskelev1.RegisterLegServiceServer(server, leg.NewServer(s.searcher, tel, log))
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		return nil, err
	}
	server.Ready()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { _ = server.Run(ctx, listener); close(ended) }()
	conn, err := rpc.Dial(listener.Addr().String(), tel)
	if err != nil {
		cancel()
		return nil, err
	}
	s.client = triskelev1.NewLegServiceClient(conn)
	return func() { _ = conn.Close(); cancel(); <-ended }, nil
}

// search asks every query of every store, in turns, and compares what they found with the truth when all times are taken:
// that goes through all vectors, which leaves nothing else in the processor's caches.
func (m *measured) search(ctx context.Context, f flags, c corpus, t truth, tags [][]string, tel *telemetry.Service) error {
	alone, err := newEmbedder(tel) // which does not remember what the leg has been asked
	if err != nil {
		return err
	}
	for _, s := range m.stores {
		s.searches = map[string]*searches{}
		for _, filter := range filters {
			s.searches[filter] = &searches{fewest: f.Depth, want: min(f.Depth, m.passing[filter])}
		}
	}
	if err := m.warm(ctx, f, c, alone); err != nil {
		return err
	}
	var meters []measure.CPUMeter
	for _, s := range m.stores {
		meter, err := measure.MeterCPU(ctx, s.pool)
		if err != nil {
			return err
		}
		meters = append(meters, meter)
	}
	texts, vectors := make([]string, f.Queries), make([][]float32, f.Queries)
	for i := range vectors {
		texts[i] = c.query()
		start := time.Now()
		if vectors[i], err = alone.EmbedQuery(ctx, texts[i]); err != nil {
			return err
		}
		m.embed = append(m.embed, time.Since(start))
	}
	for from := 0; from < f.Queries; from += turn {
		to := min(from+turn, f.Queries)
		for j := range m.stores {
			at := (from/turn + j) % len(m.stores)
			s := m.stores[at]
			for _, text := range texts[from:to] {
				took, err := s.ask(ctx, f, text, true)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				s.leg = append(s.leg, took)
			}
			for _, filter := range filters {
				of, before := s.searches[filter], meters[at].Read()
				for _, vector := range vectors[from:to] {
					hits, took, err := s.find(ctx, f, vector, filter, true)
					if err != nil {
						return fmt.Errorf("%s: %w", s.name, err)
					}
					of.times, of.hits = append(of.times, took), append(of.hits, hits)
				}
				of.cpu.Spent(before, meters[at].Read())
			}
		}
	}
	m.load = measure.LoadAverage()
	for i, vector := range vectors {
		best := t.best(vector, tags, f.Depth)
		for _, s := range m.stores {
			for filter, of := range s.searches {
				of.fewest = min(of.fewest, len(of.hits[i]))
				of.at10 += recall(of.hits[i], best[filter], 10) / float64(f.Queries)
				of.at50 += recall(of.hits[i], best[filter], 50) / float64(f.Queries)
			}
		}
	}
	return nil
}

// warm asks until every store has read what it keeps in memory.
func (m *measured) warm(ctx context.Context, f flags, c corpus, embedder embed.Embedder) error {
	for i, begun := 0, time.Now(); ; i++ {
		text := c.query()
		vector, err := embedder.EmbedQuery(ctx, text)
		if err != nil {
			return err
		}
		ready := i >= warmUp
		for _, s := range m.stores {
			took, err := s.ask(ctx, f, text, ready)
			if err != nil && (!ready || time.Since(begun) > 10*time.Minute) {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			ready = ready && err == nil
			if i == 0 {
				s.first = took
			}
			for _, filter := range filters {
				if _, _, err := s.find(ctx, f, vector, filter, false); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
		if ready {
			return nil
		}
	}
}

// ask asks the leg over its socket. An answer is not whole while the vectors are read, which is fine before times are taken.
func (s *storeMeasured) ask(ctx context.Context, f flags, text string, whole bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	start := time.Now()
	resp, err := s.client.Search(ctx, &triskelev1.SearchRequest{Namespace: namespace, Query: text, Depth: int32(f.Depth)})
	took := time.Since(start)
	if err == nil && whole && resp.GetState() != s.state {
		err = fmt.Errorf("state %v: %s", resp.GetState(), resp.GetReason())
	}
	return took, err
}

// find asks the searcher itself, with a vector.
func (s *storeMeasured) find(ctx context.Context, f flags, vector []float32, filter string, whole bool) ([]leg.Hit, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	q := leg.Query{Namespace: namespace, Vector: vector, Depth: f.Depth}
	if filter != "" {
		q.Filter = record.Filter{TagsAny: []string{filter}}
	}
	start := time.Now()
	result, err := s.searcher.Search(ctx, q)
	took := time.Since(start)
	if err == nil && whole && cmp.Or(result.State, triskelev1.LegState_LEG_STATE_OK) != s.state {
		err = fmt.Errorf("state %v: %s", result.State, result.Reason)
	}
	return result.Hits, took, err
}
