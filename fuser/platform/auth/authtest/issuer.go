package authtest

import (
	"crypto/ecdsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/go-jose/go-jose/v4"
)

// Issuer is an OpenID Connect issuer with one key.
type Issuer struct {
	URL  string
	Down atomic.Bool
	keys atomic.Pointer[place]
}

// place is where the issuer's key is.
type place struct {
	path string
	key  *ecdsa.PrivateKey
}

// Move gives the issuer another key, at another place.
func (p *Issuer) Move(t *testing.T) { p.keys.Store(&place{"/moved", key(t)}) }

// NewIssuer returns an issuer on loopback that serves until the test ends.
func NewIssuer(t *testing.T) *Issuer {
	t.Helper()
	p := &Issuer{}
	p.keys.Store(&place{"/keys", key(t)})
	mux := http.NewServeMux()
	answer := func(value func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if p.Down.Load() || r.PathValue("keys") != "" && r.URL.Path != p.keys.Load().path {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value())
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", answer(func() any {
		return map[string]any{"issuer": p.URL, "jwks_uri": p.URL + p.keys.Load().path, "id_token_signing_alg_values_supported": []string{"ES256"}}
	}))
	mux.HandleFunc("/{keys}", answer(func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.keys.Load().key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// Sign returns a JWT of the claims.
func (p *Issuer) Sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return oidctest.SignIDToken(p.keys.Load().key, "1", oidc.ES256, string(text))
}
