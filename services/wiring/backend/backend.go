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
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
)

// Index is a leg whose index a queue worker derives from the records.
type Index interface {
	leg.Searcher
	leg.AsyncIndex
	queue.Indexer
}

// GraphIndex is the graph leg, which people can also browse and add facts to.
type GraphIndex interface {
	Index
	graph.Facts
	graph.Extractions
	graph.Viewer
	// Refresh embeds entries without vectors of the configured embedder, until all are done or ctx ends.
	Refresh(ctx context.Context, log *slog.Logger)
}

// Backend is an open database.
type Backend interface {
	// Memory returns the records. New ones get the indexes of Dense and Graph in their own transaction, if those were called before
	// and their embedder is immediate.
	Memory() memory.Store
	// Images returns an empty set of the namespaces that legs search in memory. Let its Follow run beside the searches. What
	// this backend writes is told to the last set.
	Images(ctx context.Context, config replica.Config, log *slog.Logger) *replica.Set
	Lexical(images *replica.Set, config lexical.Config) *lexical.Leg
	// Dense fails if the database's vectors are of another model.
	Dense(ctx context.Context, images *replica.Set, embedder embed.Embedder) (Index, error)
	Graph(images *replica.Set, config graph.Config) GraphIndex
	// Models manages the embedding models whose vectors the database has.
	Models() *dense.Models
	// Worker returns the queue worker of a derived index.
	Worker(name string, indexer queue.Indexer, log *slog.Logger) *queue.Worker
	// Queue is the queue of the derived indexes' tasks.
	Queue() queue.Store
	// Concern returns what prevented the last write, "" if nothing did. Recalls continue meanwhile.
	Concern() string
	// Ping fails if the database does not answer.
	Ping(ctx context.Context) error
	// Version names the engine and its extensions with their versions.
	Version(ctx context.Context) (string, error)
	// Examine diagnoses the database. It reads every key, writes about 1 MB in a transaction that it rolls back, and needs all
	// tables.
	Examine(ctx context.Context) (Examination, error)
	// Migrate, Plan, Status and Check are the functions of package schema.
	Migrate(ctx context.Context, tell ...func(schema.Step)) ([]schema.Step, error)
	Plan(ctx context.Context) ([]schema.Planned, error)
	Status(ctx context.Context) ([]schema.Step, error)
	Check(ctx context.Context, tracks ...string) error
	// Distribute is schema.Distribute; a file cannot be distributed.
	Distribute(ctx context.Context) error
	Close() error
}

// Open opens PostgreSQL if url is set, else the SQLite file at path.
func Open(ctx context.Context, url, path string, tel *telemetry.Service) (Backend, error) {
	if url != "" {
		return OpenPostgres(ctx, url, tel)
	}
	return OpenSQLite(path, tel)
}

// batch is how many tasks an index worker claims at a time.
const batch = 256

// workers makes the index workers of a process, and wakes idle ones.
type workers struct {
	tasks    queue.Store
	tel      *telemetry.Service
	mu       sync.Mutex
	channels []chan struct{}
	images   atomic.Pointer[replica.Set]
}

// told says that this process has committed something.
func (w *workers) told() {
	if images := w.images.Load(); images != nil {
		images.Told()
	}
}

// Worker implements Backend.
func (w *workers) Worker(name string, indexer queue.Indexer, log *slog.Logger) *queue.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake := make(chan struct{}, 1)
	w.channels = append(w.channels, wake)
	return &queue.Worker{
		Index: name, Store: w.tasks, Indexer: telling{indexer, w.told}, Batch: batch, Log: log, Wake: wake,
		Meter: w.tel.MeterProvider.Meter(telemetry.ScopeName), Tracer: w.tel.Tracer,
	}
}

// Queue implements Backend.
func (w *workers) Queue() queue.Store { return w.tasks }

func (w *workers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.channels {
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

// Index implements queue.Indexer.
func (t telling) Index(ctx context.Context, records []record.Record) error {
	defer t.told()
	return t.Indexer.Index(ctx, records)
}

// urging is a queue that wakes this process's workers when a caller waits for an index. On PostgreSQL they notice
// writes of other processes only at their next claim.
type urging struct {
	queue.Store
	wake func()
}

// Knows implements queue.Store.
func (u urging) Knows(ctx context.Context, index, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	knows, gaveUp, err = u.Store.Knows(ctx, index, namespace, sequence)
	if err == nil && !knows && !gaveUp {
		u.wake()
	}
	return knows, gaveUp, err
}

// WaitReady pings the database until it answers or ctx ends, and logs each failure.
func WaitReady(ctx context.Context, b Backend, log *slog.Logger) error {
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
