package sqldb

import (
	"context"
	"database/sql"

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

// Write runs fn in a transaction that begins with PostgreSQL's settings, as postgres.Write, and anew after a conflict with another one.
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
	for range writeAttempts {
		err = postgres.Write(ctx, s.Pool, settings, func(tx pgx.Tx, changes postgres.Changes) error {
			return fn(Tx{Postgres: postgres.WriteTx{Tx: tx, Changes: changes}})
		})
		if !postgres.IsRetryable(err) {
			break
		}
	}
	return err
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
