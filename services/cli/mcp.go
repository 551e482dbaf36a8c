package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/services/mcpserver"
)

const (
	// sessionIdle is how long a session over HTTP is kept for a client that has gone silent.
	sessionIdle = time.Hour
	// headerTime is how long a client may take to say what it wants, and drainTime how long its call may go on at the end.
	headerTime = 10 * time.Second
	drainTime  = 5 * time.Second
)

type mcpCmd struct {
	Listen       string        `help:"Serve streamable HTTP on this address, at /mcp, instead of standard input and output." env:"TRISKELE_MCP_LISTEN" placeholder:"HOST:PORT"`
	AllowRemote  bool          `help:"Serve on an address other machines can reach, although there is no authentication." env:"TRISKELE_ALLOW_REMOTE"`
	AllowHost    []string      `help:"Names under which clients may ask for this server over HTTP, beside localhost and addresses." placeholder:"NAME"`
	AnyNamespace bool          `help:"Let the agent work on other namespaces than this one." env:"TRISKELE_ANY_NAMESPACE"`
	ReadOnly     bool          `help:"Offer recall and list only."`
	MaxTokens    int           `help:"How long an answer to recall is at most if the agent does not say, in estimated tokens." default:"1500"`
	Budget       time.Duration `help:"Time a recall may take; a leg that is later is left out." default:"2s"`
	Timeout      time.Duration `help:"Give up on a call after this long." default:"30s"`
	LogLevel     slog.Level    `help:"Least level to log, to standard error: debug, info, warn or error." default:"warn" env:"TRISKELE_LOG_LEVEL"`
	Namespace    namespaceFlag `embed:""`
	Store        storeFlags    `embed:""`
}

// Help is shown below the flags.
func (*mcpCmd) Help() string {
	return "Speaks the protocol on standard input and output, as agents start it, or over HTTP with --listen. docs/agents.md has the settings for agents."
}

// Validate implements kong's interface.
func (c *mcpCmd) Validate() error {
	switch {
	case c.Listen == "" && len(c.AllowHost) > 0:
		return errors.New("--allow-host belongs to --listen")
	case c.MaxTokens < 1:
		return errors.New("--max-tokens must be 1 or more")
	case c.Budget <= 0 || c.Timeout <= 0:
		return errors.New("--budget and --timeout must be more than 0")
	}
	return c.Store.Database.check()
}

// Run serves until the client closes its end or ctx ends.
func (c *mcpCmd) Run(ctx context.Context, env *Env) (err error) {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	log := slog.New(telemetry.Traced(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: c.LogLevel})))
	conn, stop, err := c.Store.open(ctx, env, process, false, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	server := mcpserver.New(conn, mcpserver.Config{
		Namespace: c.Namespace.Namespace, AnyNamespace: c.AnyNamespace, ReadOnly: c.ReadOnly, MaxTokens: c.MaxTokens, Budget: c.Budget, Timeout: c.Timeout,
	}, log)
	if c.Listen != "" {
		return c.serve(ctx, env, server, log)
	}
	err = server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(env.In), Writer: unclosed{env.Out}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // both are how a session ends
	}
	return err
}

// unclosed is standard output, which the protocol may not close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// serve answers over HTTP until ctx ends.
func (c *mcpCmd) serve(ctx context.Context, env *Env, server *mcp.Server, log *slog.Logger) error {
	listener, err := rpc.Listen(c.Listen, c.AllowRemote)
	if errors.Is(err, rpc.ErrNotLoopback) {
		return fmt.Errorf("%w, and MCP has no authentication: use 127.0.0.1, or pass --allow-remote if the network keeps others out", err)
	}
	if err != nil {
		return err
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{
			SessionTimeout: sessionIdle, Logger: log,
			DisableLocalhostProtection: len(c.AllowHost) > 0, // it knows localhost only; knownHost stays
		})
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(handler))
	web := &http.Server{Handler: c.knownHost(mux), ReadHeaderTimeout: headerTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	_, _ = fmt.Fprintf(env.Err, "MCP on http://%s/mcp; stop it with Ctrl-C.\n", listener.Addr())
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if web.Shutdown(draining) != nil {
			_ = web.Close() // streams that clients keep open
		}
	})
	err = web.Serve(listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// knownHost refuses requests for a name that nobody said is ours: a web page whose name is made to lead here (DNS rebinding)
// cannot ask by an address.
func (c *mcpCmd) knownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if net.ParseIP(strings.Trim(host, "[]")) == nil && host != "localhost" && !slices.Contains(c.AllowHost, host) {
			http.Error(w, "this server does not answer to that name: see --allow-host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
