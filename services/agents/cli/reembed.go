package cli

import (
	"context"
	"fmt"

	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/wiring/backend"
)

type reembedCmd struct {
	jsonFlag
	MaxRate  int        `help:"Maximum memories to embed per second, to limit the load on the model and the database." placeholder:"N"`
	Embedder open.Flags `embed:"" group:"Embedder:"`
	databaseFlags
}

// Help is shown below the flags.
func (*reembedCmd) Help() string {
	return `Embeds all memories with the given embedder while the active model stays in use, then switches at once. Services keep running. An interrupted run resumes when it is run again.

After the switch, services with the old embedder answer from the old vectors until they are restarted with the new one. "triskele models prune" then removes the old vectors. With the active embedder, it embeds memories that lack a vector.`
}

// Validate implements kong's interface.
func (c *reembedCmd) Validate() error {
	if c.MaxRate < 0 {
		return fmt.Errorf("--max-rate must be at least 0")
	}
	return c.databaseFlags.Validate()
}

// Run changes the model.
func (c *reembedCmd) Run(ctx context.Context, env *Env) error {
	embedder, _, err := c.Embedder.Open(env.Getenv)
	if err != nil {
		return err
	}
	return c.models(ctx, env, func(models *dense.Models) error {
		report, finish := counted(env, "embedding")
		done, err := models.Reembed(ctx, embedder, c.MaxRate, report)
		finish()
		if err != nil {
			return err
		}
		memories := render.Count(done.Embedded, "memory", "memories")
		text := fmt.Sprintf("%s is the active model; embedded %s that had no current vector\n", done.Active, memories)
		if done.Switched {
			text = fmt.Sprintf("embedded %s; %s is the active model now\n", memories, done.Active)
			if done.Queued > 0 {
				text += fmt.Sprintf("%s left to the dense index's worker: written meanwhile, or without a vector\n", render.Count(done.Queued, "memory", "memories"))
			}
			text += `Restart what serves this database ("triskele up", densed) with the same --embedder, then remove the old vectors with "triskele models prune".` + "\n"
		}
		return env.show(c.JSON, map[string]any{"model": done.Active.String(), "switched": done.Switched, "embedded": done.Embedded, "queued": done.Queued}, text)
	})
}

// models calls fn with the models of an existing database that has the schema.
func (d databaseFlags) models(ctx context.Context, env *Env, fn func(*dense.Models) error) error {
	return d.migrated(ctx, env, func(b backend.Backend) error { return fn(b.Models()) }, "memory", "dense")
}

// counted shows progress from the first report to finish.
func counted(env *Env, what string) (report func(dense.Progress), finish func()) {
	p, begun := newCount(env, what), env.Now()
	return func(progress dense.Progress) {
		if progress.Indexing {
			p.tell("indexing the vectors")
			return
		}
		p.counted(begun, progress.Done, progress.Total)
	}, p.done
}
