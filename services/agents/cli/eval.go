package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/eval"
)

type evalCmd struct {
	eval.Options
	Embedder open.Flags `embed:"" group:"Embedder:"`
}

func (c *evalCmd) Validate() error {
	if c.Store == "postgres" && c.Postgres == "" {
		return errors.New("--store postgres needs --postgres URL")
	}
	return nil
}

// command returns the command line for the report, with placeholders for paths and addresses of this machine.
func (c *evalCmd) command() string {
	parts := []string{"triskele eval", "--data", "DATA", "--store", c.Store, "--out", "OUT"}
	add := func(given bool, words ...string) {
		if given {
			parts = append(parts, words...)
		}
	}
	add(len(c.Sets) > 0, "--sets", strings.Join(c.Sets, ","))
	add(len(c.Configs) > 0, "--configs", strings.Join(c.Configs, ","))
	add(c.Scorer != "bm25", "--scorer", c.Scorer)
	add(c.Embedder.Embedder != "builtin", "--embedder", strconv.Quote(c.Embedder.Embedder))
	add(c.Limit > 0, "--limit", strconv.Itoa(c.Limit))
	add(c.Concurrency > 1, "--concurrency", strconv.Itoa(c.Concurrency))
	return strings.Join(parts, " ")
}

func (c *evalCmd) Run(ctx context.Context, env *Env) (err error) {
	options := c.Options
	options.Progress, options.Command = env.Err, c.command()
	if options.Embedder, options.Fallback, err = c.Embedder.Open(env.Getenv); err != nil {
		return err
	}
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	report, err := eval.Run(ctx, options, process, slog.New(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	return env.print(string(report.Markdown()) + "\nwrote " + filepath.Join(c.Out, "report.md") + "\n")
}
