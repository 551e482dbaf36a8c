package eval

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// dropTime bounds the removal of a database. It also applies after the run was cancelled.
const dropTime = 30 * time.Second

// store is an empty database for one set.
type store struct {
	postgres, sqlite string                      // one of them, for standalone.Config
	settle           func(context.Context) error // brings the tables into the state of a long-running database
	version          func(context.Context) (string, error)
	drop             func() error
}

func (r *runner) newStore(ctx context.Context) (*store, error) {
	if r.options.Store == "postgres" {
		return newPostgres(ctx, r.options.Postgres)
	}
	return newSQLite()
}

func newSQLite() (*store, error) {
	folder, err := os.MkdirTemp("", "triskele_eval_")
	if err != nil {
		return nil, err
	}
	return &store{
		sqlite: filepath.Join(folder, "triskele.db"),
		settle: func(context.Context) error { return nil },
		version: func(ctx context.Context) (version string, err error) {
			db, err := sql.Open("sqlite", ":memory:")
			if err != nil {
				return "", err
			}
			defer func() { _ = db.Close() }()
			err = db.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&version)
			return version, err
		},
		drop: func() error { return os.RemoveAll(folder) },
	}, nil
}

func newPostgres(ctx context.Context, server string) (*store, error) {
	name := "triskele_eval_" + strings.ReplaceAll(uuid.New().String(), "-", "")
	target, err := onDatabase(server, name)
	if err != nil {
		return nil, err
	}
	if err := execute(ctx, server, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("create the database: %w", err)
	}
	return &store{
		postgres: target,
		// Autovacuum would do this at some moment of the run, and disturb the latencies.
		settle: func(ctx context.Context) error { return execute(ctx, target, "VACUUM (ANALYZE)") },
		version: func(ctx context.Context) (version string, err error) {
			err = connected(ctx, target, func(conn *pgx.Conn) error {
				return conn.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') ||
					coalesce((SELECT ', pgvector ' || extversion FROM pg_extension WHERE extname = 'vector'), '')`).Scan(&version)
			})
			return version, err
		},
		drop: func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
			defer cancel()
			if err := execute(ctx, server, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
				return fmt.Errorf("drop the database %s: %w", name, err)
			}
			return nil
		},
	}, nil
}

// onDatabase replaces the database in a connection string, which may be a URL or keywords.
func onDatabase(server, name string) (string, error) {
	target := server + " dbname=" + name // the last of repeated keywords is used
	if u, err := url.Parse(server); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		query := u.Query()
		query.Del("dbname")
		u.Path, u.RawQuery = "/"+name, query.Encode()
		target = u.String()
	}
	config, err := pgx.ParseConfig(target)
	if err != nil || config.Database != name {
		// The cause may show the password.
		return "", errors.New("the PostgreSQL connection string is not valid")
	}
	return target, nil
}

func connected(ctx context.Context, target string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return fn(conn)
}

func execute(ctx context.Context, target, statement string) error {
	return connected(ctx, target, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}
