package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/auth"
)

// provider is an OpenID Connect issuer with one key.
type provider struct {
	url  string
	key  *ecdsa.PrivateKey
	down atomic.Bool
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{key: signingKey(t)}
	mux := http.NewServeMux()
	answer := func(value func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if p.down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value())
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", answer(func() any {
		return map[string]any{"issuer": p.url, "jwks_uri": p.url + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}}
	}))
	mux.HandleFunc("/keys", answer(func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func signingKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a token of the claims.
func sign(t *testing.T, key *ecdsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

// TestOIDC: tokens that the issuer signed for us count, by what they claim, and no others; our own count beside them.
func TestOIDC(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	file, own := tokens(t, auth.Token{Namespaces: []string{"a"}, Scopes: []auth.Scope{auth.Read}})
	address := serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file, OIDC: auth.OIDC{Issuer: p.url, Audience: "triskele"}})
	claims := func(changes map[string]any) map[string]any {
		all := map[string]any{
			"iss": p.url, "aud": []string{"other", "triskele"}, "sub": "agent-7", "exp": time.Now().Add(time.Hour).Unix(),
			"scope": "openid triskele.read", "triskele_namespaces": []string{"a", "b/*"},
		}
		for name, value := range changes {
			all[name] = value
		}
		return all
	}
	for _, c := range []struct {
		name   string
		before func()
		token  string
		in     string
		want   codes.Code
	}{
		{"the issuer is away", func() { p.down.Store(true) }, sign(t, p.key, claims(nil)), "a", codes.Unavailable},
		{"our own meanwhile", nil, own, "a", codes.OK},
		{"the issuer is back", func() { p.down.Store(false) }, sign(t, p.key, claims(nil)), "a", codes.OK},
		{"away again, with its keys known", func() { p.down.Store(true) }, sign(t, p.key, claims(nil)), "b/c", codes.OK},
		{"another key, while it is away", nil, sign(t, signingKey(t), claims(nil)), "a", codes.Unauthenticated},
		{"another key", func() { p.down.Store(false) }, sign(t, signingKey(t), claims(nil)), "a", codes.Unauthenticated},
		{"other namespace", nil, sign(t, p.key, claims(nil)), "c", codes.PermissionDenied},
		{"another scope", nil, sign(t, p.key, claims(map[string]any{"scope": "openid triskele.write"})), "a", codes.PermissionDenied},
		{"a scope of something else", nil, sign(t, p.key, claims(map[string]any{"scope": "read"})), "a", codes.PermissionDenied},
		{"no scope", nil, sign(t, p.key, claims(map[string]any{"scope": ""})), "a", codes.PermissionDenied},
		{"no namespaces", nil, sign(t, p.key, claims(map[string]any{"triskele_namespaces": nil})), "a", codes.PermissionDenied},
		{"no namespace at all", nil, sign(t, p.key, claims(map[string]any{"triskele_namespaces": []string{"a*"}})), "a", codes.Unauthenticated},
		{"claims of another form", nil, sign(t, p.key, claims(map[string]any{"scope": 7})), "a", codes.Unauthenticated},
		{"expired", nil, sign(t, p.key, claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})), "a", codes.Unauthenticated},
		{"for others", nil, sign(t, p.key, claims(map[string]any{"aud": "other"})), "a", codes.Unauthenticated},
		{"of others", nil, sign(t, p.key, claims(map[string]any{"iss": "https://example.com"})), "a", codes.Unauthenticated},
		{"unsigned", nil, "eyJhbGciOiJub25lIn0.e30.", "a", codes.Unauthenticated},
		{"a word", nil, "secret", "a", codes.Unauthenticated},
	} {
		if c.before != nil {
			c.before()
		}
		if err := get(t.Context(), dial(t, address, plain, c.token), c.in); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	for flag, config := range map[string]auth.OIDC{
		"--oidc-audience": {Issuer: p.url}, "https": {Issuer: "http://example.com", Audience: "x"}, "--oidc-issuer": {Issuer: "example.com", Audience: "x"},
	} {
		if err := opens(t, config); err == nil {
			t.Errorf("%s: %+v is taken", flag, config)
		}
	}
}
