// Package schema holds the database schema of every service as numbered migrations (steps), one track per service and
// engine. Up migrates a database:
//  1. It lists the missing steps, and refuses a database that is too old or too new for this program.
//  2. It applies the steps track by track, in the order of their foreign keys.
//  3. A step that cannot get a lock in time is rolled back and retried with backoff (PostgreSQL).
//  4. Check verifies the result. Services call only Check, when they start.
//
// The hundreds of a step's number are its release. Programs of the previous release must work during and after a
// step.
//
// A step runs in a transaction unless it says `-- +goose NO TRANSACTION`. Such a step must be repeatable after an
// interruption anywhere: it drops what it creates, if that exists already.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

//go:embed */postgres/*.sql */sqlite/*.sql
var files embed.FS

// Engine is a kind of database.
type Engine string

// The engines that have a schema.
const (
	Postgres Engine = "postgres"
	SQLite   Engine = "sqlite"
)

func (e Engine) dialect() database.Dialect {
	if e == Postgres {
		return database.DialectPostgres
	}
	return database.DialectSQLite3
}

// Tracks lists the services that own tables, in the order of their foreign keys.
var Tracks = []string{"memory", "lexical", "dense", "graph"}

// Needs returns the tracks whose tables a service works on: its own, the records that every leg reads, and the lexical
// index, which is written with the records.
func Needs(service string) []string {
	if service == "memory" {
		return []string{"memory", "lexical"}
	}
	return []string{"memory", service}
}

// State says whether a step has been applied to a database.
type State string

// The states of a step.
const (
	Missing State = "missing"
	Applied State = "applied"
	Newer   State = "newer"   // applied by another program and unknown to this one
	Waiting State = "waiting" // for locks of others; it will be retried
)

// Step is one migration of one track.
type Step struct {
	Track   string `json:"track"`
	Version int64  `json:"version"`
	Name    string `json:"name"` // file name; for a newer step its number
	State   State  `json:"state"`
}

// Planned is a step that Up would run.
type Planned struct {
	Step
	Transaction bool   `json:"transaction"` // the step is atomic
	SQL         string `json:"sql"`
}

// migrations are tracks of steps in a file system like this package's.
type migrations struct {
	files  fs.FS
	tracks []string
	retries
}

var released = migrations{files, Tracks, defaultRetries}

// Up applies all missing steps and returns those it applied, also when a later one fails. Several processes may run
// it at once. It changes nothing and fails if the database is too new or too old for this program. It fails if Check
// rejects the result. It calls tell for each applied step and for each wait for a lock.
func Up(ctx context.Context, db *sql.DB, engine Engine, tell ...func(Step)) ([]Step, error) {
	return released.up(ctx, db, engine, tell...)
}

// Status lists the steps of all tracks without changing anything.
func Status(ctx context.Context, db *sql.DB, engine Engine) ([]Step, error) {
	return released.status(ctx, db, engine)
}

// Plan returns the steps that Up would run, in order. It fails if the database is too new or too old.
func Plan(ctx context.Context, db *sql.DB, engine Engine) ([]Planned, error) {
	return released.plan(ctx, db, engine)
}

// Check returns an error unless this program can work on the given tracks, or on all if none is given. All steps that
// it knows must be applied and complete. Unknown steps must be of the next release.
func Check(ctx context.Context, db *sql.DB, engine Engine, tracks ...string) error {
	if len(tracks) == 0 {
		tracks = Tracks
	}
	return migrations{files: files, tracks: tracks}.check(ctx, db, engine)
}

func (m migrations) up(ctx context.Context, db *sql.DB, engine Engine, tell ...func(Step)) (done []Step, err error) {
	steps, err := m.plan(ctx, db, engine)
	if err != nil {
		return nil, err
	}
	said := func(step Step, state State) {
		step.State = state
		for _, t := range tell {
			t(step)
		}
	}
	for _, step := range steps {
		began := time.Now()
		here, attempts, err := m.retry(ctx, func(number int) (bool, error) {
			err := m.apply(ctx, db, engine, step, number)
			if err != nil { // another process may have applied it meanwhile
				if numbers, failed := applied(ctx, db, engine, step.Track); failed == nil && slices.Contains(numbers, step.Version) {
					return false, nil
				}
			}
			return err == nil, err
		}, func() { said(step.Step, Waiting) })
		if err != nil {
			err = fmt.Errorf("step %s of track %s: %w", step.Name, step.Track, err)
			if lockFailed(err) {
				err = fmt.Errorf("%w; nothing was changed: %d attempts in %v did not get the locks that it needs%s; run `triskele migrate up` again when the other transactions have ended",
					err, attempts, time.Since(began).Round(time.Second), oldest(ctx, db))
			}
			return done, err
		}
		if here {
			done = append(done, Step{step.Track, step.Version, step.Name, Applied})
			said(step.Step, Applied)
		}
	}
	return done, m.check(ctx, db, engine)
}

// apply runs one step and returns the error of its statement.
func (m migrations) apply(ctx context.Context, db *sql.DB, engine Engine, step Planned, attempt int) error {
	var patience time.Duration // no timeout
	if step.Transaction {
		patience = lockTimeout(attempt)
	}
	p, err := m.provider(db, engine, step.Track, patience)
	if err != nil {
		return err
	}
	_, err = p.ApplyVersion(ctx, step.Version, true)
	if failed, ok := errors.AsType[*goose.PartialError](err); ok {
		return failed.Err
	}
	return err
}

// provider returns the migrations of a track, which has its own version table. patience is the lock_timeout of their
// statements; 0 waits forever.
func (m migrations) provider(db *sql.DB, engine Engine, track string, patience time.Duration) (*goose.Provider, error) {
	options := []goose.ProviderOption{goose.WithStore(versions(engine, track)), goose.WithLogger(goose.NopLogger())}
	if engine == Postgres {
		// Poll for the lock: a waiting statement would hold a snapshot that CREATE INDEX CONCURRENTLY waits for.
		locker := must(lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 3600)))
		options = append(options, goose.WithSessionLocker(timedLocker{locker, patience}))
	}
	p, err := goose.NewProvider("", db, must(fs.Sub(m.files, track+"/"+string(engine))), options...)
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", track, err)
	}
	return p, nil
}

// onceStore refuses to record a step twice, which rolls back its second run. SQLite has no lock that outlives a
// transaction: another process may apply a step that this one has found missing.
type onceStore struct{ database.Store }

func (s onceStore) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	_, err := s.GetMigration(ctx, db, req.Version)
	if err == nil {
		return fmt.Errorf("step %d has been applied already", req.Version)
	}
	if !errors.Is(err, database.ErrVersionNotFound) {
		return err
	}
	return s.Store.Insert(ctx, db, req)
}

// versions returns the table of the applied steps.
func versions(engine Engine, track string) database.Store {
	store := must(database.NewStore(engine.dialect(), "schema_version_"+track))
	if engine == Postgres {
		return store
	}
	return onceStore{store}
}

// must returns a value whose error would be a mistake in this program.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (m migrations) status(ctx context.Context, db *sql.DB, engine Engine) ([]Step, error) {
	var steps []Step
	for _, track := range m.tracks {
		p, err := m.provider(db, engine, track, 0)
		if err != nil {
			return nil, err
		}
		applied, err := applied(ctx, db, engine, track)
		if err != nil {
			return nil, fmt.Errorf("migration status of %s: %w", track, err)
		}
		for _, source := range p.ListSources() {
			state := Missing
			if i := slices.Index(applied, source.Version); i >= 0 {
				state, applied = Applied, slices.Delete(applied, i, i+1)
			}
			steps = append(steps, Step{track, source.Version, source.Path, state})
		}
		for _, version := range applied {
			steps = append(steps, Step{track, version, fmt.Sprintf("%03d", version), Newer})
		}
	}
	return steps, nil
}

// applied returns the numbers of a track's applied steps, in order.
func applied(ctx context.Context, db *sql.DB, engine Engine, track string) ([]int64, error) {
	store := versions(engine, track)
	exists := `SELECT to_regclass($1) IS NOT NULL`
	if engine == SQLite {
		exists = `SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = ?1`
	}
	var found bool
	if err := db.QueryRowContext(ctx, exists, store.Tablename()).Scan(&found); err != nil || !found {
		return nil, err
	}
	rows, err := store.ListMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	var numbers []int64
	for _, row := range rows {
		if row.IsApplied && row.Version > 0 { // 0 is goose's own
			numbers = append(numbers, row.Version)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

func (m migrations) plan(ctx context.Context, db *sql.DB, engine Engine) ([]Planned, error) {
	steps, err := m.status(ctx, db, engine)
	if err != nil {
		return nil, err
	}
	if err := m.tolerable(steps); err != nil {
		return nil, err
	}
	var planned []Planned
	for _, step := range steps {
		if step.State != Missing {
			continue
		}
		text, err := fs.ReadFile(m.files, step.Track+"/"+string(engine)+"/"+step.Name)
		if err != nil {
			return nil, err
		}
		p := Planned{Step: step}
		p.SQL, p.Transaction = forward(string(text))
		planned = append(planned, p)
	}
	return planned, nil
}

// forward returns the statements of a step's up migration and whether they run in a transaction.
func forward(text string) (statements string, transaction bool) {
	transaction = true
	var kept strings.Builder
	for line := range strings.Lines(text) {
		annotation, found := strings.CutPrefix(strings.TrimSpace(line), "-- +goose ")
		switch {
		case annotation == "NO TRANSACTION":
			transaction = false
		case annotation == "Down":
			return strings.TrimSpace(kept.String()) + "\n", transaction
		case !found:
			kept.WriteString(line)
		}
	}
	return strings.TrimSpace(kept.String()) + "\n", transaction
}
