package sqldb

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Store is where a database is read and written: File is nil on PostgreSQL.
type Store struct {
	Pool    *pgxpool.Pool
	Standby *postgres.Standby // where searches read; nil for the primary
	File    *sqlite.DB
	// Writers, if not nil, has room for the transactions that write at a time: those that wait for locks leave connections to reads.
	Writers chan struct{}
}

// DB returns the database for reads.
func (s Store) DB() DB {
	if s.File != nil {
		return DB{SQLite: s.File.Read}
	}
	return DB{Postgres: s.Pool}
}

// Searched returns the database for searches, which is the standby if there is one.
func (s Store) Searched() DB {
	if s.File != nil {
		return s.DB()
	}
	return DB{Postgres: s.Standby.Or(s.Pool)}
}

// writeAttempts bounds the attempts after conflicts between transactions.
const writeAttempts = 5

// plannedOnce makes a transaction keep the plans of its statements. Foreign keys to a partitioned table are the reason. PostgreSQL plans
// each of their checks anew, which takes five times as long as the check: it expects a plan for eight partitions to cost more.
// A plan that is kept must not scan a table that was small then. Citus cannot keep plans of statements with parameters.
const plannedOnce = `; SET LOCAL enable_seqscan = off; SELECT set_config('plan_cache_mode', 'force_generic_plan', true) WHERE to_regclass('pg_catalog.pg_dist_node') IS NULL`

// Write runs fn in a transaction, and anew after a conflict with another one. On PostgreSQL it begins with settings, a list of SET LOCAL
// statements that may be empty.
func (s Store) Write(ctx context.Context, settings string, fn func(Tx) error) (err error) {
	if s.File != nil {
		return s.File.Update(ctx, func(tx *sql.Tx) error { return fn(Tx{SQLite: tx}) })
	}
	if s.Writers != nil {
		select {
		case s.Writers <- struct{}{}:
			defer func() { <-s.Writers }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	begin := pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL triskele.notes = 'own'" + plannedOnce + settings} // in one round trip
	for range writeAttempts {
		err = pgx.BeginTxFunc(ctx, s.Pool, begin, func(pg pgx.Tx) error {
			tx := Tx{Postgres: pg, changes: map[string]Rows{}}
			if err := fn(tx); err != nil {
				return err
			}
			return tx.tell(ctx)
		})
		if !postgres.IsRetryable(err) {
			break
		}
	}
	return err
}

// tell writes what was noted. Until the transaction ends, others who change these namespaces wait at this place.
func (tx Tx) tell(ctx context.Context) error {
	var batch Batch
	for _, namespace := range slices.Sorted(maps.Keys(tx.changes)) { // in this order nobody waits in a circle
		batch.Exec(`SELECT memory.enter($1)`, namespace)
		batch.Exec(`SELECT memory.note($1, $2, $3)`, namespace, tx.changes[namespace])
	}
	return tx.In(postgres.Entered).Send(ctx, &batch)
}

// Snapshot runs fn in a read-only transaction on one snapshot.
func (s Store) Snapshot(ctx context.Context, fn func(DB) error) error {
	if s.File == nil {
		options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		return pgx.BeginTxFunc(ctx, s.Pool, options, func(tx pgx.Tx) error { return fn(DB{Postgres: tx}) })
	}
	tx, err := s.File.Read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return fn(DB{SQLite: tx})
}
