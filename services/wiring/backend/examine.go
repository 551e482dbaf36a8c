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

	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Examination is the result of Examine, for an operator.
type Examination struct {
	TooOld []string      // the server or an extension, with the needed version
	Clock  time.Duration // the database's clock minus this host's, to half of the round trip
	Damage []string      // faults that the engine finds in its own file
	// WriteError is one of package diskerr's errors if the database can store nothing. It is nil if a trial write
	// succeeded, which is rolled back.
	WriteError error
	// Free is how many bytes the disk of the file has left; -1 if unknown.
	Free    int64
	Invalid []string // unfinished indexes, as psql names them
	// NoVectorIndex is true if the active model's vectors have no finished HNSW index although a namespace is too large for memory.
	NoVectorIndex bool
	// UnindexedIn are up to ten namespaces with memories missing from the lexical index.
	UnindexedIn []string
	// Vectorless counts memories that may be embedded, lack a vector of the active model, and have no task.
	Vectorless int64
	IsStandby  bool // the database itself is a standby
	Standbys   []Standby
	Nodes      []Node   // of a Citus cluster
	Whole      []string // tables that a Citus cluster has on one node, although their rows are of namespaces
}

// Node is a node of a Citus cluster that holds namespaces.
type Node struct {
	Name   string // host and port
	Active bool
	Shards int64 // each has all rows of some namespaces
	Bytes  int64 // of tables and indexes
}

// Standby is a server that follows the database.
type Standby struct {
	Name, State string        // as in pg_stat_replication
	Lag         time.Duration // of the replayed WAL
}

// Minimum versions: pgvector 0.8 has the index for halfvec and iterative scans.
const (
	minServer   = 15
	minPgvector = "0.8"
)

// Examine diagnoses the database. It reads every key, writes about 1 MB in a transaction that it rolls back, and needs all
// tables.
func (b *Backend) Examine(ctx context.Context) (e Examination, err error) {
	if b.store.File != nil {
		err = b.examineFile(ctx, &e)
	} else {
		err = b.examineServer(ctx, &e)
	}
	if err != nil || len(e.Damage) > 0 { // later queries may fail on damage
		return e, err
	}
	all := b.store.DB().In(postgres.AllNamespaces)
	if e.UnindexedIn, err = sqldb.Column[string](ctx, all, `SELECT DISTINCT m.namespace FROM memory.memories m
		WHERE NOT EXISTS (SELECT 1 FROM lexical.documents d WHERE d.namespace = m.namespace AND d.memory_id = m.id) ORDER BY 1 LIMIT 10`); err != nil {
		return e, err
	}
	_, err = all.Get(ctx, `
		SELECT count(*) FROM memory.memories m JOIN dense.models a ON a.status = 'active'
		WHERE EXISTS (SELECT 1 FROM dense.model_rows r WHERE r.model_id = a.id AND r.sensitive = m.sensitive)
			AND NOT EXISTS (SELECT 1 FROM dense.vectors v WHERE v.namespace = m.namespace AND v.memory_id = m.id AND v.model_id = a.id)
			AND NOT EXISTS (SELECT 1 FROM memory.index_queue q WHERE q.namespace = m.namespace AND q.memory_id = m.id AND q.index_name = 'dense')`,
		nil, &e.Vectorless)
	return e, err
}

func (b *Backend) examineServer(ctx context.Context, e *Examination) error {
	pool, asked := b.store.Pool, time.Now()
	var now time.Time
	var server int
	var pgvector string
	err := pool.QueryRow(ctx, `SELECT clock_timestamp(), current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),
		coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), '')`).Scan(&now, &server, &e.IsStandby, &pgvector)
	if err != nil {
		return err
	}
	e.Clock = now.Sub(asked.Add(time.Since(asked) / 2))
	e.Free = -1 // the server's disk is unknown
	if !e.IsStandby {
		if e.WriteError, err = b.tryServer(ctx); err != nil {
			return err
		}
	}
	if server < minServer {
		e.TooOld = append(e.TooOld, fmt.Sprintf("PostgreSQL %d is too old: version %d is needed", server, minServer))
	}
	if olderThan(pgvector, minPgvector) {
		e.TooOld = append(e.TooOld, fmt.Sprintf("pgvector %s is too old: version %s is needed", pgvector, minPgvector))
	}
	// A model's partitioned index is invalid until its partitions' indexes are valid: see NoVectorIndex.
	if e.Invalid, err = sqldb.Column[string](ctx, b.store.DB().In(postgres.AllNamespaces), `SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE NOT (i.indisvalid AND i.indisready) AND c.relnamespace::regnamespace::text IN ('memory', 'lexical', 'dense', 'graph')
			AND NOT EXISTS (SELECT 1 FROM dense.models m WHERE c.relname LIKE 'vectors%\_near\_' || m.id) ORDER BY 1`); err != nil {
		return err
	}
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM dense.models a WHERE a.status = 'active' AND a.indexed AND NOT EXISTS (
		SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('dense.vectors_near_' || a.id) AND indisvalid))`).Scan(&e.NoVectorIndex); err != nil {
		return err
	}
	// A role without the privilege for it sees only names, no state. The rows have the query's error.
	rows, _ := pool.Query(ctx, `SELECT coalesce(application_name, ''), coalesce(state, ''), coalesce(replay_lag, '0') FROM pg_stat_replication ORDER BY 1`)
	if e.Standbys, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Standby]); err != nil {
		return err
	}
	return b.examineNodes(ctx, e)
}

// examineNodes fills in the nodes, if the server is the coordinator of a Citus cluster.
func (b *Backend) examineNodes(ctx context.Context, e *Examination) (err error) {
	var citus bool
	if err = b.store.Pool.QueryRow(ctx, `SELECT to_regclass('pg_dist_node') IS NOT NULL`).Scan(&citus); err != nil || !citus {
		return err
	}
	rows, _ := b.store.Pool.Query(ctx, `
		SELECT n.nodename || ':' || n.nodeport, n.isactive, count(*) FILTER (WHERE s.table_name = 'memory.memories'::regclass), coalesce(sum(s.shard_size), 0)::bigint
		FROM pg_dist_node n LEFT JOIN citus_shards s ON s.nodename = n.nodename AND s.nodeport = n.nodeport AND s.citus_table_type = 'distributed'
		WHERE n.shouldhaveshards GROUP BY n.nodename, n.nodeport, n.isactive ORDER BY 1`) // the rows have its error
	if e.Nodes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Node]); err != nil {
		return err
	}
	e.Whole, err = sqldb.Column[string](ctx, b.store.DB().In(postgres.AllNamespaces), `
		SELECT t::text FROM memory.tables_by_namespace() t WHERE t NOT IN (SELECT logicalrelid FROM pg_dist_partition) ORDER BY 1`)
	return err
}

// tryServer writes about 1 MB, which needs disk space, and rolls back.
func (b *Backend) tryServer(ctx context.Context) (found, err error) {
	err = pgx.BeginFunc(ctx, b.store.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `CREATE TEMP TABLE triskele_probe AS SELECT md5(i::text) FROM generate_series(1, 16000) i`); err != nil {
			return err
		}
		return errRollback
	})
	switch err = postgres.Wrap(err); {
	case errors.Is(err, errRollback), postgres.IsForbidden(err): // a role without TEMP cannot try
		return nil, nil
	case postgres.IsReadOnly(err):
		return diskerr.ErrReadOnly, nil
	case diskerr.Of(err) != nil:
		return diskerr.Of(err), nil
	}
	return nil, err
}

var errRollback = errors.New("roll back the probe")

// olderThan compares major and minor versions; an unparsable version is older.
func olderThan(version, least string) bool {
	var major, minor, leastMajor, leastMinor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
	_, _ = fmt.Sscanf(least, "%d.%d", &leastMajor, &leastMinor)
	return major < leastMajor || major == leastMajor && minor < leastMinor
}

// tryFile changes a row and rolls back, which reaches no disk. It also writes 1 MB beside the file, which does.
func (b *Backend) tryFile(ctx context.Context) (found, err error) {
	err = b.store.File.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE write_sequence SET last = last`); err != nil {
			return err
		}
		return errRollback
	})
	switch {
	case diskerr.Of(err) != nil:
		return diskerr.Of(err), nil
	case !errors.Is(err, errRollback) && !sqlite.IsBusy(err): // a busy writer shows that writes work
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(b.path), ".triskele-probe-*")
	if err == nil {
		_, err = file.Write(make([]byte, 1<<20))
		err = errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name()))
	}
	switch {
	case err == nil, errors.Is(err, os.ErrPermission): // the database file was writable
		return nil, nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskerr.ErrFull, nil
	case errors.Is(err, syscall.EROFS):
		return diskerr.ErrReadOnly, nil
	}
	return diskerr.ErrDisk, nil
}

// examineFile leaves Clock at 0: it is the host's clock.
func (b *Backend) examineFile(ctx context.Context, e *Examination) (err error) {
	if e.WriteError, err = b.tryFile(ctx); err != nil {
		return err
	}
	e.Free = free(filepath.Dir(b.path))
	e.Damage, err = sqldb.Column[string](ctx, b.store.DB().In(postgres.AllNamespaces), `PRAGMA quick_check(5)`)
	e.Damage = slices.DeleteFunc(e.Damage, func(text string) bool { return text == "ok" })
	return err
}
