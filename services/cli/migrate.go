package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/triskele/triskele/services/backend"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply the migrations that are missing."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations and whether they have been applied."`
}

type migrateUpCmd struct {
	Database databaseFlags `embed:""`
}

// Validate implements kong's interface.
func (c *migrateUpCmd) Validate() error { return c.Database.check() }

// Run applies what is missing and lists it.
func (c *migrateUpCmd) Run(ctx context.Context, env *Env) error {
	t, err := c.Database.target(env)
	if err != nil {
		return err
	}
	if err := t.create(); err != nil {
		return err
	}
	return t.with(ctx, func(b backend.Backend) error {
		steps, err := b.Migrate(ctx)
		for _, step := range steps {
			if err := env.print(fmt.Sprintf("applied %s %s\n", step.Track, step.Name)); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if len(steps) == 0 {
			return env.print("nothing to do: the schema is up to date\n")
		}
		return nil
	})
}

type migrateStatusCmd struct {
	Database databaseFlags `embed:""`
}

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
		for _, step := range steps {
			state := "missing"
			if step.Applied {
				state = "applied"
			}
			fmt.Fprintf(&out, "%s  %-8s %s\n", state, step.Track, step.Name)
		}
		return env.print(out.String())
	})
}
