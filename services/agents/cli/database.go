package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/backend"
)

// databaseFlags select the database. The default is the SQLite file in the platform's data folder.
type databaseFlags struct {
	Store    string `help:"Kind of database: sqlite or postgres; follows from --sqlite and --postgres if not given." enum:",sqlite,postgres" default:"" placeholder:"KIND" group:"Database:"`
	SQLite   string `name:"sqlite" help:"Path of the SQLite file; the platform's data folder if not given." env:"TRISKELE_SQLITE" placeholder:"PATH" group:"Database:"`
	Postgres string `help:"PostgreSQL connection URL." env:"TRISKELE_POSTGRES" placeholder:"URL" group:"Database:"`
}

func (d databaseFlags) Validate() error {
	switch {
	case d.Store == "postgres" && d.Postgres == "":
		return errors.New("--store postgres needs --postgres URL")
	case d.Store == "" && d.Postgres != "" && d.SQLite != "":
		return errors.New("both --sqlite and --postgres are given: choose one with --store")
	}
	return nil
}

func (d databaseFlags) given() bool { return d.Store != "" || d.SQLite != "" || d.Postgres != "" }

// target is a database to open: a URL, or the path of a file.
type target struct {
	url, path string
	named     bool // the user named the file
}

func (d databaseFlags) target(env *Env) (target, error) {
	if d.Store == "postgres" || (d.Store == "" && d.Postgres != "") {
		return target{url: d.Postgres}, nil
	}
	if d.SQLite != "" {
		return target{path: d.SQLite, named: true}, nil
	}
	folder, err := env.home().Data("triskele")
	if err != nil {
		return target{}, fmt.Errorf("%w: give --sqlite PATH", err)
	}
	return target{path: filepath.Join(folder, "triskele.db")}, nil
}

func (t target) String() string {
	if t.url != "" {
		return "the PostgreSQL database" // its URL may hold a password
	}
	return t.path
}

// create makes a file that only its owner can read. It makes the platform's data folder, but asks before it makes a folder that the
// user named, and refuses if it cannot ask: a mistyped path would be an empty database. SQLite gives its side files the same mode.
func (t target) create(ctx context.Context, env *Env) error {
	if t.url != "" {
		return nil
	}
	folder := filepath.Dir(t.path)
	if _, err := os.Stat(folder); t.named && errors.Is(err, fs.ErrNotExist) {
		answer := ""
		if in, ok := env.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
			if answer, err = env.ask(ctx, fmt.Sprintf("There is no folder %s. Create it? [y/N] ", folder)); err != nil {
				return err
			}
		}
		if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
			return fmt.Errorf("there is no folder %s: create it, or correct --sqlite", folder)
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(t.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func (t target) exists() error {
	if t.url != "" {
		return nil
	}
	if _, err := os.Stat(t.path); err != nil {
		return fmt.Errorf("no database exists at %s: `triskele up` or `triskele migrate up` creates one", t.path)
	}
	return nil
}

// existing calls fn with a database that exists.
func (d databaseFlags) existing(ctx context.Context, env *Env, fn func(*backend.Backend) error) error {
	t, err := d.target(env)
	if err != nil {
		return err
	}
	if err := t.exists(); err != nil {
		return err
	}
	return t.with(ctx, fn)
}

// migrated calls fn with a database in which these tracks, or all if none is named, have this program's schema.
func (d databaseFlags) migrated(ctx context.Context, env *Env, fn func(*backend.Backend) error, tracks ...string) error {
	return d.existing(ctx, env, func(b *backend.Backend) error {
		if err := b.Check(ctx, tracks...); err != nil {
			return err
		}
		return fn(b)
	})
}

// with calls fn with the opened database.
func (t target) with(ctx context.Context, fn func(*backend.Backend) error) (err error) {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	b, err := backend.Open(ctx, t.url, t.path, process.Service("triskele"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.Ping(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s does not answer: does it run, and is --postgres (or TRISKELE_POSTGRES) its URL? %w", t, err)
	}
	return fn(b)
}

// unloaded returns images for commands that change settings or tables and do not search.
func unloaded(ctx context.Context, b *backend.Backend) *replica.Set {
	return b.Images(ctx, replica.DefaultConfig(), slog.New(slog.DiscardHandler))
}
