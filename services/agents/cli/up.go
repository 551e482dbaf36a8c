package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/page"
	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/rerank"
	"github.com/triskele/triskele/fuser/traces/recent"
	"github.com/triskele/triskele/fuser/web"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/llm/extractor"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/standalone"
)

type upCmd struct {
	Listener auth.Listener `embed:"" group:"Address and callers:"`
	Access   auth.Access   `embed:"" group:"Address and callers:"`
	Web      web.Flags     `embed:"" group:"Address and callers:"`
	databaseFlags
	Embedder  open.Flags           `embed:"" group:"Embedder:"`
	Graph     graph.Config         `embed:"" group:"Graph leg:"`
	Lexical   lexical.Config       `embed:"" group:"Lexical leg:"`
	Curator   curator.Config       `embed:"" prefix:"curator-" group:"Curator:"`
	Extractor extractor.Config     `embed:"" prefix:"extractor-" group:"Extractor:"`
	Search    replica.Config       `embed:"" group:"Search in memory:"`
	Sweep     memory.Sweep         `embed:"" group:"Expired memories:"`
	Policies  []byte               `help:"JSON file of recall policies by namespace." type:"filecontent" env:"TRISKELE_POLICIES" placeholder:"FILE" group:"Recall:"`
	Reranker  rerank.Flags         `embed:"" group:"Reranker:"`
	Fusion    gateway.FusionConfig `embed:"" group:"Recall:"`
	Trace     gateway.TraceConfig  `embed:"" group:"Observability:"`
	Admin     admin.Flags          `embed:"" group:"Observability:"`
	Keep      telemetry.Keep       `embed:"" group:"Observability:"`
	LogLevel  slog.Level           `help:"Lowest level to log: debug, info, warn or error." default:"warn" env:"TRISKELE_LOG_LEVEL" group:"Observability:"`
}

// Validate implements kong's interface. It hides databaseFlags.Validate.
func (c *upCmd) Validate(line *kong.Context) error {
	return cmp.Or(c.databaseFlags.Validate(), settings.Needs(line))
}

func (c *upCmd) Run(ctx context.Context, env *Env) (err error) {
	t, err := c.target(env)
	if err != nil {
		return err
	}
	embedder, fallback, err := c.Embedder.Open(env.Getenv)
	if err != nil {
		return err
	}
	reranker, err := c.Reranker.Open(env.Getenv)
	if err != nil {
		return err
	}
	options := []telemetry.Option{telemetry.Keeping(c.Keep)}
	if c.Admin.On() {
		options = append(options, telemetry.Scraped)
	}
	process, err := telemetry.Start(ctx, options...)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	log := slog.New(telemetry.Traced(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: c.LogLevel})))
	slog.SetDefault(log) // for libraries without a logger
	server, listener, err := c.Listener.Open(c.Access, process.Service("fuser"), log)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use already, perhaps by another `triskele up`: stop that one, or choose another address with --listen", c.Listener.Listen)
	}
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	operators, err := admin.Listen(c.Admin, process.Metrics(), log)
	if err != nil {
		return err
	}
	defer operators.Start(ctx)()
	if err := t.create(ctx, env); err != nil {
		return err
	}
	config := gateway.DefaultConfig()
	config.Rerank, config.Fusion, config.Trace = reranker, c.Fusion, c.Trace
	if c.Admin.On() {
		config.Recent = recent.New()
	}
	if len(c.Policies) > 0 {
		if config.Policies, err = gateway.ParsePolicies(c.Policies); err != nil {
			return settings.Wrong(err)
		}
	}
	system, err := standalone.Start(ctx, standalone.Config{
		Postgres: t.url, SQLite: t.path, Embedder: embedder, Fallback: fallback, Gateway: config,
		Lexical: c.Lexical, Search: c.Search, Graph: c.Graph, Curator: c.Curator, Extractor: c.Extractor, Sweep: c.Sweep,
	}, process, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	server.Concern(system.Concern)
	operators.Health(server.Serving, server.Concerns)
	system.Register(server)
	closeWeb, err := web.Open(ctx, c.Web, server, listener.Addr(), log)
	if err != nil {
		return err
	}
	defer closeWeb()
	if c.Admin.On() {
		page.Open(ctx, operators.ServeMux, config.Recent, server, process.Service("fuser"))
	}
	if err := env.print(c.welcome(listener.Addr(), operators.Addr(), t)); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- system.Serve(server, listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
		return env.print("stopping\n")
	}
}

func (c *upCmd) welcome(address, operators net.Addr, t target) string {
	flags := ""
	if address.String() != "127.0.0.1:7400" {
		flags = " --address " + address.String()
	}
	if c.Listener.TLS.Cert != "" {
		flags += " --tls-ca FILE"
	}
	if c.Access.Tokens != "" || c.Access.OIDC.Issuer != "" {
		flags += " --token-file FILE"
	}
	page := ""
	if operators != nil {
		page = "A page for operators is on http://" + operators.String() + ".\n"
	}
	return fmt.Sprintf(`Triskele %s listens on %s; stop it with Ctrl-C.
Memories are kept in %s.
%sTry, in another terminal:
  triskele remember%s "The staging password is rotated on the first Monday of the month."
  triskele recall%s "when does the staging password change"
`, telemetry.Version(), address, t, page, flags, flags)
}
