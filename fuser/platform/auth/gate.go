package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// mostCounted bounds the namespaces of a call that are remembered as counted. Beyond it they count again.
	mostCounted = 1000
	// mostLogged bounds the namespaces in an audit line, which has the number of all.
	mostLogged = 16
	// maxCaller bounds a certificate's names in a log line, in bytes.
	maxCaller = 200
	// maxShown bounds a token, in bytes. Tokens of issuers have a few thousand.
	maxShown = 16 << 10
)

// refuse logs a denial, without texts of the request, and returns err.
func refuse(audit *slog.Logger, ctx context.Context, method, caller string, err error) error {
	audit.WarnContext(ctx, "denied", "method", method, "caller", caller, "peer", address(ctx), "code", status.Code(err).String(), "reason", status.Convert(err).Message())
	return err
}

func address(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// byCertificate admits calls whose certificate has one of the names. Services call each other so.
func byCertificate(names []string, audit *slog.Logger) rpc.Gate {
	return func(ctx context.Context, method string) (rpc.Call, error) {
		if accepted(certified(ctx), names) {
			return rpc.Anything{}, nil
		}
		caller := strings.Join(certified(ctx), " ")
		return nil, refuse(audit, ctx, method, strings.ToValidUTF8(caller[:min(len(caller), maxCaller)], ""), status.Error(codes.PermissionDenied, errNotNamed.Error()))
	}
}

var errNotNamed = errors.New("the connection has no client certificate with an accepted name")

func accepted(certificate, names []string) bool {
	return slices.ContainsFunc(certificate, func(name string) bool { return slices.Contains(names, name) })
}

// certified returns the names in the caller's verified certificate, or nil.
func certified(ctx context.Context) []string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	return namesOf(info.State.PeerCertificates[0])
}

func namesOf(certificate *x509.Certificate) []string {
	names := slices.Clone(certificate.DNSNames)
	for _, uri := range certificate.URIs {
		names = append(names, uri.String())
	}
	return names
}

// byToken is the gate that verifies tokens and applies their limits.
type byToken struct {
	tokens *watched // nil without a tokens file
	issuer *issuer  // nil without an issuer
	rates  *limits  // of calls
	quotas *limits  // of memories stored
	audit  *slog.Logger
}

func (g *byToken) admit(ctx context.Context, method string) (rpc.Call, error) {
	shown, ok := bearer(ctx)
	if !ok {
		return nil, refuse(g.audit, ctx, method, "", status.Error(codes.Unauthenticated, `a token is needed, in the metadata "authorization: Bearer TOKEN"`))
	}
	token, err := g.verify(ctx, shown)
	if err != nil {
		return nil, refuse(g.audit, ctx, method, "", err)
	}
	scope, ok := scopes[method]
	if !ok || !slices.Contains(token.Scopes, scope) {
		return nil, refuse(g.audit, ctx, method, token.ID, status.Errorf(codes.PermissionDenied, "the token does not allow this call: it needs the scope %q", scope))
	}
	return &call{gate: g, ctx: ctx, method: method, shown: shown, token: token, scope: scope}, nil
}

// caller verifies a token without a gRPC call.
func (g *byToken) caller(ctx context.Context, shown string) (Token, error) {
	token, err := g.verify(ctx, shown)
	if err != nil {
		return Token{}, refuse(g.audit, ctx, "HTTP", "", err)
	}
	return token, nil
}

// verify returns the token: from the issuer if it signed it, else from the file.
func (g *byToken) verify(ctx context.Context, shown string) (Token, error) {
	if len(shown) > maxShown {
		return Token{}, status.Error(codes.Unauthenticated, errUnknownToken.Error())
	}
	if g.issuer != nil && !strings.HasPrefix(shown, tokenPrefix) {
		return g.issuer.verify(ctx, shown)
	}
	var known map[string]Token
	if g.tokens != nil {
		known = g.tokens.now()
	}
	token, err := verify(known, shown, time.Now())
	if err != nil {
		return Token{}, status.Error(codes.Unauthenticated, err.Error())
	}
	return token, nil
}

func bearer(ctx context.Context) (string, bool) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	return token, ok && strings.EqualFold(scheme, "bearer") && token != ""
}

type call struct {
	gate    *byToken
	ctx     context.Context
	method  string
	shown   string // as the caller sent the token
	token   Token
	scope   Scope
	counted map[string]struct{} // namespaces counted before
	named   []string            // the first mostLogged of them
	count   int                 // of all
	denied  bool
}

// Allow implements rpc.Call. It counts nothing unless all namespaces are allowed.
func (c *call) Allow(message any) (err error) {
	if c.count > 0 { // a stream may outlast its token
		if c.token, err = c.gate.verify(c.ctx, c.shown); err != nil {
			return c.refuse(err)
		}
	}
	names := namespaces(message)
	for _, namespace := range names {
		if !c.token.allows(c.scope, namespace) {
			return c.refuse(status.Errorf(codes.PermissionDenied, "the token does not allow %q in a namespace of this call", c.scope))
		}
	}
	if len(names) == 0 { // ListNamespaces counts in the namespace ""
		return c.take(c.gate.rates, "", 1)
	}
	for _, namespace := range names {
		if !c.first(namespace) {
			continue // counted before
		}
		if err := c.take(c.gate.rates, namespace, 1); err != nil {
			return err
		}
	}
	for namespace, n := range stored(message) {
		if err := c.take(c.gate.quotas, namespace, n); err != nil {
			return err
		}
	}
	return nil
}

// first notes a namespace and reports whether it is new to the call.
func (c *call) first(namespace string) bool {
	if _, ok := c.counted[namespace]; ok {
		return false
	}
	if c.counted == nil || len(c.counted) == mostCounted {
		c.counted = map[string]struct{}{}
	}
	c.counted[namespace] = struct{}{}
	if c.count++; c.count <= mostLogged {
		c.named = append(c.named, namespace)
	}
	return true
}

func (c *call) take(of *limits, namespace string, n int) error {
	if err := of.take(c.token, namespace, n); err != nil {
		return c.refuse(err)
	}
	return nil
}

func (c *call) Answer(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	if req, ok := request.(*triskelev1.ListNamespacesRequest); ok {
		return c.token.list(ctx, req, handle)
	}
	return handle(ctx, request)
}

func (c *call) refuse(err error) error {
	c.denied = true
	return refuse(c.gate.audit, c.ctx, c.method, c.token.ID, err)
}

// Done implements rpc.Call. It logs writes with their outcome.
func (c *call) Done(err error) {
	if c.denied || !writes(c.method) {
		return
	}
	c.gate.audit.InfoContext(c.ctx, "written", "method", c.method, "caller", c.token.ID, "peer", address(c.ctx),
		"namespaces", c.named, "namespace_count", c.count, "code", status.Code(err).String())
}
