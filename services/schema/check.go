package schema

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pressly/goose/v3/lock"
)

// tolerable returns an error if a track is more than one step newer than this program: steps work with the programs of
// the step before, and with none older.
func tolerable(steps []Step) error {
	newer := map[string]int{}
	for _, step := range steps {
		if step.State != Newer {
			continue
		}
		if newer[step.Track]++; newer[step.Track] > 1 {
			return fmt.Errorf("the database is too new: step %s of track %s is the second that this program does not know; run a newer program", step.Name, step.Track)
		}
	}
	return nil
}

func (m migrations) check(ctx context.Context, db *sql.DB, engine Engine) error {
	steps, err := m.status(ctx, db, engine)
	if err != nil {
		return err
	}
	if err := tolerable(steps); err != nil {
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
			return fmt.Errorf("the database lacks step %s of track %s, and index %s is not valid, as an interrupted step leaves it: run `triskele migrate up`", step.Name, step.Track, broken)
		default:
			return fmt.Errorf("the database lacks step %s of track %s: run `triskele migrate up`", step.Name, step.Track)
		}
	}
	if broken != "" {
		return fmt.Errorf("index %s is not valid, as an interrupted step leaves it: run `triskele migrate up` of the newest program in use or, if that finds nothing to do, REINDEX INDEX CONCURRENTLY %[1]s", broken)
	}
	return nil
}

// brokenIndex names an index of the tracks that was begun and not finished, "" if there is none. While somebody
// migrates, an unfinished one is no fault. Vector indexes are left out: they are built per model, while services serve.
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
