package cli

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/agents/demo"
	"github.com/triskele/triskele/services/embed/open"
)

type demoCmd struct {
	Embedder open.Flags `embed:"" group:"Embedder:"`
}

// Run prints the demo. It fails if one of its claims does not hold.
func (c *demoCmd) Run(ctx context.Context, env *Env) error {
	embedder, _, err := c.Embedder.Open(env.Getenv)
	if err != nil {
		return err
	}
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	// The demo provokes the warnings that the services would log.
	log := slog.New(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: slog.LevelError}))
	return demo.Run(ctx, env.Out, env.style(), embedder, process, log)
}
