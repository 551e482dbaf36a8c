package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/backend"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply the migrations that are missing."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations and whether they have been applied."`
	Plan   migratePlanCmd   `cmd:"" help:"Print the SQL that up would run, and change nothing."`
}

// migrateHelp is the help of read-only subcommands.
const migrateHelp = "Exit codes: 0 nothing is missing, 1 failure, 2 wrong usage, 3 migrations are missing."

// errMissing has its own exit code.
var errMissing = errors.New("migrations are missing: run `triskele migrate up`")

type migrateUpCmd struct {
	JSON     bool          `help:"Print each migration that was applied, or has to wait for locks, as a line of JSON."`
	Database databaseFlags `embed:""`
}

// Help is shown below the flags.
func (*migrateUpCmd) Help() string {
	return "Safe to run again, and by several at once. Exit codes: 0 up to date now, 1 failure, 2 wrong usage."
}

// Validate implements kong's interface.
func (c *migrateUpCmd) Validate() error { return c.Database.check() }

// Run applies missing migrations and prints each.
func (c *migrateUpCmd) Run(ctx context.Context, env *Env) error {
	t, err := c.Database.target(env)
	if err != nil {
		return err
	}
	if err := t.create(); err != nil {
		return err
	}
	return t.with(ctx, func(b backend.Backend) error {
		var printing error
		steps, err := b.Migrate(ctx, func(step schema.Step) {
			if c.JSON {
				printing = errors.Join(printing, env.printLine(step))
				return
			}
			line := fmt.Sprintf("%s %s %s\n", step.State, step.Track, step.Name)
			if step.State == schema.Waiting {
				line = fmt.Sprintf("waiting for locks of other transactions, then trying again: %s %s\n", step.Track, step.Name)
			}
			printing = errors.Join(printing, env.print(line))
		})
		if err := errors.Join(err, printing); err != nil {
			return err
		}
		if len(steps) == 0 && !c.JSON {
			return env.print("nothing to do: the schema is up to date\n")
		}
		return nil
	})
}

type migrateStatusCmd struct {
	JSON     bool          `help:"Print each migration as a line of JSON."`
	Database databaseFlags `embed:""`
}

// Help is shown below the flags.
func (*migrateStatusCmd) Help() string { return migrateHelp }

// Validate implements kong's interface.
func (c *migrateStatusCmd) Validate() error { return c.Database.check() }

// Run lists all migrations.
func (c *migrateStatusCmd) Run(ctx context.Context, env *Env) error {
	t, err := c.Database.target(env)
	if err != nil {
		return err
	}
	if err := t.exists(); err != nil {
		return err
	}
	return t.with(ctx, func(b backend.Backend) error {
		steps, err := b.Status(ctx)
		if err != nil {
			return err
		}
		var out strings.Builder
		var missing error
		for _, step := range steps {
			if step.State == schema.Missing {
				missing = errMissing
			}
			if c.JSON {
				if err := env.printLine(step); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(&out, "%-7s  %-8s %s\n", step.State, step.Track, step.Name)
		}
		return errors.Join(env.print(out.String()), missing)
	})
}

type migratePlanCmd struct {
	JSON     bool          `help:"Print each migration as a line of JSON, with its SQL."`
	Database databaseFlags `embed:""`
}

// Help is shown below the flags.
func (*migratePlanCmd) Help() string { return migrateHelp }

// Validate implements kong's interface.
func (c *migratePlanCmd) Validate() error { return c.Database.check() }

// Run prints the plan as SQL.
func (c *migratePlanCmd) Run(ctx context.Context, env *Env) error {
	t, err := c.Database.target(env)
	if err != nil {
		return err
	}
	if err := t.exists(); err != nil {
		return err
	}
	return t.with(ctx, func(b backend.Backend) error {
		steps, err := b.Plan(ctx)
		if err != nil {
			return err
		}
		if len(steps) == 0 && !c.JSON {
			return env.print("-- nothing to do: the schema is up to date\n")
		}
		var missing error
		var out strings.Builder
		for _, step := range steps {
			missing = errMissing
			if c.JSON {
				if err := env.printLine(step); err != nil {
					return err
				}
				continue
			}
			how := "in a transaction"
			if !step.Transaction {
				how = "without a transaction: safe to run again if it is interrupted"
			}
			fmt.Fprintf(&out, "-- %s %s, %s\n\n%s\n", step.Track, step.Name, how, step.SQL)
		}
		return errors.Join(env.print(out.String()), missing)
	})
}
