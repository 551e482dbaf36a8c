package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/querypath"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/measure"
	"github.com/triskele/triskele/services/queue"
	"github.com/triskele/triskele/services/record"
	"github.com/triskele/triskele/services/schema"
	"github.com/triskele/triskele/services/sqlite"
)

const (
	namespace = "bench"
	model     = 1 // the first one that a database gets
	warmUp    = 30
)

// filters are asked in turn: none, and those that a tenth and a hundredth of the memories pass.
var filters = []string{"", tenth, hundredth}

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
	pool     *pgxpool.Pool // of PostgreSQL
	client   triskelev1.LegServiceClient
}

// searches are those under one filter.
type searches struct {
	times        measure.Times
	cpu          measure.CPU
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
		postgres, err := fillPostgres(ctx, pool, embedder, data)
		if err != nil {
			return nil, err
		}
		m.stores = append(m.stores, postgres)
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
	lite, err := fillSQLite(ctx, db, embedder, data)
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
	m.load = measure.LoadAverage()
	if pool == nil {
		return m, nil
	}
	if m.bare, err = measureBare(ctx, f, pool, c, data, embedder, quantised); err != nil {
		return nil, fmt.Errorf("bare statement: %w", err)
	}
	return m, pool.QueryRow(ctx, `SELECT format('PostgreSQL %s, pgvector %s', current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector'))`).Scan(&m.server)
}

func fillPostgres(ctx context.Context, pool *pgxpool.Pool, embedder embed.Embedder, data memories) (*storeMeasured, error) {
	searcher, err := dense.NewPostgres(ctx, pool, nil, embedder, queue.NewPostgres(pool))
	if err != nil {
		return nil, err
	}
	s := &storeMeasured{name: "PostgreSQL", searcher: searcher, pool: pool}
	start := time.Now()
	if s.index, err = bulk(ctx, pool, embedder, func() error { return data.copyTo(ctx, pool, namespace, model) }); err != nil {
		return nil, err
	}
	s.filled = time.Since(start)
	say("  PostgreSQL filled in %v, of which the index %v", s.filled.Round(time.Second), s.index.Round(time.Second))
	return s, nil
}

func fillSQLite(ctx context.Context, db *sqlite.DB, embedder embed.Embedder, data memories) (*storeMeasured, error) {
	if _, err := schema.Up(ctx, db.Write, schema.SQLite); err != nil {
		return nil, err
	}
	searcher, err := dense.NewSQLite(ctx, db, embedder, queue.NewSQLite(db), dense.Config{})
	if err != nil {
		return nil, err
	}
	s := &storeMeasured{name: "SQLite", searcher: searcher}
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

// search asks every query of every store, in turns.
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
	var meters []measure.CPUMeter
	for i := range warmUp + f.Queries {
		if i == warmUp {
			for _, s := range m.stores {
				meter, err := measure.MeterCPU(ctx, s.pool)
				if err != nil {
					return err
				}
				meters = append(meters, meter)
			}
		}
		text, timed := c.query(), i >= warmUp
		start := time.Now()
		vector, err := alone.EmbedQuery(ctx, text)
		if err != nil {
			return err
		}
		if timed {
			m.embed = append(m.embed, time.Since(start))
		}
		for j := range m.stores {
			s := m.stores[(i+j)%len(m.stores)]
			took, err := s.ask(ctx, f, text, timed)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if i == 0 {
				s.first = took
			}
			if timed {
				s.leg = append(s.leg, took)
			}
		}
		var best map[string][]float64
		if timed {
			best = t.best(vector, tags, f.Depth)
		}
		for _, filter := range filters {
			for j := range m.stores {
				at := (i + j) % len(m.stores)
				s := m.stores[at]
				var before measure.CPU
				if timed {
					before = meters[at].Read()
				}
				hits, took, err := s.find(ctx, f, vector, filter, timed)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				if timed {
					of := s.searches[filter]
					of.cpu.Spent(before, meters[at].Read())
					of.times, of.fewest = append(of.times, took), min(of.fewest, len(hits))
					of.at10 += recall(hits, best[filter], 10) / float64(f.Queries)
					of.at50 += recall(hits, best[filter], 50) / float64(f.Queries)
				}
			}
		}
	}
	return nil
}

// ask asks the leg over its socket. Not whole is an answer while SQLite still reads the vectors, which is fine before
// times are taken.
func (s *storeMeasured) ask(ctx context.Context, f flags, text string, whole bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	start := time.Now()
	resp, err := s.client.Search(ctx, &triskelev1.SearchRequest{Namespace: namespace, Query: text, Depth: int32(f.Depth)})
	took := time.Since(start)
	if err == nil && whole && resp.GetState() != triskelev1.LegState_LEG_STATE_OK {
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
	if err == nil && whole && result.State != triskelev1.LegState_LEG_STATE_UNSPECIFIED {
		err = fmt.Errorf("state %v: %s", result.State, result.Reason)
	}
	return result.Hits, took, err
}
