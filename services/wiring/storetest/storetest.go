// Package storetest runs a test once on each engine, on a fresh database with the whole schema and the real memory
// store. Run calls a test with a Fixture per engine. PostgreSQL databases are copies of pgtest's template; SQLite
// files are copies of one migrated file. Insert, Drain, Corrupt and Holding are steps of such tests.
package storetest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Fixture is a database and the shared stores. Only the engine's own of Pool and DB is set.
type Fixture struct {
	Engine schema.Engine
	Pool   *pgxpool.Pool
	DB     *sqlite.DB
	Memory *memory.Store
	Queue  *queue.Queue
	Tel    *telemetry.Service
}

// Store returns the database for stores.
func (f *Fixture) Store() sqldb.Store { return sqldb.Store{Pool: f.Pool, File: f.DB} }

// Run calls fn as a subtest for each engine.
func Run(t *testing.T, fn func(t *testing.T, f *Fixture)) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fn(t, Postgres(t))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, SQLite(t))
	})
}

// Postgres returns a fixture on a fresh PostgreSQL database.
func Postgres(t testing.TB) *Fixture {
	tel := Telemetry(t)
	pool, err := postgres.Open(context.Background(), pgtest.New(t), tel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store := sqldb.Store{Pool: pool}
	return &Fixture{Engine: schema.Postgres, Pool: pool, Tel: tel, Memory: memory.NewStore(store, &lexical.Index{Vectors: true}), Queue: queue.New(store)}
}

// migrated is the content of a SQLite file with the whole schema. Fixtures copy it, which is much faster than
// migrating.
var migrated = sync.OnceValues(func() (_ []byte, err error) {
	folder, err := os.MkdirTemp("", "storetest")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "test.db")
	process, err := telemetry.Start(context.Background())
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(file, process.Service("test"))
	if err != nil {
		return nil, err
	}
	_, err = schema.Up(context.Background(), db.Write, schema.SQLite)
	if err = errors.Join(err, db.Close()); err != nil { // closing checkpoints the WAL into the file
		return nil, err
	}
	return os.ReadFile(file)
})

// SQLite returns a fixture on a fresh SQLite file.
func SQLite(t testing.TB) *Fixture {
	tel := Telemetry(t)
	file := filepath.Join(t.TempDir(), "test.db")
	text, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(file, tel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store := sqldb.Store{File: db}
	return &Fixture{Engine: schema.SQLite, DB: db, Tel: tel, Memory: memory.NewStore(store, &lexical.Index{}), Queue: queue.New(store)}
}

// Images returns what searches keep in memory; they ask the database first each time.
func (f *Fixture) Images(t testing.TB) *replica.Set {
	return f.ImagesWith(t, Strict())
}

// Strict is the configuration of searches that ask the database first each time.
func Strict() replica.Config {
	config := replica.DefaultConfig()
	config.MaxAge = 0
	return config
}

// ImagesWith is Images with other settings.
func (f *Fixture) ImagesWith(t testing.TB, config replica.Config) *replica.Set {
	return replica.New(t.Context(), f.Store(), config, f.Tel.MeterProvider.Meter(telemetry.ScopeName), slog.New(slog.DiscardHandler))
}

// Client serves the fixture's memories within the process until the test ends, and returns a client.
func (f *Fixture) Client(t testing.TB) triskelev1.MemoryServiceClient {
	t.Helper()
	return f.ClientOf(t, Log())
}

// ClientOf is Client with a log for the server.
func (f *Fixture) ClientOf(t testing.TB, log *slog.Logger) triskelev1.MemoryServiceClient {
	t.Helper()
	server := rpc.NewServer(f.Tel, log)
	triskelev1.RegisterMemoryServiceServer(server, memory.NewServer(f.Memory))
	t.Cleanup(server.Drain)
	return triskelev1.NewMemoryServiceClient(rpc.NewLocal(server, f.Tel))
}

// Telemetry returns telemetry that exports nothing.
func Telemetry(t testing.TB) *telemetry.Service {
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return process.Service("test")
}

// Record returns a complete record with the given content, changed by edit if that is not nil.
func Record(namespace, content string, edit func(*record.Record)) record.Record {
	now := record.Now()
	r := record.Record{
		ID: uuid.Must(uuid.NewV7()), Namespace: namespace, Content: content, Importance: record.DefaultImportance,
		CreatedAt: now, UpdatedAt: now, Revision: 1,
	}
	if edit != nil {
		edit(&r)
	}
	return r
}

// Insert stores records and fails the test if it cannot.
func (f *Fixture) Insert(t testing.TB, records ...record.Record) {
	t.Helper()
	if _, err := f.Memory.Insert(context.Background(), records); err != nil {
		t.Fatal(err)
	}
}

// Drain runs an index's worker until nothing is pending.
func (f *Fixture) Drain(t testing.TB, index string, indexer queue.Indexer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		tasks, err := f.Queue.Claim(ctx, index, 100, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) == 0 {
			return
		}
		records := slice.Map(tasks, func(t queue.Task) record.Record { return t.Record })
		if err := indexer.Index(ctx, records); err != nil {
			t.Fatal(err)
		}
		if err := f.Queue.Done(ctx, index, tasks); err != nil {
			t.Fatal(err)
		}
	}
}

// Log logs only errors, to standard error.
func Log() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
