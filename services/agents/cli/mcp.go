package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/capture"
	"github.com/triskele/triskele/services/agents/mcpserver"
)

const (
	// headerTime bounds reading a request's headers. drainTime bounds running calls at shutdown.
	headerTime = 10 * time.Second
	drainTime  = 5 * time.Second
)

type mcpCmd struct {
	Listen      string           `help:"Serve streamable HTTP on this address, at /mcp, instead of standard input and output." env:"TRISKELE_MCP_LISTEN" placeholder:"HOST:PORT"`
	AllowRemote bool             `help:"Serve on an address that other machines can reach, even without authentication or encryption." env:"TRISKELE_ALLOW_REMOTE"`
	Access      auth.Access      `embed:""`
	AllowHost   []string         `help:"Host names that HTTP requests may use, besides localhost and addresses." placeholder:"NAME"`
	PublicURL   *url.URL         `help:"URL at which clients reach /mcp, if a proxy ends TLS. Requests may use its host name." placeholder:"URL"`
	Offer       mcpserver.Config `embed:""`
	LogLevel    slog.Level       `help:"Lowest level to log to standard error: debug, info, warn or error." default:"warn" env:"TRISKELE_LOG_LEVEL"`
	namespaceFlag
	Store storeFlags `embed:""`
}

// httpFlags are the flags that say something only with --listen.
var httpFlags = []string{"allow-host", "public-url", "allow-remote", "tokens", "oidc-issuer", "oidc-audience", "rate-limit", "write-quota", "audit"}

func (c *mcpCmd) Validate(line *kong.Context) error {
	for _, given := range line.Path { // variables and the configuration file may be meant for a gateway
		if c.Listen == "" && given.Flag != nil && !given.Resolved && slices.Contains(httpFlags, given.Flag.Name) {
			return fmt.Errorf("--%s needs --listen", given.Flag.Name)
		}
	}
	switch {
	case c.Offer.MaxTokens < 1:
		return errors.New("--max-tokens must be 1 or more")
	case c.Offer.Budget <= 0 || c.Offer.Timeout <= 0:
		return errors.New("--budget and --timeout must be more than 0")
	}
	if u := c.PublicURL; u != nil {
		if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
			return errors.New("--public-url must be a URL such as https://memory.example.com/mcp")
		}
		c.AllowHost = append(c.AllowHost, u.Hostname())
	}
	if c.Listen != "" {
		if err := settings.Needs(line); err != nil {
			return err
		}
	}
	return checkNamespace(c.Namespace)
}

// Run serves until the client disconnects or ctx ends.
func (c *mcpCmd) Run(ctx context.Context, env *Env) (err error) {
	signal.Ignore(syscall.SIGPIPE) // a client that closes the pipe may have asked for something before
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	log := slog.New(telemetry.Traced(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: c.LogLevel})))
	slog.SetDefault(log)            // for libraries without a logger
	var listener *auth.HTTPListener // nil without --listen
	if c.Listen != "" {
		flags := auth.Listener{Listen: c.Listen, AllowRemote: c.AllowRemote, TLS: c.Store.TLS}
		if listener, err = flags.OpenHTTP(c.Access, process.Service("triskele"), log); err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
	}
	conn, stop, err := c.Store.open(ctx, env, process, false, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	tel := process.Service("triskele")
	if listener != nil && listener.Gate != nil { // every tool's call passes it
		inside := rpc.NewServer(tel, log)
		inside.Gate = listener.Gate
		gateway.Forward(inside, conn, triskelev1.File_triskele_v1_recall_proto)
		gateway.Forward(inside, conn, triskelev1.File_triskele_v1_memory_proto)
		defer inside.Stop()
		conn = rpc.NewLocal(inside, tel)
	}
	if c.Offer.Namespace = c.Namespace; listener == nil { // the agent has started this process in its own folder
		c.Offer.Project = capture.Repository(strings.ToValidUTF8(env.Folder, ""))
	}
	server := mcpserver.New(conn, c.Offer, tel, log)
	if listener != nil {
		c.serve(ctx, env, listener, server, log)
		return nil
	}
	lines := mcpserver.NewLines(env.In, env.Out, c.Offer.Timeout)
	running, err := server.Connect(ctx, &mcp.IOTransport{Reader: lines, Writer: lines}, nil)
	if err != nil {
		return err
	}
	ended, stuck := make(chan error, 1), make(chan struct{})
	go func() { ended <- running.Wait() }()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(drainTime, func() { close(stuck) })
		_ = running.Close()
	})()
	select {
	case err = <-ended:
	case <-stuck: // the client does not read
	}
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // both end a session
	}
	return err
}

// exactly refuses a message that the SDK would read as another one.
func exactly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mcpserver.MostFrame))
		if err == nil {
			err = rpc.Misread(body)
		}
		if long, is := errors.AsType[*http.MaxBytesError](err); is {
			http.Error(w, fmt.Sprintf("the body must have at most %d bytes", long.Limit), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// serve serves HTTP until ctx ends. It keeps no sessions: since revision 2026-07-28 each request says all, and the server has nothing to
// tell a client unasked.
func (c *mcpCmd) serve(ctx context.Context, env *Env, listener *auth.HTTPListener, server *mcp.Server, log *slog.Logger) {
	var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{
			Stateless: true, PropagateRequestCancellation: true, Logger: log,
			DisableLocalhostProtection: len(c.AllowHost) > 0, // it allows only localhost; knownHost still checks
		})
	handler = exactly(handler)
	mux := http.NewServeMux()
	if listener.Caller != nil {
		server.AddReceivingMiddleware(shown)
		handler = c.known(listener, handler)
	}
	if c.Access.OIDC.Issuer != "" {
		mux.HandleFunc(metadataPath, c.metadata)
		mux.HandleFunc(metadataPath+"/", c.metadata) // the path of the public URL follows
	}
	mux.Handle(mcpPath, http.NewCrossOriginProtection().Handler(handler))
	web := &http.Server{Handler: c.knownHost(mux), ReadHeaderTimeout: headerTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	scheme := "http"
	if c.Store.TLS.Cert != "" {
		scheme = "https"
	}
	_, _ = fmt.Fprintf(env.Err, "MCP on %s://%s/mcp; stop it with Ctrl-C.\n", scheme, listener.Addr())
	stop := rpc.ServeHTTP(web, listener, drainTime, log)
	<-ctx.Done()
	stop()
}

const (
	mcpPath = "/mcp"
	// metadataPath is where RFC 9728 has clients look for the authorization server.
	metadataPath = "/.well-known/oauth-protected-resource"
)

// resource returns the URL at which the client reaches /mcp. Without a public URL it is as the client named it: knownHost has checked the name.
func (c *mcpCmd) resource(r *http.Request) url.URL {
	switch {
	case c.PublicURL != nil:
		return *c.PublicURL
	case r.TLS != nil:
		return url.URL{Scheme: "https", Host: r.Host, Path: mcpPath}
	}
	return url.URL{Scheme: "http", Host: r.Host, Path: mcpPath}
}

// metadata serves the metadata of RFC 9728: which issuer's tokens are accepted, and how they are shown. No tool needs the scope admin.
func (c *mcpCmd) metadata(w http.ResponseWriter, r *http.Request) {
	at := c.resource(r)
	scopes := slice.Map([]auth.Scope{auth.Recall, auth.Read, auth.Write}, func(s auth.Scope) string { return "triskele." + string(s) })
	sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: at.String(), AuthorizationServers: []string{c.Access.OIDC.Issuer}, ScopesSupported: scopes,
		BearerMethodsSupported: []string{"header"}, ResourceName: "Triskele",
	}).ServeHTTP(w, r)
}

// challenge returns the WWW-Authenticate header of a refusal. With an issuer it says where a client learns of the issuer.
func (c *mcpCmd) challenge(r *http.Request) string {
	var params []string
	if r.Header.Get("Authorization") != "" {
		params = append(params, `error="invalid_token"`)
	}
	if c.Access.OIDC.Issuer != "" {
		at := c.resource(r)
		at.Path, at.RawPath = metadataPath+at.Path, ""
		params = append(params, fmt.Sprintf("resource_metadata=%q", at.String()))
	}
	return strings.TrimSpace("Bearer " + strings.Join(params, ", "))
}

func (c *mcpCmd) known(listener *auth.HTTPListener, next http.Handler) http.Handler {
	verify := func(_ context.Context, token string, r *http.Request) (*sdkauth.TokenInfo, error) {
		ctx := rpc.From(r)
		caller, err := listener.Caller(ctx, token)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", sdkauth.ErrInvalidToken, status.Convert(err).Message())
		}
		from, _ := peer.FromContext(ctx)
		return &sdkauth.TokenInfo{UserID: caller.ID, Expiration: caller.Expires, Extra: map[string]any{"peer": from}}, nil
	}
	required := sdkauth.RequireBearerToken(verify, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del("WWW-Authenticate")
			next.ServeHTTP(w, r)
		}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", c.challenge(r)) // removed once authenticated
		required.ServeHTTP(w, r)
	})
}

// shown passes a request's token and peer to its calls, for the gate.
func shown(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", extra.Header.Get("Authorization"))
			if from, ok := extra.TokenInfo.Extra["peer"].(*peer.Peer); ok {
				ctx = peer.NewContext(ctx, from)
			}
		}
		return next(ctx, method, req)
	}
}

// knownHost refuses host names that are not allowed, against DNS rebinding. Addresses are allowed: a web page
// cannot rebind them.
func (c *mcpCmd) knownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if net.ParseIP(host) == nil && host != "localhost" && !slices.ContainsFunc(c.AllowHost, func(allowed string) bool { return strings.EqualFold(allowed, host) }) {
			http.Error(w, "this host name is not allowed: see --allow-host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
