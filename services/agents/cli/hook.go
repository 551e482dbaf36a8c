package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/hook"
	"github.com/triskele/triskele/services/agents/internal/render"
)

type hookCmd struct {
	Within        time.Duration `help:"Exit at the latest this long after the start." default:"300ms" env:"TRISKELE_HOOK_WITHIN"`
	MaxTokens     int           `help:"Maximum number of tokens to print, estimated." default:"600" env:"TRISKELE_HOOK_MAX_TOKENS"`
	MinSimilarity float64       `help:"Minimum cosine similarity of a memory and the prompt, unless they share words. The default suits the built-in embedder." default:"0.18" env:"TRISKELE_HOOK_MIN_SIMILARITY"`
	Sensitive     bool          `help:"Also print sensitive memories."`
	Format        string        `help:"Output format: json as the calling agent expects it, or text." enum:"json,text" default:"json"`
	Why           bool          `help:"Print the reason to standard error if nothing is printed."`
	Namespace     []string      `short:"n" help:"Namespaces to search." default:"default" env:"TRISKELE_NAMESPACE"`
	Store         storeFlags    `embed:""`
}

// Help is shown below the flags.
func (*hookCmd) Help() string {
	return "Reads an agent's prompt event as JSON from standard input and prints memories about the prompt, for the agent to add to it. It prints nothing and exits with 0 if it finds nothing or fails. docs/agents.md has the settings for agents."
}

// Validate implements kong's interface.
func (c *hookCmd) Validate() error {
	switch {
	case c.Within <= 0:
		return errors.New("--within must be more than 0")
	case c.MaxTokens < 1:
		return errors.New("--max-tokens must be 1 or more")
	}
	return nil
}

// leaving is the divisor for the reserved share of the hook's time. No deadline covers the start and exit of the process.
const leaving = 10

// Run never fails: agents treat a failed hook as a veto on the prompt.
func (c *hookCmd) Run(ctx context.Context, env *Env) error {
	ctx, cancel := context.WithDeadline(ctx, env.Started.Add(c.Within-c.Within/leaving))
	defer cancel()
	out, err := hook.Answer(ctx, env.In, func(ctx context.Context) (hook.Recaller, error) { return c.open(ctx, env) }, hook.Config{
		Namespaces: c.Namespace, MaxTokens: c.MaxTokens, MinSimilarity: c.MinSimilarity, Sensitive: c.Sensitive, Text: c.Format == "text",
	})
	if err != nil && c.Why {
		_, _ = fmt.Fprintln(env.Err, "nothing printed:", render.Plain(err.Error()))
	}
	_, _ = env.Out.Write(out)
	return nil
}

// recaller hides the call options of the gateway's client.
type recaller struct {
	client triskelev1.RecallServiceClient
}

// Recall implements hook.Recaller.
func (r recaller) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	return r.client.Recall(ctx, req)
}

// open connects until the process exits. It skips an orderly shutdown: nothing is written, telemetry is lost.
func (c *hookCmd) open(ctx context.Context, env *Env) (hook.Recaller, error) {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return nil, err
	}
	conn, stop, err := c.Store.open(ctx, env, process, true, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = stop() })
	return recaller{triskelev1.NewRecallServiceClient(conn)}, nil
}
