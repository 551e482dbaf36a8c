package auth_test

import (
	"bytes"
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestIssuerOfAnotherName: the log says once why no token of the issuer counts.
func TestIssuerOfAnotherName(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	access := auth.Access{OIDC: auth.OIDC{Issuer: authtest.NewIssuer(t).URL + "/", Audience: "triskele"}}
	server, at, err := auth.Listener{Listen: "127.0.0.1:0", TLS: plain}.Open(access, service(t), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	shown := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer a.b.c"))
	for range 3 {
		if _, err := server.Gate(shown, triskelev1.MemoryService_Get_FullMethodName); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want UNAVAILABLE", err)
		}
	}
	if strings.Count(log.String(), "did not match the issuer") != 1 {
		t.Errorf("got the log %q, want one line with the cause", &log)
	}
}

// TestLongSubjects: callers whose names differ at the end only have limits of their own, as the accounts of a Kubernetes cluster do.
func TestLongSubjects(t *testing.T) {
	t.Parallel()
	p := authtest.NewIssuer(t)
	address := serve(t, auth.Listener{TLS: plain}, auth.Access{OIDC: auth.OIDC{Issuer: p.URL, Audience: "triskele"}, RateLimit: 0.001})
	for _, name := range []string{"billing", "support"} {
		token := p.Sign(t, map[string]any{
			"iss": p.URL, "aud": "triskele", "sub": "system:serviceaccount:" + strings.Repeat("n", 63) + ":" + name, "exp": time.Now().Add(time.Hour).Unix(),
			"scope": "triskele.read", "triskele_namespaces": []string{"a"},
		})
		if err := get(t.Context(), dial(t, address, plain, token), "a"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOIDC: tokens that the issuer signed for us count, by what they claim, and no others; our own count beside them.
func TestOIDC(t *testing.T) {
	t.Parallel()
	p := authtest.NewIssuer(t)
	file, own := tokens(t, auth.Token{Namespaces: []string{"a"}, Scopes: []auth.Scope{auth.Read}})
	address := serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file, OIDC: auth.OIDC{Issuer: p.URL, Audience: "triskele"}})
	claims := func(changes map[string]any) map[string]any {
		all := map[string]any{
			"iss": p.URL, "aud": []string{"other", "triskele"}, "sub": "agent-7", "exp": time.Now().Add(time.Hour).Unix(),
			"scope": "openid triskele.read", "triskele_namespaces": []string{"a", "b/*"},
		}
		for name, value := range changes {
			all[name] = value
		}
		return all
	}
	moved := ""
	for _, c := range []struct {
		name   string
		before func()
		token  string
		in     string
		want   codes.Code
	}{
		{"the issuer is away", func() { p.Down.Store(true) }, p.Sign(t, claims(nil)), "a", codes.Unavailable},
		{"our own meanwhile", nil, own, "a", codes.OK},
		{"the issuer is back", func() { p.Down.Store(false) }, p.Sign(t, claims(nil)), "a", codes.OK},
		{"away again, with its keys known", func() { p.Down.Store(true) }, p.Sign(t, claims(nil)), "b/c", codes.OK},
		{"another key, while it is away", nil, authtest.NewIssuer(t).Sign(t, claims(nil)), "a", codes.Unavailable},
		{"another key", func() { p.Down.Store(false) }, authtest.NewIssuer(t).Sign(t, claims(nil)), "a", codes.Unauthenticated},
		{"other namespace", nil, p.Sign(t, claims(nil)), "c", codes.PermissionDenied},
		{"another scope", nil, p.Sign(t, claims(map[string]any{"scope": "openid triskele.write"})), "a", codes.PermissionDenied},
		{"a scope of something else", nil, p.Sign(t, claims(map[string]any{"scope": "read"})), "a", codes.PermissionDenied},
		{"no scope", nil, p.Sign(t, claims(map[string]any{"scope": ""})), "a", codes.PermissionDenied},
		{"no namespaces", nil, p.Sign(t, claims(map[string]any{"triskele_namespaces": nil})), "a", codes.PermissionDenied},
		{"no namespace at all", nil, p.Sign(t, claims(map[string]any{"triskele_namespaces": []string{"a*"}})), "a", codes.Unauthenticated},
		{"claims of another form", nil, p.Sign(t, claims(map[string]any{"scope": 7})), "a", codes.Unauthenticated},
		{"expired", nil, p.Sign(t, claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})), "a", codes.Unauthenticated},
		{"for others", nil, p.Sign(t, claims(map[string]any{"aud": "other"})), "a", codes.Unauthenticated},
		{"of others", nil, p.Sign(t, claims(map[string]any{"iss": "https://example.com"})), "a", codes.Unauthenticated},
		{"keys at another place", func() { p.Move(t); moved = p.Sign(t, claims(nil)) }, "", "a", codes.OK},
		{"unsigned", nil, "eyJhbGciOiJub25lIn0.e30.", "a", codes.Unauthenticated},
		{"a word", nil, "secret", "a", codes.Unauthenticated},
	} {
		if c.before != nil {
			c.before()
		}
		if err := get(t.Context(), dial(t, address, plain, cmp.Or(c.token, moved)), c.in); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	for flag, config := range map[string]auth.OIDC{
		"--oidc-audience": {Issuer: p.URL}, "https": {Issuer: "http://example.com", Audience: "x"}, "--oidc-issuer": {Issuer: "example.com", Audience: "x"},
	} {
		if err := opens(t, config); err == nil {
			t.Errorf("%s: %+v is taken", flag, config)
		}
	}
}
