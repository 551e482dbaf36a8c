package backend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/store/trouble"
)

// Examination is what a look at the database itself has found, for an operator.
type Examination struct {
	TooOld []string      // the server or an extension, each with what is needed
	Clock  time.Duration // how far the database's clock is ahead of this host's, to half of what asking took
	Damage []string      // what the engine finds wrong with its own file
	// Trouble is what keeps the database from storing anything, one of package trouble's errors; nil if a write went well that was
	// taken back.
	Trouble error
	// Free is how many bytes the disk of the file has left; -1 if that cannot be told.
	Free    int64
	Invalid []string // indexes that were begun and not finished, as psql names them
	// NoVectorIndex says that the active model's vectors have no finished HNSW index.
	NoVectorIndex bool
	// WordlessIn and MiscountedIn are namespaces with memories that the lexical index lacks, and with statistics that
	// do not add up; up to ten each.
	WordlessIn, MiscountedIn []string
	// Vectorless counts memories that may be embedded, have no vector of the active model, and do not wait for one.
	Vectorless int64
	IsStandby  bool // the database is a standby itself
	Standbys   []Standby
}

// Standby is a server that follows the database.
type Standby struct {
	Name, State string        // as in pg_stat_replication
	Lag         time.Duration // of what it has replayed
}

// Least versions that have what the services use: halfvec's index and iterative scans came with pgvector 0.8.
const (
	minServer   = 15
	minPgvector = "0.8"
)

// Examine implements Backend.
func (b *Postgres) Examine(ctx context.Context) (e Examination, err error) {
	asked := time.Now()
	var now time.Time
	var server int
	var pgvector string
	if err := b.pool.QueryRow(ctx, `SELECT clock_timestamp(), current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),
		coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), '')`).Scan(&now, &server, &e.IsStandby, &pgvector); err != nil {
		return e, err
	}
	e.Clock = now.Sub(asked.Add(time.Since(asked) / 2))
	e.Free = -1 // of whatever disk the server is on
	if !e.IsStandby {
		if e.Trouble, err = b.tryWriting(ctx); err != nil {
			return e, err
		}
	}
	if server < minServer {
		e.TooOld = append(e.TooOld, fmt.Sprintf("PostgreSQL %d, needed is %d", server, minServer))
	}
	if olderThan(pgvector, minPgvector) {
		e.TooOld = append(e.TooOld, fmt.Sprintf("pgvector %s, needed is %s", pgvector, minPgvector))
	}
	names := func(into *[]string, statement string) {
		if err != nil {
			return
		}
		var rows pgx.Rows
		if rows, err = postgres.In(b.pool, postgres.AllNamespaces).Query(ctx, statement); err == nil {
			*into, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
	}
	// A building model's index over all partitions is not valid before those of the partitions are.
	names(&e.Invalid, `SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE NOT (i.indisvalid AND i.indisready) AND c.relnamespace::regnamespace::text IN ('memory', 'lexical', 'dense', 'graph')
			AND NOT EXISTS (SELECT FROM dense.models m WHERE m.status = 'building' AND c.relname LIKE 'vectors%\_near\_' || m.id) ORDER BY 1`)
	names(&e.WordlessIn, `SELECT DISTINCT m.namespace FROM memory.memories m
		WHERE NOT EXISTS (SELECT FROM lexical.documents d WHERE d.namespace = m.namespace AND d.memory_id = m.id) ORDER BY 1 LIMIT 10`)
	names(&e.MiscountedIn, `SELECT namespace FROM lexical.totals t
		FULL JOIN (SELECT namespace, count(*) FROM lexical.entries WHERE number IS NOT NULL GROUP BY namespace) e (namespace, n) USING (namespace)
		FULL JOIN (SELECT namespace, count(*) FROM lexical.removals WHERE term = '' GROUP BY namespace) r (namespace, n) USING (namespace)
		WHERE coalesce(t.documents, 0) <> coalesce(e.n, 0) + coalesce(r.n, 0) ORDER BY 1 LIMIT 10`)
	if err != nil {
		return e, err
	}
	if err := postgres.In(b.pool, postgres.AllNamespaces).QueryRow(ctx, `
		WITH active AS (SELECT id FROM dense.models WHERE status = 'active')
		SELECT (SELECT count(*) FROM memory.memories m CROSS JOIN active a
				WHERE EXISTS (SELECT FROM dense.model_rows r WHERE r.model_id = a.id AND r.sensitive = m.sensitive)
				AND NOT EXISTS (SELECT FROM dense.vectors v WHERE v.namespace = m.namespace AND v.memory_id = m.id AND v.model_id = a.id)
				AND NOT EXISTS (SELECT FROM memory.index_queue q WHERE q.namespace = m.namespace AND q.memory_id = m.id AND q.index_name = 'dense')),
			EXISTS (SELECT FROM active a WHERE NOT EXISTS (
				SELECT FROM pg_index WHERE indexrelid = to_regclass('dense.vectors_near_' || a.id) AND indisvalid))`).
		Scan(&e.Vectorless, &e.NoVectorIndex); err != nil {
		return e, err
	}
	// Who may not see the others sees their names alone, and no state.
	rows, err := b.pool.Query(ctx, `SELECT coalesce(application_name, ''), coalesce(state, ''), coalesce(replay_lag, '0') FROM pg_stat_replication ORDER BY 1`)
	if err != nil {
		return e, err
	}
	e.Standbys, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Standby])
	return e, err
}

// tryWriting writes some 1 MB, which needs room on the disk, and takes it back.
func (b *Postgres) tryWriting(ctx context.Context) (found, err error) {
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `CREATE TEMP TABLE triskele_probe AS SELECT md5(i::text) FROM generate_series(1, 16000) i`); err != nil {
			return err
		}
		return errTakeBack
	})
	switch err = postgres.Wrap(err); {
	case errors.Is(err, errTakeBack), postgres.IsForbidden(err): // a role without TEMP can tell nothing
		return nil, nil
	case postgres.IsReadOnly(err):
		return trouble.ReadOnly, nil
	case trouble.Of(err) != nil:
		return trouble.Of(err), nil
	}
	return nil, err
}

// errTakeBack ends a transaction that is not to be kept.
var errTakeBack = errors.New("take back what was written")

// olderThan compares the first two numbers of versions; a version that is none is older.
func olderThan(version, least string) bool {
	var major, minor, leastMajor, leastMinor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
	_, _ = fmt.Sscanf(least, "%d.%d", &leastMajor, &leastMinor)
	return major < leastMajor || major == leastMajor && minor < leastMinor
}

// tryWriting changes a row and takes that back, which reaches no disk, and writes 1 MB beside the file, which does.
func (b *SQLite) tryWriting(ctx context.Context) (found, err error) {
	err = b.db.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE write_sequence SET last = last`); err != nil {
			return err
		}
		return errTakeBack
	})
	switch {
	case trouble.Of(err) != nil:
		return trouble.Of(err), nil
	case !errors.Is(err, errTakeBack) && !sqlite.IsBusy(err): // who is busy writing can write
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(b.path), ".triskele-probe-*")
	if err == nil {
		_, err = file.Write(make([]byte, 1<<20))
		err = errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name()))
	}
	switch {
	case err == nil, errors.Is(err, os.ErrPermission): // the file itself could be written
		return nil, nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return trouble.Full, nil
	case errors.Is(err, syscall.EROFS):
		return trouble.ReadOnly, nil
	}
	return trouble.Disk, nil
}

// Examine implements Backend. The file's clock is this host's.
func (b *SQLite) Examine(ctx context.Context) (e Examination, err error) {
	texts := func(into *[]string, statement string) {
		if err != nil {
			return
		}
		rows, queried := b.db.Read.QueryContext(ctx, statement)
		if err = queried; err != nil {
			return
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() && err == nil {
			var text string
			err = rows.Scan(&text)
			*into = append(*into, text)
		}
		if err == nil {
			err = rows.Err()
		}
	}
	if e.Trouble, err = b.tryWriting(ctx); err != nil {
		return e, err
	}
	e.Free = free(filepath.Dir(b.path))
	texts(&e.Damage, `PRAGMA quick_check(5)`)
	if e.Damage = slices.DeleteFunc(e.Damage, func(text string) bool { return text == "ok" }); len(e.Damage) > 0 {
		return e, nil // what is asked below may fail of it
	}
	texts(&e.WordlessIn, `SELECT DISTINCT m.namespace FROM memories m
		WHERE NOT EXISTS (SELECT 1 FROM lexical_documents d WHERE d.namespace = m.namespace AND d.memory_id = m.id) ORDER BY 1 LIMIT 10`)
	if err != nil {
		return e, err
	}
	return e, b.db.Read.QueryRowContext(ctx, `
		SELECT count(*) FROM memories m JOIN dense_models a ON a.status = 'active'
		WHERE EXISTS (SELECT 1 FROM dense_model_rows r WHERE r.model_id = a.id AND r.sensitive = m.sensitive)
			AND NOT EXISTS (SELECT 1 FROM dense_vectors v WHERE v.namespace = m.namespace AND v.memory_id = m.id AND v.model_id = a.id)
			AND NOT EXISTS (SELECT 1 FROM index_queue q WHERE q.namespace = m.namespace AND q.memory_id = m.id AND q.index_name = 'dense')`).Scan(&e.Vectorless)
}
