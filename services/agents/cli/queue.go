package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/wiring/backend"
)

type queueCmd struct {
	List  queueListCmd  `cmd:"" help:"List memories that wait to be indexed, dead letters first."`
	Retry queueRetryCmd `cmd:"" help:"Retry dead letters: memories whose indexing was given up."`
}

type selectionFlags struct {
	Index     string `help:"Only this index." placeholder:"INDEX"`
	Namespace string `short:"n" help:"Only this namespace."`
	databaseFlags
}

func (f *selectionFlags) with(ctx context.Context, env *Env, fn func(*queue.Queue) error) error {
	return f.migrated(ctx, env, func(b *backend.Backend) error { return fn(b.Queue()) }, "memory")
}

type queueListCmd struct {
	selectionFlags
	Dead  bool `help:"Only dead letters."`
	Limit int  `help:"Maximum number of tasks." default:"50"`
	JSON  bool `help:"Print each as a line of JSON."`
}

func (c *queueListCmd) Validate() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit must be 1 or more")
	}
	return c.databaseFlags.Validate()
}

// Run lists tasks without the content of their memories.
func (c *queueListCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, env, func(q *queue.Queue) error {
		entries, err := q.List(ctx, queue.Selection{Index: c.Index, Namespace: c.Namespace, Dead: c.Dead}, c.Limit)
		if err != nil {
			return err
		}
		if c.JSON {
			return showLines(env, entries)
		}
		if len(entries) == 0 {
			return env.print("nothing\n")
		}
		style := env.style()
		table := render.Table{Columns: []render.Column{{Name: "memory"}, {Name: "index"}, {Name: "state"}, {Name: "tries", Right: true}, {Name: "waits", Right: true}, {Name: "namespace", Gives: true}, {Name: "last error", Gives: true}}}
		table.Columns[2].Paint = func(text string) string {
			if strings.HasPrefix(text, "given up") {
				return style.Bad(text)
			}
			return text
		}
		for _, e := range entries {
			state := "pending"
			if e.Dead {
				state = "given up"
			}
			table.Add(e.ID.String(), e.Index, state, fmt.Sprint(e.Attempts), env.Now().Sub(e.EnqueuedAt).Round(time.Second).String(), e.Namespace, e.LastError)
		}
		return env.print(style.Table(table))
	})
}

type queueRetryCmd struct {
	jsonFlag
	selectionFlags
}

func (c *queueRetryCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, env, func(q *queue.Queue) error {
		n, err := q.Retry(ctx, queue.Selection{Index: c.Index, Namespace: c.Namespace})
		return env.answer(err, c.JSON, map[string]int64{"tried_again": n}, render.Count(n, "memory is", "memories are")+" tried again\n")
	})
}
