package trust

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
)

// Access says who besides services may call, and what is kept of it. The zero value lets everybody in.
type Access struct {
	Tokens    string  `help:"JSON file of tokens, as \"triskele token\" writes it: callers must show one. It is read again when it changes." env:"TRISKELE_TOKENS" placeholder:"FILE"`
	OIDC      OIDC    `embed:""`
	RateLimit float64 `help:"Calls a second that a token may make in one namespace, unless it has a rate of its own; 0 is no limit." default:"0" env:"TRISKELE_RATE_LIMIT" placeholder:"N"`
	Quota     float64 `name:"write-quota" help:"Memories a day that a token may store in one namespace, unless it has a quota of its own; 0 is no limit. Each gateway counts for itself." default:"0" env:"TRISKELE_WRITE_QUOTA" placeholder:"N"`
	Audit     string  `help:"Append a line of JSON for every write and every refusal to this file, or to standard error if it is \"-\"." env:"TRISKELE_AUDIT" placeholder:"FILE"`
}

// Listener says where a program serves and to whom. Embed it; the variable "listen" holds the default address and
// "tls_clients" the names of those who call.
type Listener struct {
	Listen      string   `help:"Address to serve gRPC on." default:"${listen}" env:"TRISKELE_LISTEN" placeholder:"HOST:PORT"`
	AllowRemote bool     `help:"Serve on an address other machines can reach, although callers are not known or calls not encrypted." env:"TRISKELE_ALLOW_REMOTE"`
	TLS         TLS      `embed:""`
	Clients     []string `name:"tls-clients" help:"With --tls-cert: DNS names and URIs, one of which a caller's certificate must have. Without any, callers need no certificate." default:"${tls_clients}" env:"TRISKELE_TLS_CLIENTS" placeholder:"NAME"`
}

// Open opens the listener and a server that lets in whom it should: services by their certificates or, with tokens, whoever
// shows one. An address that other machines can reach needs both encryption and one of these, or AllowRemote.
func (l Listener) Open(access Access, tel *telemetry.Service, log *slog.Logger) (*rpc.Server, net.Listener, error) {
	byName := l.TLS.Cert != "" && len(l.Clients) > 0
	creds, err := l.TLS.server(byName)
	if err != nil {
		return nil, nil, err
	}
	var gate, operators rpc.Gate
	switch {
	case access.Tokens != "" || access.OIDC.Issuer != "":
		gate, err = access.gate(l.TLS.Reload, log)
		operators = gate
	case byName: // which the page's callers cannot show; it is for who reaches the address for operators
		gate = byCertificate(l.Clients, log)
	}
	if err != nil {
		return nil, nil, err
	}
	var options []grpc.ServerOption
	if creds != nil {
		options = append(options, grpc.Creds(creds))
	}
	server := rpc.NewServer(tel, log, options...)
	server.Admit(gate, operators)
	guarded := creds != nil && gate != nil
	listener, err := rpc.Listen(l.Listen, l.AllowRemote || guarded)
	if errors.Is(err, rpc.ErrNotLoopback) {
		return nil, nil, fmt.Errorf("%w: use 127.0.0.1, serve TLS to callers with a token or a certificate, or pass --allow-remote if the network keeps others out", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && !guarded {
		log.Warn("OTHER MACHINES CAN REACH THIS ADDRESS, AND ANYBODY THERE MAY READ AND WRITE: --allow-remote was given without TLS and tokens or certificates", "address", at.String())
	}
	return server, listener, nil
}

// gate lets in whoever shows a token.
func (a Access) gate(reload time.Duration, log *slog.Logger) (rpc.Gate, error) {
	audit, err := openAudit(a.Audit)
	if err != nil {
		return nil, fmt.Errorf("--audit: %w", err)
	}
	g := &byToken{audit: audit}
	if g.rates, err = newRates(a.RateLimit); err != nil {
		return nil, err
	}
	if g.quotas, err = newQuotas(a.Quota); err != nil {
		return nil, err
	}
	if a.Tokens != "" {
		if g.tokens, err = watch(a.Tokens, reload, log); err != nil {
			return nil, fmt.Errorf("--tokens: %w", err)
		}
	}
	if a.OIDC.Issuer != "" {
		if g.issuer, err = newIssuer(a.OIDC); err != nil {
			return nil, err
		}
	}
	return g.admit, nil
}

// openAudit opens the log of writes and refusals, one that keeps nothing if path is empty.
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
