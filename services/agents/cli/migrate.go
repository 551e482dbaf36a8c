package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/backend"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply the migrations that are missing."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations and whether they have been applied."`
	Plan   migratePlanCmd   `cmd:"" help:"Print the SQL that up would run, and change nothing."`
}

var errMissing = partlyError{errors.New("migrations are missing: run `triskele migrate up`")}

type migrateUpCmd struct {
	JSON        bool `help:"Print each migration that was applied, or has to wait for locks, as a line of JSON."`
	Distributed bool `help:"Then spread the tables over the nodes of a Citus cluster. The database is its coordinator's; stop all other programs first."`
	databaseFlags
}

func (c *migrateUpCmd) Run(ctx context.Context, env *Env) error {
	t, err := c.target(env)
	if err != nil {
		return err
	}
	if err := t.create(ctx, env); err != nil {
		return err
	}
	return t.with(ctx, func(b *backend.Backend) error {
		var printing error
		steps, err := b.Migrate(ctx, func(step schema.Step) {
			line := fmt.Sprintf("%s %s %s\n", step.State, step.Track, step.Name)
			if step.State == schema.Waiting {
				line = fmt.Sprintf("waiting for locks of other transactions, then trying again: %s %s\n", step.Track, step.Name)
			}
			printing = errors.Join(printing, env.showLine(c.JSON, step, line))
		})
		if err := errors.Join(err, printing); err != nil {
			return err
		}
		if len(steps) == 0 && !c.JSON {
			if err := env.print("nothing to do: the schema is up to date\n"); err != nil {
				return err
			}
		}
		if !c.Distributed {
			return nil
		}
		if err := b.Distribute(ctx); err != nil || c.JSON {
			return err
		}
		return env.print("the tables are distributed: `triskele doctor` shows the nodes\n")
	})
}

// stepsFlags are those of the commands that print migrations and change nothing.
type stepsFlags struct {
	JSON bool `help:"Print each migration as a line of JSON."`
	databaseFlags
}

type migrateStatusCmd struct{ stepsFlags }

func (c *migrateStatusCmd) Run(ctx context.Context, env *Env) error {
	return c.existing(ctx, env, func(b *backend.Backend) error {
		steps, err := b.Status(ctx)
		if err != nil {
			return err
		}
		var missing error
		for _, step := range steps {
			if step.State == schema.Missing {
				missing = errMissing
			}
			if err := env.showLine(c.JSON, step, fmt.Sprintf("%-7s  %-8s %s\n", step.State, step.Track, step.Name)); err != nil {
				return err
			}
		}
		return missing
	})
}

type migratePlanCmd struct{ stepsFlags }

func (c *migratePlanCmd) Run(ctx context.Context, env *Env) error {
	return c.existing(ctx, env, func(b *backend.Backend) error {
		steps, err := b.Plan(ctx)
		if err != nil {
			return err
		}
		if len(steps) == 0 && !c.JSON {
			return env.print("-- nothing to do: the schema is up to date\n")
		}
		var missing error
		for _, step := range steps {
			missing = errMissing
			how := "in a transaction"
			if !step.Transaction {
				how = "without a transaction: safe to run again if it is interrupted"
			}
			if err := env.showLine(c.JSON, step, fmt.Sprintf("-- %s %s, %s\n\n%s\n", step.Track, step.Name, how, step.SQL)); err != nil {
				return err
			}
		}
		return missing
	})
}
