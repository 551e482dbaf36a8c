package eval

import (
	"context"
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

// createSQLite returns the path of a database that Close removes.
func (s *System) createSQLite() (string, error) {
	folder, err := os.MkdirTemp("", "triskele_eval_")
	if err != nil {
		return "", err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(folder) })
	return filepath.Join(folder, "triskele.db"), nil
}

// createPostgres creates a database on a server, which Close removes, and returns its connection string.
func (s *System) createPostgres(ctx context.Context, server string) (string, error) {
	name := "triskele_eval_" + strings.ReplaceAll(uuid.New().String(), "-", "")
	target, err := onDatabase(server, name)
	if err != nil {
		return "", err
	}
	if err := execute(ctx, server, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create the database: %w", err)
	}
	s.closers = append(s.closers, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
		defer cancel()
		if err := execute(ctx, server, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop the database %s: %w", name, err)
		}
		return nil
	})
	return target, nil
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

func execute(ctx context.Context, target, statement string) error {
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
