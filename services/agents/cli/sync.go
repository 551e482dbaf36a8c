package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/watch"
)

type syncCmd struct {
	Folder    string `arg:"" help:"Folder of notes in Markdown."`
	Watch     bool   `help:"Go on, and import again whenever notes change, until interrupted."`
	Namespace string `short:"n" help:"Namespace of the notes." default:"default" env:"TRISKELE_NAMESPACE"`
	JSON      bool   `help:"Print reports as JSON."`
	gatewayFlags
}

// Help is shown below the flags.
func (*syncCmd) Help() string {
	return "Imports the notes as `triskele import --from markdown` does: only what has changed is stored, and memories of notes that are gone are forgotten. With --watch, a gateway that is away for a while is asked again later."
}

// Run imports once, or until ctx ends.
func (c *syncCmd) Run(ctx context.Context, env *Env) error {
	root, err := filepath.Abs(c.Folder)
	if err != nil {
		return err
	}
	source := &importCmd{File: root, From: "markdown", Namespace: c.Namespace, JSON: c.JSON, gatewayFlags: c.gatewayFlags}
	if !c.Watch {
		return source.Run(ctx, env)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	first := true
	folder := watch.Folder{Root: root, IsNote: importer.IsNote, Changed: func() error {
		err := source.run(ctx, env, func(report *importer.Report) error {
			if changed := report.Stored + report.Updated + report.Forgotten; changed == 0 && !first {
				return nil
			}
			first = false
			return source.show(env, report)
		})
		if skipped := (*skippedError)(nil); err == nil || ctx.Err() != nil || errors.As(err, &skipped) {
			return nil
		}
		_, _ = fmt.Fprintln(env.Err, env.styleOf(env.Err).Bad("error:"), render.Plain(message(ctx, err)))
		return err
	}}
	return folder.Run(ctx)
}
