package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/wiring/backend"
)

type modelsCmd struct {
	List           listModelsCmd     `cmd:"" default:"withargs" help:"List the embedding models that the database has vectors of."`
	Prune          pruneModelsCmd    `cmd:"" help:"Remove retired models and their vectors."`
	Cancel         cancelModelCmd    `cmd:"" help:"Cancel an unfinished reembed and remove its vectors."`
	EmbedSensitive embedSensitiveCmd `cmd:"" help:"Let a local model embed sensitive memories, or forbid it again."`
}

type listModelsCmd struct {
	JSON bool `help:"Print the models as JSON."`
	databaseFlags
}

func (c *listModelsCmd) Run(ctx context.Context, env *Env) error {
	return c.models(ctx, env, func(models *dense.Models) error {
		list, err := models.List(ctx)
		if err != nil {
			return err
		}
		table := render.Table{Columns: []render.Column{{Name: "status"}, {Name: "model", Gives: true}, {Name: "vectors", Right: true}, {Name: "notes", Gives: true}}}
		for _, m := range list {
			var notes []string
			if m.Model.Local {
				notes = append(notes, "local")
			}
			if m.Sensitive {
				notes = append(notes, "also of sensitive memories")
			}
			table.Add(string(m.Status), m.Model.String(), fmt.Sprint(m.Vectors), strings.Join(notes, ", "))
		}
		text := env.style().Table(table)
		if len(list) == 0 {
			text = "none yet: the first service that embeds registers its model\n"
		}
		return showModels(env, c.JSON, list, text)
	})
}

func showModels(env *Env, asJSON bool, list []dense.ModelInfo, text string) error {
	return env.show(asJSON, append([]dense.ModelInfo{}, list...), text) // none is an empty list
}

type pruneModelsCmd struct{ removeFlags }

func (c *pruneModelsCmd) Run(ctx context.Context, env *Env) error {
	return c.remove(ctx, env, "nothing to do: no model is retired\n", (*dense.Models).Prune)
}

type cancelModelCmd struct{ removeFlags }

func (c *cancelModelCmd) Run(ctx context.Context, env *Env) error {
	return c.remove(ctx, env, "nothing to do: no model is being built\n",
		func(models *dense.Models, ctx context.Context, report func(dense.Progress)) ([]dense.ModelInfo, error) {
			cancelled, found, err := models.Cancel(ctx, report)
			if err != nil || !found {
				return nil, err
			}
			return []dense.ModelInfo{cancelled}, nil
		})
}

type removeFlags struct {
	jsonFlag
	databaseFlags
}

// remove removes models with progress, and prints those that it removed, or none if there are none.
func (f removeFlags) remove(ctx context.Context, env *Env, none string, remove func(*dense.Models, context.Context, func(dense.Progress)) ([]dense.ModelInfo, error)) error {
	return f.models(ctx, env, func(models *dense.Models) error {
		bar := newCount(env, "removing")
		removed, err := remove(models, ctx, bar.counted)
		bar.done()
		if err != nil {
			return err
		}
		text := ""
		for _, m := range removed {
			text += fmt.Sprintf("removed %s and %s\n", render.Plain(m.Model.String()), render.Count(m.Vectors, "vector", "vectors"))
		}
		return showModels(env, f.JSON, removed, cmp.Or(text, none))
	})
}

type embedSensitiveCmd struct {
	Switch string `arg:"" enum:"on,off" help:"on or off."`
	jsonFlag
	databaseFlags
}

func (c *embedSensitiveCmd) Run(ctx context.Context, env *Env) error {
	return c.models(ctx, env, func(models *dense.Models) error {
		if c.Switch == "off" {
			n, err := models.ForbidSensitive(ctx)
			return env.answer(err, c.JSON, map[string]any{"allowed": false, "removed": n}, fmt.Sprintf("no model embeds sensitive memories any more; removed %s\n", render.Count(n, "vector", "vectors")))
		}
		n, err := models.AllowSensitive(ctx)
		return env.answer(err, c.JSON, map[string]any{"allowed": true, "to_embed": n}, fmt.Sprintf("sensitive memories may be embedded by the local model; %s to be embedded now\n", render.Count(n, "is", "are")))
	})
}

type reembedCmd struct {
	jsonFlag
	MaxRate  int        `help:"Maximum memories to embed per second, to limit the load on the model and the database." placeholder:"N"`
	Embedder open.Flags `embed:"" group:"Embedder:"`
	databaseFlags
}

func (c *reembedCmd) Validate() error {
	if c.MaxRate < 0 {
		return fmt.Errorf("--max-rate must be at least 0")
	}
	return c.databaseFlags.Validate()
}

func (c *reembedCmd) Run(ctx context.Context, env *Env) error {
	embedder, _, err := c.Embedder.Open(env.Getenv)
	if err != nil {
		return err
	}
	return c.models(ctx, env, func(models *dense.Models) error {
		bar := newCount(env, "embedding")
		done, err := models.Reembed(ctx, embedder, c.MaxRate, bar.counted)
		bar.done()
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
			text += `Restart what serves this database ("triskele up", or densed and graphd) with the same --embedder. Give it to agents that open the database themselves, as TRISKELE_EMBEDDER. Then remove the old vectors with "triskele models prune".` + "\n"
		}
		return env.show(c.JSON, map[string]any{"model": done.Active.String(), "switched": done.Switched, "embedded": done.Embedded, "queued": done.Queued}, text)
	})
}

// models calls fn with the models of an existing database that has the schema.
func (d databaseFlags) models(ctx context.Context, env *Env, fn func(*dense.Models) error) error {
	return d.migrated(ctx, env, func(b *backend.Backend) error { return fn(b.Models()) }, "memory", "dense")
}
