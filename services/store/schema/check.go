package schema

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"math"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// release returns the release of a step: the hundreds of its number. The first two releases share 0, since programs
// of the first did not check.
func release(version int64) int64 { return version / 100 }

// tolerable returns an error if this program cannot work with the database's steps. A step supports programs of the
// previous release and no older ones. Steps older than all that this program knows are an error too: no step leads on
// from them.
func (m migrations) tolerable(steps []Step) error {
	var own int64 // over all tracks: a release may skip some
	first := int64(math.MaxInt64)
	for _, name := range must(fs.Glob(m.files, "*/*/*.sql")) {
		version := must(goose.NumericComponent(name))
		own, first = max(own, release(version)), min(first, version)
	}
	for _, step := range steps {
		if step.State == Newer && step.Version < first {
			return fmt.Errorf("the database is too old: this program cannot migrate from step %s of track %s; export the memories with the program that made it (`triskele export`) and import them into a new database (`triskele import`)", step.Name, step.Track)
		}
		if step.State == Newer && release(step.Version) > own+1 {
			return fmt.Errorf("the database is too new: step %s of track %s came more than one release after this program; run a newer program", step.Name, step.Track)
		}
	}
	return nil
}

func (m migrations) check(ctx context.Context, db *sql.DB, engine Engine) error {
	steps, err := m.status(ctx, db, engine)
	if err != nil {
		return err
	}
	if err := m.tolerable(steps); err != nil {
		return err
	}
	var broken string
	if engine == Postgres {
		if broken, err = m.brokenIndex(ctx, db); err != nil {
			return err
		}
	}
	for _, step := range steps {
		switch {
		case step.State != Missing:
		case broken != "":
			return fmt.Errorf("the database lacks step %s of track %s, and an interrupted step left index %s invalid: run `triskele migrate up`", step.Name, step.Track, broken)
		default:
			return fmt.Errorf("the database lacks step %s of track %s: run `triskele migrate up`", step.Name, step.Track)
		}
	}
	if broken != "" {
		return fmt.Errorf("an interrupted step left index %s invalid: run `triskele migrate up` of the newest program in use or, if that has nothing to do, REINDEX INDEX CONCURRENTLY %[1]s", broken)
	}
	return nil
}

// brokenIndex returns the name of an invalid index of the tracks, or "". An invalid index is no fault during a
// migration. Vector indexes are excluded: they are built per model while services run.
func (m migrations) brokenIndex(ctx context.Context, db *sql.DB) (name string, err error) {
	err = db.QueryRowContext(ctx, `
		SELECT coalesce(min(i.indexrelid::regclass::text), '')
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE NOT (i.indisvalid AND i.indisready) AND a.amname <> 'hnsw' AND c.relnamespace::regnamespace::text = ANY ($1)
			AND NOT EXISTS (
				SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = $2 AND objsubid = 1
					AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`,
		m.tracks, lock.DefaultLockID).Scan(&name)
	if err != nil {
		return "", fmt.Errorf("look for unfinished indexes: %w", err)
	}
	return name, nil
}
