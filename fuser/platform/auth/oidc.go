package auth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// issuerTimeout bounds a request to the issuer. Only tokens with a new key need one.
	issuerTimeout = 5 * time.Second
	// scopePrefix marks our scopes in a token that is for other services, too.
	scopePrefix = "triskele."
)

// OIDC is the issuer of accepted JWTs (OpenID Connect Core 1.0, section 3.1.3.7). The zero value is none.
type OIDC struct {
	Issuer   string `name:"oidc-issuer" help:"Accept tokens (JWT) that this OpenID Connect issuer signed. The claim \"scope\" has scopes such as triskele.recall; \"triskele_namespaces\" lists namespaces." env:"TRISKELE_OIDC_ISSUER" placeholder:"URL"`
	Audience string `name:"oidc-audience" help:"Audience that the issuer's tokens must name." env:"TRISKELE_OIDC_AUDIENCE" placeholder:"NAME" needs:"oidc-issuer"`
}

// issuer verifies the tokens of an OpenID Connect issuer. It fetches the keys for the first token, so that a gateway
// starts while the issuer is down.
type issuer struct {
	config   OIDC
	client   *http.Client
	asking   singleflight.Group
	verifier atomic.Pointer[oidc.IDTokenVerifier]
}

func newIssuer(config OIDC) (*issuer, error) {
	at, err := url.Parse(config.Issuer)
	if err != nil || at.Host == "" || at.Scheme != "https" && !(at.Scheme == "http" && net.ParseIP(at.Hostname()).IsLoopback()) {
		return nil, errors.New("--oidc-issuer must be an https URL")
	}
	if config.Audience == "" {
		return nil, errors.New("--oidc-issuer needs --oidc-audience: a token for another service must not be accepted")
	}
	return &issuer{config: config, client: &http.Client{Timeout: issuerTimeout}}, nil
}

// discover returns a verifier, which renews the issuer's keys itself.
func (i *issuer) discover(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	if known := i.verifier.Load(); known != nil {
		return known, nil
	}
	answer := i.asking.DoChan("", func() (any, error) {
		provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), i.client), i.config.Issuer)
		if err != nil {
			return nil, err
		}
		i.verifier.Store(provider.Verifier(&oidc.Config{ClientID: i.config.Audience}))
		return nil, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case found := <-answer:
		return i.verifier.Load(), found.Err
	}
}

// verify returns what a signed token allows.
func (i *issuer) verify(ctx context.Context, signed string) (Token, error) {
	if strings.Count(signed, ".") != 2 {
		return Token{}, status.Error(codes.Unauthenticated, errUnknownToken.Error())
	}
	verifier, err := i.discover(ctx)
	if err != nil {
		return Token{}, status.Error(codes.Unavailable, "the token issuer cannot be reached")
	}
	verified, err := verifier.Verify(ctx, signed)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return Token{}, status.Error(codes.Unauthenticated, "the token is expired")
	}
	if err != nil {
		return Token{}, status.Error(codes.Unauthenticated, "the token is not valid for this service")
	}
	var claims struct {
		Scope      string   `json:"scope"`
		Namespaces []string `json:"triskele_namespaces"`
	}
	if err := verified.Claims(&claims); err != nil {
		return Token{}, status.Error(codes.Unauthenticated, "the token's claims cannot be read")
	}
	token := Token{ID: fmt.Sprintf("%.64q", verified.Subject), Namespaces: claims.Namespaces}
	for scope := range strings.FieldsSeq(claims.Scope) {
		if ours, ok := strings.CutPrefix(scope, scopePrefix); ok {
			token.Scopes = append(token.Scopes, Scope(ours))
		}
	}
	for _, n := range token.Namespaces {
		if !namespacePattern.MatchString(n) {
			return Token{}, status.Error(codes.Unauthenticated, `the token's claim "triskele_namespaces" must list namespaces, each as NAME, NAME/* or *`)
		}
	}
	return token, nil
}
