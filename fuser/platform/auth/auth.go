package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// Access is about callers other than services, and the audit log. The zero value admits everybody.
type Access struct {
	Tokens    string  `help:"JSON file of tokens, as \"triskele token\" writes it. Callers must then show a token. The file is reloaded when it changes." env:"TRISKELE_TOKENS" placeholder:"FILE"`
	OIDC      OIDC    `embed:""`
	RateLimit float64 `help:"Calls per second that a token may make in one namespace, unless the token has its own rate; 0 is no limit." default:"0" env:"TRISKELE_RATE_LIMIT" placeholder:"N" needs:"tokens,oidc-issuer"`
	Quota     float64 `name:"write-quota" help:"Memories per day that a token may store in one namespace, unless the token has its own quota; 0 is no limit. Each gateway counts separately." default:"0" env:"TRISKELE_WRITE_QUOTA" placeholder:"N" needs:"tokens,oidc-issuer"`
	Audit     string  `help:"File to which every write and every refusal is appended as a line of JSON; \"-\" for standard error." env:"TRISKELE_AUDIT" placeholder:"FILE" needs:"tokens,oidc-issuer"`
}

// Listener configures where a program serves, and for which callers. Embed it. The variables "listen" and
// "tls_clients" are the defaults of the address and of the callers' names.
type Listener struct {
	Listen      string   `help:"Address to serve on." default:"${listen}" env:"TRISKELE_LISTEN" placeholder:"HOST:PORT"`
	AllowRemote bool     `help:"Serve on an address that other machines can reach, even without authentication or encryption." env:"TRISKELE_ALLOW_REMOTE"`
	TLS         TLS      `embed:""`
	Clients     []string `name:"tls-clients" help:"With --tls-cert: a caller's certificate must have one of these DNS names or URIs. Without any, callers need no certificate." default:"${tls_clients}" env:"TRISKELE_TLS_CLIENTS" placeholder:"NAME" needs:"tls-cert"`
}

// Open opens the listener and a server with a gate: for tokens if configured, else for certificates. With both, a connection needs a
// certificate and each call a token. An address that other machines can reach needs TLS and a gate, or AllowRemote.
func (l Listener) Open(access Access, tel *telemetry.Service, log *slog.Logger) (*rpc.Server, net.Listener, error) {
	byName := l.TLS.Cert != "" && len(l.Clients) > 0
	config, err := l.TLS.server(byName)
	if err != nil {
		return nil, nil, err
	}
	tokens, err := access.open(l.TLS.Reload, tel, log)
	if err != nil {
		return nil, nil, err
	}
	server := rpc.NewServer(tel, log)
	switch {
	case tokens != nil:
		server.Gate = tokens.admit
		if byName { // not by the gate: the operators' page asks it, too, and has no certificates
			config.VerifyConnection = func(state tls.ConnectionState) error {
				if !accepted(namesOf(state.PeerCertificates[0]), l.Clients) {
					return errNotNamed
				}
				return nil
			}
		}
	case byName:
		server.Gate = byCertificate(l.Clients, log)
	}
	if tokens != nil && tokens.tokens != nil {
		server.Concern(tokens.tokens.concern)
	}
	if config != nil {
		server.Encrypt(config)
		server.Concern(l.TLS.concern)
	}
	listener, err := l.listen(config != nil && server.Gate != nil, log)
	return server, listener, err
}

// HTTPListener is a listener for callers of other protocols than gRPC.
type HTTPListener struct {
	net.Listener // of TLS connections if there is a certificate
	// Gate decides by a call's incoming metadata; nil admits everybody.
	Gate rpc.Gate
	// Caller verifies a token; it is nil if everybody is admitted. Its error is a gRPC status.
	Caller func(ctx context.Context, token string) (Token, error)
}

// OpenHTTP is Open for an HTTP server, whose callers show tokens and no certificates.
func (l Listener) OpenHTTP(access Access, tel *telemetry.Service, log *slog.Logger) (*HTTPListener, error) {
	config, err := l.TLS.server(false)
	if err != nil {
		return nil, err
	}
	tokens, err := access.open(l.TLS.Reload, tel, log)
	if err != nil {
		return nil, err
	}
	listener := &HTTPListener{}
	if listener.Listener, err = l.listen(config != nil && tokens != nil, log); err != nil {
		return nil, err
	}
	if config != nil {
		config.NextProtos = []string{"http/1.1"}
		listener.Listener = tls.NewListener(listener.Listener, config)
	}
	if tokens != nil {
		listener.Gate, listener.Caller = tokens.admit, tokens.caller
	}
	return listener, nil
}

// listen opens the address. protected means that calls are encrypted and callers known.
func (l Listener) listen(protected bool, log *slog.Logger) (net.Listener, error) {
	listener, err := rpc.Listen(l.Listen, l.AllowRemote || protected)
	if errors.Is(err, rpc.ErrNotLoopback) {
		return nil, fmt.Errorf("%w: use 127.0.0.1, serve TLS to callers with a token or a certificate, or pass --allow-remote if the network keeps others out", err)
	}
	if err != nil {
		return nil, err
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && !protected {
		log.Warn("OTHER MACHINES CAN REACH THIS ADDRESS, AND ANYBODY THERE MAY READ AND WRITE: --allow-remote was given without TLS and tokens or certificates", "address", at.String())
	}
	return listener, nil
}

// open returns the gate for tokens, nil if none are configured.
func (a Access) open(reload time.Duration, tel *telemetry.Service, log *slog.Logger) (_ *byToken, err error) {
	defer func() { err = settings.Wrong(err) }()
	if a.Tokens == "" && a.OIDC.Issuer == "" {
		return nil, nil
	}
	if !(a.RateLimit >= 0 && a.Quota >= 0) {
		return nil, fmt.Errorf("--rate-limit %g and --write-quota %g must not be negative; 0 is no limit", a.RateLimit, a.Quota)
	}
	audit, err := openAudit(a.Audit)
	if err != nil {
		return nil, fmt.Errorf("--audit: %w", err)
	}
	g := &byToken{audit: audit, rates: newRates(a.RateLimit), quotas: newQuotas(a.Quota)}
	if a.Tokens != "" {
		if g.tokens, err = watch(a.Tokens, reload, log); err != nil {
			return nil, fmt.Errorf("--tokens: %w", err)
		}
		g.tokens.observe(tel.MeterProvider.Meter(telemetry.ScopeName))
	}
	if a.OIDC.Issuer != "" {
		if g.issuer, err = newIssuer(a.OIDC, log); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// openAudit opens the log of writes and refusals. An empty path discards it.
func openAudit(path string) (*slog.Logger, error) {
	var out io.Writer = os.Stderr
	switch path {
	case "":
		return slog.New(slog.DiscardHandler), nil
	case "-":
	default:
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) // open as long as the program lasts
		if err != nil {
			return nil, err
		}
		out = file
	}
	return slog.New(slog.NewJSONHandler(out, nil)).With("log", "audit"), nil
}
