package schema

import (
	"context"
	"database/sql"
	"io/fs"
	"time"
)

// UpTo applies the steps of all tracks up to a number.
func UpTo(ctx context.Context, db *sql.DB, engine Engine, version int64) error {
	for _, track := range Tracks {
		p, err := released.provider(db, engine, track, 0)
		if err != nil {
			return err
		}
		if _, err := p.UpTo(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// Files are the released steps.
var Files fs.FS = files

// Migrations are tracks of a test's own.
type Migrations struct{ m migrations }

// NewMigrations returns tracks of steps in a file system, which do not pause for long.
func NewMigrations(files fs.FS, tracks ...string) Migrations {
	return Migrations{migrations{files, tracks, retries{4, time.Millisecond}}}
}

// Up is as the package's.
func (m Migrations) Up(ctx context.Context, db *sql.DB, engine Engine, tell ...func(Step)) ([]Step, error) {
	return m.m.up(ctx, db, engine, tell...)
}

// Plan is as the package's.
func (m Migrations) Plan(ctx context.Context, db *sql.DB, engine Engine) ([]Planned, error) {
	return m.m.plan(ctx, db, engine)
}

// Check is as the package's.
func (m Migrations) Check(ctx context.Context, db *sql.DB, engine Engine) error {
	return m.m.check(ctx, db, engine)
}

// Unfit is unfit.
var Unfit = unfit
