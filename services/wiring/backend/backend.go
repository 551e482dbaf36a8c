// Package backend opens a database and builds every service's store on it. It is the only package that knows both
// engines and all services.
//  1. Open chooses the engine: PostgreSQL for a URL, else a SQLite file. OpenOnStandby adds hot standbys for
//     searches.
//  2. A program takes the stores and legs that it serves from the Backend: Memory, Lexical, Dense, Graph.
//  3. Worker makes the queue workers of the derived indexes. Writes in the same process wake them.
//  4. Curation and Extraction make the workers that call language models.
//  5. Examine diagnoses the database for an operator.
package backend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Backend is an open database: PostgreSQL with pgvector, or a SQLite file.
type Backend struct {
	store   sqldb.Store
	sql     *sql.DB       // the same, for package schema
	engine  schema.Engine // of both
	path    string        // of the file
	last    *diskerr.Last // of the memory stores' writes
	tasks   *queue.Queue
	tel     *telemetry.Service
	derived map[string]memory.Derived // by the memory stores, instead of by workers
	images  atomic.Pointer[replica.Set]
	alone   atomic.Bool // a standby answered the last ping, and the primary did not

	mu      sync.Mutex
	workers []chan struct{} // each wakes an idle one of this process
}

// Open opens PostgreSQL if url is set, else the SQLite file at path.
func Open(ctx context.Context, url, path string, tel *telemetry.Service) (*Backend, error) {
	if url != "" {
		return OpenPostgres(ctx, url, tel)
	}
	return OpenSQLite(path, tel)
}

// OpenOnStandby is OpenPostgres for services that search in a hot standby, at URL read; "" for none.
func OpenOnStandby(ctx context.Context, url, read string, tel *telemetry.Service) (*Backend, error) {
	b, err := OpenPostgres(ctx, url, tel)
	if err != nil || read == "" {
		return b, err
	}
	if b.store.Standby, err = postgres.OpenStandby(ctx, read, b.store.Pool, tel); err != nil {
		return nil, errors.Join(fmt.Errorf("open the standby: %w", err), b.Close())
	}
	return b, nil
}

// OpenPostgres prepares a pool; it does not wait for the server.
func OpenPostgres(ctx context.Context, url string, tel *telemetry.Service) (*Backend, error) {
	pool, err := postgres.Open(ctx, url, tel)
	if err != nil {
		return nil, err
	}
	store := sqldb.Store{Pool: pool, Writers: make(chan struct{}, max(1, pool.Config().MaxConns*3/4))}
	b := &Backend{
		store: store, sql: postgres.SQL(pool), engine: schema.Postgres,
		last: &diskerr.Last{}, tel: tel, derived: map[string]memory.Derived{},
	}
	b.tasks = queue.New(store)
	b.tasks.Awaited = b.wake // workers notice writes of other processes only at their next claim
	return b, nil
}

// OpenSQLite opens or creates the file.
func OpenSQLite(path string, tel *telemetry.Service) (*Backend, error) {
	db, err := sqlite.Open(path, tel)
	if err != nil {
		return nil, err
	}
	store := sqldb.Store{File: db}
	return &Backend{
		store: store, sql: db.Write, engine: schema.SQLite, path: path,
		last: &db.Last, tasks: queue.New(store), tel: tel, derived: map[string]memory.Derived{},
	}, nil
}

// Standby serves searches on PostgreSQL; it is nil for the primary.
func (b *Backend) Standby() *postgres.Standby { return b.store.Standby }

// Close closes the connections.
func (b *Backend) Close() error {
	if b.store.File != nil {
		return b.store.File.Close()
	}
	err := b.sql.Close()
	b.store.Standby.Close()
	b.store.Pool.Close()
	return err
}

// Memory returns the records. New ones get the indexes of Dense and Graph in their own transaction, if those were called before
// and their embedder is immediate.
func (b *Backend) Memory() *memory.Store {
	store := memory.NewStore(b.store, &lexical.Index{Vectors: b.store.File == nil})
	store.Last, store.Committed = b.last, b.told
	if b.store.File != nil {
		store.Committed = func() {
			b.told()
			b.wake()
		}
	}
	for name, index := range b.derived {
		store.Derive(name, index)
	}
	return store
}

// Images returns an empty set of the namespaces that legs search in memory. Let its Follow run beside the searches. What
// this backend writes is told to the last set.
func (b *Backend) Images(ctx context.Context, config replica.Config, log *slog.Logger) *replica.Set {
	images := replica.New(ctx, b.store, config, b.tel.MeterProvider.Meter(telemetry.ScopeName), log)
	b.images.Store(images)
	return images
}

// Lexical returns the lexical leg.
func (b *Backend) Lexical(images *replica.Set, config lexical.Config) *lexical.Leg {
	return lexical.New(b.store, images, config)
}

// Dense returns the dense leg. It fails if the database's vectors are of another model.
func (b *Backend) Dense(ctx context.Context, images *replica.Set, embedder embed.Embedder) (*dense.Leg, error) {
	index, err := dense.New(ctx, b.store, images, embedder, b.tasks)
	if err == nil && embed.Immediate(embedder) {
		b.derived["dense"] = index
	}
	return index, err
}

// Graph returns the graph leg, which people can also browse and add facts to.
func (b *Backend) Graph(images *replica.Set, config graph.Config) *graph.Leg {
	index := graph.New(b.store, images, b.tasks, config)
	if config.Embedder == nil || embed.Immediate(config.Embedder) {
		b.derived["graph"] = index
	}
	return index
}

// Models manages the embedding models whose vectors the database has.
func (b *Backend) Models() *dense.Models { return dense.NewModels(b.store) }

// batch is how many tasks an index worker claims at a time.
const batch = 256

// Worker returns the queue worker of a derived index.
func (b *Backend) Worker(name string, indexer queue.Indexer, log *slog.Logger) *queue.Worker {
	b.mu.Lock()
	defer b.mu.Unlock()
	wake := make(chan struct{}, 1)
	b.workers = append(b.workers, wake)
	return &queue.Worker{
		Index: name, Store: b.tasks, Indexer: telling{indexer, b.told}, Batch: batch, Log: log, Wake: wake,
		Meter: b.tel.MeterProvider.Meter(telemetry.ScopeName), Tracer: b.tel.Tracer,
	}
}

// Queue is the queue of the derived indexes' tasks.
func (b *Backend) Queue() *queue.Queue { return b.tasks }

// told says that this process has committed something.
func (b *Backend) told() {
	if images := b.images.Load(); images != nil {
		images.Told()
	}
}

func (b *Backend) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.workers {
		select {
		case c <- struct{}{}:
		default: // awake already
		}
	}
}

// telling is an indexer that says when it has written.
type telling struct {
	queue.Indexer
	told func()
}

func (t telling) Index(ctx context.Context, records []record.Record) error {
	defer t.told()
	return t.Indexer.Index(ctx, records)
}

// Concern returns what prevents writes, "" if nothing does. Recalls continue meanwhile.
func (b *Backend) Concern() string {
	if b.alone.Load() {
		return "the primary database does not answer: nothing can be stored"
	}
	return b.last.Concern()
}

// Ping fails if the database does not answer, or its standby if there is one: searches work without the primary.
func (b *Backend) Ping(ctx context.Context) error {
	if b.store.File != nil {
		return b.store.File.Read.PingContext(ctx)
	}
	if b.store.Standby == nil {
		return b.store.Pool.Ping(ctx)
	}
	var asked sync.WaitGroup
	asked.Go(func() {
		err := b.store.Pool.Ping(ctx)
		if stat := b.store.Pool.Stat(); err == nil || stat.AcquiredConns() < stat.MaxConns() { // else it may be busy
			b.alone.Store(err != nil)
		}
	})
	err := b.store.Standby.Or(b.store.Pool).Ping(ctx)
	asked.Wait()
	return err
}

// WaitReady pings the database until it answers or ctx ends, and logs each failure.
func (b *Backend) WaitReady(ctx context.Context, log *slog.Logger) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = 100*time.Millisecond, 5*time.Second, 2
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return struct{}{}, b.Ping(attempt)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, pause time.Duration) {
		log.WarnContext(ctx, "waiting for the database", "retry_in", pause.String(), "error", err.Error())
	}))
	return err
}

// Version names the engine and its extensions with their versions.
func (b *Backend) Version(ctx context.Context) (version string, err error) {
	if b.store.File != nil {
		err = b.store.File.Read.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&version)
		return version, err
	}
	err = b.store.Standby.Or(b.store.Pool).QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') ||
		coalesce((SELECT ', pgvector ' || extversion FROM pg_extension WHERE extname = 'vector'), ', without pgvector')`).Scan(&version)
	return version, err
}
