package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/triskele/triskele/services/backend"
	"github.com/triskele/triskele/services/cli/render"
	"github.com/triskele/triskele/services/queue"
)

type queueCmd struct {
	List  queueListCmd  `cmd:"" help:"List memories that an index has yet to catch up with, those given up on first."`
	Retry queueRetryCmd `cmd:"" help:"Let the indexes try again what they have given up on."`
}

// selectionFlags say which tasks are meant.
type selectionFlags struct {
	Index     string        `help:"Only this index." placeholder:"INDEX"`
	Namespace string        `short:"n" help:"Only this namespace."`
	Database  databaseFlags `embed:""`
}

// Validate implements kong's interface.
func (f *selectionFlags) Validate() error { return f.Database.check() }

func (f *selectionFlags) with(ctx context.Context, env *Env, fn func(queue.Care) error) error {
	t, err := f.Database.target(env)
	if err != nil {
		return err
	}
	if err := t.exists(); err != nil {
		return err
	}
	return t.with(ctx, func(b backend.Backend) error { return fn(b.Queue()) })
}

type queueListCmd struct {
	selectionFlags
	Dead  bool `help:"Only those given up on."`
	Limit int  `help:"How many at most." default:"50"`
}

// Validate implements kong's interface.
func (c *queueListCmd) Validate() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit must be at least 1")
	}
	return c.Database.check()
}

// Run lists tasks: what they are for and how they fare, never what the memory says.
func (c *queueListCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, env, func(q queue.Care) error {
		entries, err := q.List(ctx, queue.Selection{Index: c.Index, Namespace: c.Namespace, Dead: c.Dead}, c.Limit)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return env.print("nothing\n")
		}
		style := env.style()
		var out strings.Builder
		out.WriteString(style.Bold(fmt.Sprintf("%-36s  %-5s  %-8s  %5s  %8s  %s", "memory", "index", "state", "tries", "waits", "namespace, last error")) + "\n")
		for _, e := range entries {
			state := fmt.Sprintf("%-8s", "pending")
			if e.Dead {
				state = style.Bad("given up")
			}
			fmt.Fprintf(&out, "%s  %-5s  %s  %5d  %8s  %s\n", e.ID, e.Index, state, e.Attempts,
				env.Now().Sub(e.EnqueuedAt).Round(time.Second), render.Plain(e.Namespace+" "+e.LastError))
		}
		return env.print(out.String())
	})
}

type queueRetryCmd struct {
	selectionFlags
}

// Run makes dead tasks due again.
func (c *queueRetryCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, env, func(q queue.Care) error {
		n, err := q.Retry(ctx, queue.Selection{Index: c.Index, Namespace: c.Namespace})
		if err != nil {
			return err
		}
		return env.print(render.Count(n, "memory is", "memories are") + " tried again\n")
	})
}
