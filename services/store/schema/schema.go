// Package schema holds the database definitions of every service as numbered migrations, one track per service and
// engine, brings a database to them, and says whether a program can work on the one it finds.
//
// The hundreds of a step's number are the release that brings it. Steps are written for programs of the release before
// to go on working, also while the steps run.
//
// A step runs in a transaction unless it says `-- +goose NO TRANSACTION`. One that does must be written so that it can
// run again after it was interrupted anywhere: what it creates, it first drops if it is there.
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

// The engines there is a schema for.
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
	Waiting State = "waiting" // for locks that others hold; it will be tried again
)

// Step is one migration of one track.
type Step struct {
	Track   string `json:"track"`
	Version int64  `json:"version"`
	Name    string `json:"name"` // of the file; of a newer step its number
	State   State  `json:"state"`
}

// Planned is a step that Up would run.
type Planned struct {
	Step
	Transaction bool   `json:"transaction"` // runs in one, so that it happens as a whole or not at all
	SQL         string `json:"sql"`
}

// migrations are tracks of steps in a file system as this package's.
type migrations struct {
	files  fs.FS
	tracks []string
	retries
}

var released = migrations{files, Tracks, defaultRetries}

// Up applies every step that has not been applied and returns those it applied, also when a later one fails. Several
// may run at once. It does nothing, and fails, if the database is too new or too old for this program, and fails if what it leaves
// is not what Check accepts. Whoever is to be told, is when a step has been applied, and each time one has to wait.
func Up(ctx context.Context, db *sql.DB, engine Engine, tell ...func(Step)) ([]Step, error) {
	return released.up(ctx, db, engine, tell...)
}

// Status lists the steps of all tracks without changing anything.
func Status(ctx context.Context, db *sql.DB, engine Engine) ([]Step, error) {
	return released.status(ctx, db, engine)
}

// Plan returns what Up would run, in order, without changing anything. It fails if the database is too new.
func Plan(ctx context.Context, db *sql.DB, engine Engine) ([]Planned, error) {
	return released.plan(ctx, db, engine)
}

// Check returns an error unless this program can work on the given tracks, on all when none is given: every step it
// knows has been applied, others only of the next release, and none was interrupted half-way.
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
		for attempt := 1; ; attempt++ {
			err := m.apply(ctx, db, engine, step, attempt)
			if err == nil {
				done = append(done, Step{step.Track, step.Version, step.Name, Applied})
				said(step.Step, Applied)
				break
			}
			if appliedMeanwhile(ctx, db, engine, step.Track, step.Version) {
				break
			}
			if lacked(err) && attempt < m.attempts {
				said(step.Step, Waiting)
				if err := m.pause(ctx, attempt); err != nil {
					return done, err
				}
				continue
			}
			err = fmt.Errorf("step %s of track %s: %w", step.Name, step.Track, err)
			if lacked(err) {
				err = fmt.Errorf("%w; it changed nothing, though it was tried %d times in %v, because others hold locks that it needs%s: run `triskele migrate up` again when they have ended",
					err, attempt, time.Since(began).Round(time.Second), oldest(ctx, db))
			}
			return done, err
		}
	}
	return done, m.check(ctx, db, engine)
}

// apply runs one step. The error is that of its statement.
func (m migrations) apply(ctx context.Context, db *sql.DB, engine Engine, step Planned, attempt int) error {
	var patience time.Duration // for ever
	if step.Transaction {
		patience = lockTimeout(attempt)
	}
	p, err := m.provider(db, engine, step.Track, patience)
	if err != nil {
		return err
	}
	_, err = p.ApplyVersion(ctx, step.Version, true)
	var failed *goose.PartialError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// provider returns the migrations of a track, which keeps its own version table. Statements of its steps wait so long for a
// lock; 0 is for ever.
func (m migrations) provider(db *sql.DB, engine Engine, track string, patience time.Duration) (*goose.Provider, error) {
	sub, err := fs.Sub(m.files, track+"/"+string(engine))
	if err != nil {
		return nil, err
	}
	store, err := versions(engine, track)
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithStore(store), goose.WithLogger(goose.NopLogger())}
	if engine == Postgres {
		// Tried, not waited for: a waiting statement would hold a snapshot that CREATE INDEX CONCURRENTLY waits for.
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 3600))
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(impatient{locker, patience}))
	}
	p, err := goose.NewProvider("", db, sub, options...)
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", track, err)
	}
	return p, nil
}

// appliedMeanwhile says whether a step that failed here has been applied by another process.
func appliedMeanwhile(ctx context.Context, db *sql.DB, engine Engine, track string, version int64) bool {
	numbers, err := applied(ctx, db, engine, track)
	return err == nil && slices.Contains(numbers, version)
}

// onceStore refuses to note a step twice, which rolls its second run back. SQLite has no lock that outlives a
// transaction: a step may be found missing, then be applied by another process, and only then begin here.
type onceStore struct{ database.Store }

// Insert implements database.Store.
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

// versions is the table of the steps that have been applied.
func versions(engine Engine, track string) (database.Store, error) {
	store, err := database.NewStore(engine.dialect(), "schema_version_"+track)
	if err != nil || engine == Postgres {
		return store, err
	}
	return onceStore{store}, nil
}

// status lists the steps of the tracks, each in the order of the numbers.
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

// applied returns the numbers of the steps of a track that have been applied, in order.
func applied(ctx context.Context, db *sql.DB, engine Engine, track string) ([]int64, error) {
	store, err := versions(engine, track)
	if err != nil {
		return nil, err
	}
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

// forward returns the statements of a step's way up, without goose's annotations, and whether they run in a transaction.
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
