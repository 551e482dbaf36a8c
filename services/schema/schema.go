// Package schema holds the database definitions of every service as numbered migrations, one track per service and
// engine, and brings a database to them.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
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

// Step is one migration of one track.
type Step struct {
	Track   string
	Version int64
	Name    string
	Applied bool
}

// provider returns the migrations of a track, which keeps its own version table.
func provider(db *sql.DB, engine Engine, track string) (*goose.Provider, error) {
	sub, err := fs.Sub(files, track+"/"+string(engine))
	if err != nil {
		return nil, err
	}
	store, err := database.NewStore(engine.dialect(), "schema_version_"+track)
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider("", db, sub, goose.WithStore(store), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", track, err)
	}
	return p, nil
}

// Up applies every step that has not been applied and returns those it applied. Steps that ran stay when a later one
// fails.
func Up(ctx context.Context, db *sql.DB, engine Engine) ([]Step, error) {
	var done []Step
	for _, track := range Tracks {
		p, err := provider(db, engine, track)
		if err != nil {
			return done, err
		}
		results, err := p.Up(ctx)
		for _, r := range results {
			if r.Error == nil {
				done = append(done, Step{track, r.Source.Version, r.Source.Path, true})
			}
		}
		if err != nil {
			return done, fmt.Errorf("migrate %s: %w", track, err)
		}
	}
	return done, nil
}

// Status lists the steps of the given tracks, of all when none is given.
func Status(ctx context.Context, db *sql.DB, engine Engine, tracks ...string) ([]Step, error) {
	if len(tracks) == 0 {
		tracks = Tracks
	}
	var steps []Step
	for _, track := range tracks {
		p, err := provider(db, engine, track)
		if err != nil {
			return nil, err
		}
		status, err := p.Status(ctx)
		if err != nil {
			return nil, fmt.Errorf("migration status of %s: %w", track, err)
		}
		for _, s := range status {
			steps = append(steps, Step{track, s.Source.Version, s.Source.Path, s.State == goose.StateApplied})
		}
	}
	return steps, nil
}

// Check returns an error unless every step of the given tracks has been applied.
func Check(ctx context.Context, db *sql.DB, engine Engine, tracks ...string) error {
	steps, err := Status(ctx, db, engine, tracks...)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if !s.Applied {
			return fmt.Errorf("the database lacks step %s of track %s: run `triskele migrate up`", s.Name, s.Track)
		}
	}
	return nil
}
