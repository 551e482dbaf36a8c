package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

const (
	// issuerTimeout bounds a request to the issuer. Only tokens with a new key need one.
	issuerTimeout = 5 * time.Second
	// maxCause bounds the text of its errors in a log line, in bytes.
	maxCause = 1000
	// longestSubject is the longest that the standard allows, in characters.
	longestSubject = 255
	// scopePrefix marks our scopes in a token that is for other services, too.
	scopePrefix = "triskele."
)

// OIDC is the issuer of accepted JWTs (OpenID Connect Core 1.0, section 3.1.3.7). The zero value is none.
type OIDC struct {
	Issuer   string `name:"oidc-issuer" help:"Accept tokens (JWT) that this OpenID Connect issuer signed. The claim \"scope\" has scopes such as triskele.recall; \"triskele_namespaces\" lists namespaces." env:"TRISKELE_OIDC_ISSUER" placeholder:"URL"`
	Audience string `name:"oidc-audience" help:"Audience that the issuer's tokens must name." env:"TRISKELE_OIDC_AUDIENCE" placeholder:"NAME" needs:"oidc-issuer"`
}

// algorithms are those that sign with a private key.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// issuer verifies the tokens of an OpenID Connect issuer. It fetches the keys for the first token, so that a gateway
// starts while the issuer is down.
type issuer struct {
	config OIDC
	client *http.Client
	asking singleflight.Group
	keys   atomic.Pointer[remoteKeys]
	log    *slog.Logger
	say    rate.Sometimes
}

// remoteKeys are the issuer's keys, which renew themselves.
type remoteKeys struct {
	*oidc.RemoteKeySet
	from string // URL
}

// keySet is the issuer's keys, for one token. away is the error if they had to be fetched and could not be: the verifier drops it.
type keySet struct {
	*remoteKeys
	away error
}

func (k *keySet) VerifySignature(ctx context.Context, signed string) ([]byte, error) {
	payload, err := k.remoteKeys.VerifySignature(ctx, signed)
	k.away = errors.Unwrap(err) // it wraps the errors of fetching, and no others
	return payload, err
}

func newIssuer(config OIDC, log *slog.Logger) (*issuer, error) {
	at, err := url.Parse(config.Issuer)
	if err != nil || at.Host == "" || at.Scheme != "https" && !(at.Scheme == "http" && net.ParseIP(at.Hostname()).IsLoopback()) {
		return nil, errors.New("--oidc-issuer must be an https URL")
	}
	if config.Audience == "" {
		return nil, errors.New("--oidc-issuer needs --oidc-audience: a token for another service must not be accepted")
	}
	return &issuer{config: config, client: &http.Client{Timeout: issuerTimeout}, log: log, say: rate.Sometimes{Interval: complain}}, nil
}

// discover returns the issuer's keys. It asks the issuer where they are, unless there are others known than lost, which could not be
// fetched.
func (i *issuer) discover(ctx context.Context, lost *remoteKeys) (*remoteKeys, error) {
	if known := i.keys.Load(); known != lost {
		return known, nil
	}
	answer := i.asking.DoChan("", func() (any, error) {
		ctx := oidc.ClientContext(context.Background(), i.client)
		provider, err := oidc.NewProvider(ctx, i.config.Issuer)
		if err != nil {
			return nil, err
		}
		var about struct {
			Keys string `json:"jwks_uri"`
		}
		if err := provider.Claims(&about); err != nil {
			return nil, err
		}
		if known := i.keys.Load(); known == nil || known.from != about.Keys {
			i.keys.Store(&remoteKeys{oidc.NewRemoteKeySet(ctx, about.Keys), about.Keys})
		}
		return nil, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case found := <-answer:
		return i.keys.Load(), found.Err
	}
}

// check verifies a token's signature, issuer, audience and time.
func (i *issuer) check(ctx context.Context, signed string, keys *keySet) (*oidc.IDToken, error) {
	if keys.away != nil {
		return nil, keys.away
	}
	return oidc.NewVerifier(i.config.Issuer, keys, &oidc.Config{ClientID: i.config.Audience, SupportedSigningAlgs: algorithms}).Verify(ctx, signed)
}

func (i *issuer) verify(ctx context.Context, signed string) (Token, error) {
	if strings.Count(signed, ".") != 2 {
		return Token{}, status.Error(codes.Unauthenticated, errUnknownToken.Error())
	}
	keys := &keySet{}
	keys.remoteKeys, keys.away = i.discover(ctx, nil)
	verified, err := i.check(ctx, signed, keys)
	if lost := keys.remoteKeys; lost != nil && keys.away != nil {
		if found, _ := i.discover(ctx, lost); found != lost { // the issuer has moved them
			keys = &keySet{remoteKeys: found}
			verified, err = i.check(ctx, signed, keys)
		}
	}
	if keys.away != nil {
		if ctx.Err() == nil {
			i.say.Do(func() {
				i.log.ErrorContext(ctx, "the token issuer's keys cannot be fetched; its tokens are refused", "issuer", i.config.Issuer, "error", rpc.Cut(keys.away.Error(), maxCause))
			})
		}
		return Token{}, status.Error(codes.Unavailable, "the token issuer cannot be reached")
	}
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
	token := Token{ID: fmt.Sprintf("%.*q", longestSubject, verified.Subject), Namespaces: claims.Namespaces}
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
