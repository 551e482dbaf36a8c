package auth

import (
	"context"
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
	// mostCounted bounds the namespaces of one call of which it is remembered that they were counted; beyond, they count again.
	mostCounted = 1000
	// mostLogged bounds the namespaces in a line of the audit log. Others are in their number only.
	mostLogged = 16
	// maxCaller bounds the names of a certificate in a line of the log, in bytes.
	maxCaller = 200
	// maxShown bounds what is looked at as a token, in bytes: those of issuers have some thousand at most.
	maxShown = 16 << 10
)

// refuse logs a denial, without anything of the request's texts, and passes it on.
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

// byCertificate lets calls in whose certificate has one of the names: what services ask of each other.
func byCertificate(names []string, audit *slog.Logger) rpc.Gate {
	return func(ctx context.Context, method string) (rpc.Call, error) {
		for _, name := range certified(ctx) {
			if slices.Contains(names, name) {
				return rpc.Anything{}, nil
			}
		}
		caller := strings.Join(certified(ctx), " ")
		return nil, refuse(audit, ctx, method, strings.ToValidUTF8(caller[:min(len(caller), maxCaller)], ""), status.Error(codes.PermissionDenied, "only callers with a certificate for certain names are let in, shown over the connection"))
	}
}

// certified are the names in the caller's certificate, which has been verified, or none.
func certified(ctx context.Context) []string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	leaf := info.State.PeerCertificates[0]
	names := slices.Clone(leaf.DNSNames)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	return names
}

// byToken lets calls in that show a token, and to what the token allows.
type byToken struct {
	tokens *watched // nil if there are none of our own
	issuer *issuer  // nil if nobody signs any
	rates  *limits  // of calls
	quotas *limits  // of memories stored
	audit  *slog.Logger
}

// admit implements rpc.Gate.
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
	return &call{gate: g, ctx: ctx, method: method, token: token, scope: scope}, nil
}

// caller is for callers who come in without a call of their own.
func (g *byToken) caller(ctx context.Context, shown string) (Token, error) {
	token, err := g.verify(ctx, shown)
	if err != nil {
		return Token{}, refuse(g.audit, ctx, "HTTP", "", err)
	}
	return token, nil
}

// verify says what a token allows: one of ours, or one that the issuer signed.
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

// bearer is the token that a call shows.
func bearer(ctx context.Context) (string, bool) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	return token, ok && strings.EqualFold(scheme, "bearer") && token != ""
}

// call is one that has shown a token.
type call struct {
	gate    *byToken
	ctx     context.Context
	method  string
	token   Token
	scope   Scope
	counted map[string]struct{} // the last namespaces of its messages
	named   []string            // the first of them, for the log
	count   int                 // of all
	denied  bool
}

// Allow implements rpc.Call. Nothing is counted for a message unless all of it is allowed.
func (c *call) Allow(message any) error {
	names := namespaces(message)
	for _, namespace := range names {
		if !c.token.allows(c.scope, namespace) {
			return c.refuse(status.Errorf(codes.PermissionDenied, "the token does not allow %q in a namespace of this call", c.scope))
		}
	}
	if len(names) == 0 { // a list of namespaces counts as a call in one without a name
		return c.take(c.gate.rates, "", 1)
	}
	for _, namespace := range names {
		if !c.first(namespace) {
			continue // one call counts once
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

// first notes a namespace and says whether the call had not named it before.
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

// Answer implements rpc.Call.
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

// Done implements rpc.Call: writes are logged with their outcome.
func (c *call) Done(err error) {
	if c.denied || !writes(c.method) {
		return
	}
	c.gate.audit.InfoContext(c.ctx, "written", "method", c.method, "caller", c.token.ID, "peer", address(c.ctx),
		"namespaces", c.named, "namespace_count", c.count, "code", status.Code(err).String())
}
