package cli_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
)

// bearer shows a token with every request.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// tokens writes a file of tokens and returns it with their secrets, by name.
func tokens(t *testing.T, grants map[string]auth.Token) (file string, secrets map[string]string) {
	t.Helper()
	file, secrets = filepath.Join(t.TempDir(), "tokens.json"), map[string]string{}
	var kept []auth.Token
	for name, grant := range grants {
		secret, entry, err := auth.NewToken(grant, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		kept, secrets[name] = append(kept, entry), secret
	}
	if err := auth.WriteTokens(file, kept); err != nil {
		t.Fatal(err)
	}
	return file, secrets
}

// Over HTTP with tokens, the SDK's client is let in with one, and to what it allows.
func TestMCPTokens(t *testing.T) {
	t.Parallel()
	authority := authtest.NewAuthority(t)
	own := authority.Issue(t, "memory")
	file, secrets := tokens(t, map[string]auth.Token{
		"writer":    {Namespaces: []string{"default"}, Scopes: []auth.Scope{auth.Recall, auth.Write}},
		"reader":    {Namespaces: []string{"default"}, Scopes: []auth.Scope{auth.Recall}},
		"elsewhere": {Namespaces: []string{"globex"}, Scopes: auth.Scopes},
		"expired":   {Namespaces: []string{"*"}, Scopes: auth.Scopes, Expires: time.Now().Add(-time.Second)},
	})
	secrets["none"], secrets["unknown"] = "", "trsk_x"
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	p, url := listen(t, "--listen=0.0.0.0:0", "--tls-cert="+own.Cert, "--tls-key="+own.Key, "--tokens="+file, "--audit="+audit)
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	url = strings.Replace(url, "[::]", "127.0.0.1", 1)
	pem, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)

	stored := "Remembered as"
	for name, want := range map[string]string{"writer": stored, "reader": "scope", "elsewhere": "in a namespace of this call", "expired": "401", "unknown": "401", "none": "401"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{transport, secrets[name]}}, MaxRetries: -1}, nil)
		if want == "401" {
			if err == nil || !strings.Contains(err.Error(), "Unauthorized") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if list, err := session.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 6 {
			t.Errorf("%s: %v", name, err)
		}
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "remember", Arguments: map[string]any{"content": "The crane is serviced in spring."}})
		if err != nil || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, want) || result.IsError != (want != stored) {
			t.Errorf("%s: %v, %+v", name, err, result)
		}
		_ = session.Close()
	}

	resp, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("no token: %s %v", resp.Status, resp.Header)
	}
	p.stop()
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d: %s", code, p.errs)
	}
	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(log), []byte("\n")) {
		if !bytes.Contains(line, []byte(`"peer":"127.0.0.1:`)) || bytes.Contains(line, []byte("crane")) {
			t.Errorf("the audit log: %s", line)
		}
	}
	if !bytes.Contains(log, []byte(`"written"`)) || bytes.Count(log, []byte(`"denied"`)) < 5 {
		t.Errorf("the audit log: %s", log)
	}
}

// An address that others can reach needs tokens and encryption, both, or the operator's word.
func TestMCPListens(t *testing.T) {
	t.Parallel()
	own := authtest.NewAuthority(t).Issue(t, "memory")
	file, _ := tokens(t, map[string]auth.Token{"x": {Namespaces: []string{"*"}, Scopes: auth.Scopes}})
	for name, args := range map[string][]string{
		"neither": nil, "tokens alone": {"--tokens=" + file}, "encryption alone": {"--tls-cert=" + own.Cert, "--tls-key=" + own.Key},
	} {
		args = append([]string{"mcp", "--listen=0.0.0.0:0", "--sqlite=" + filepath.Join(t.TempDir(), "test.db"), "--embedder=hashed"}, args...)
		if got := run("", args...); got.code != 2 || !strings.Contains(got.err, "--allow-remote") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	p, _ := listen(t, "--listen=0.0.0.0:0", "--allow-remote")
	if !strings.Contains(p.errs.String(), "OTHER MACHINES CAN REACH THIS ADDRESS") {
		t.Errorf("no warning: %s", p.errs)
	}
	p.stop()
	<-p.code
}

// A client without a token learns from the refusal where tokens are issued.
func TestMCPNamesItsIssuer(t *testing.T) {
	t.Parallel()
	p, url := listen(t, "--oidc-issuer=https://issuer.example", "--oidc-audience=triskele")
	metadata := strings.Replace(url, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1)
	for shown, want := range map[string]string{
		"":             `Bearer resource_metadata="` + metadata + `"`,
		"Bearer trsk_": `Bearer error="invalid_token", resource_metadata="` + metadata + `"`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(handshakes["2025-06-18"]))
		if err != nil {
			t.Fatal(err)
		}
		if shown != "" {
			req.Header.Set("Authorization", shown)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 401 || got != want {
			t.Errorf("%q: got %s, %q; want 401, %q", shown, resp.Status, got, want)
		}
	}
	got, err := oauthex.GetProtectedResourceMetadata(t.Context(), metadata, url, http.DefaultClient)
	if err != nil || got.Resource != url || len(got.AuthorizationServers) != 1 || got.AuthorizationServers[0] != "https://issuer.example" || !slices.Contains(got.ScopesSupported, "triskele.recall") {
		t.Errorf("got %+v, %v", got, err)
	}
	p.stop()
	<-p.code
}

// Behind a proxy that ends TLS, clients are told of the URL by which they came, and may use its name.
func TestMCPBehindAProxy(t *testing.T) {
	t.Parallel()
	for public, metadata := range map[string]string{
		"https://memory.example.com/mcp":           "https://memory.example.com/.well-known/oauth-protected-resource/mcp",
		"https://memory.example.com:8443/team/mcp": "https://memory.example.com:8443/.well-known/oauth-protected-resource/team/mcp",
		"https://memory.example.com":               "https://memory.example.com/.well-known/oauth-protected-resource",
	} {
		p, inside := listen(t, "--oidc-issuer=https://issuer.example", "--oidc-audience=triskele", "--public-url="+public)
		proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", strings.TrimSuffix(strings.TrimPrefix(inside, "http://"), "/mcp")
			if r.In.Method == http.MethodPost {
				r.Out.URL.Path = "/mcp"
			}
		}})
		t.Cleanup(proxy.Close)
		client := proxy.Client()
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, proxy.Listener.Addr().String())
		}
		ask := func(method, to string) *http.Response {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp
		}
		resp := ask(http.MethodPost, public)
		if got, want := resp.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="`+metadata+`"`; resp.StatusCode != 401 || got != want {
			t.Errorf("%s: got %s, %q; want 401, %q", public, resp.Status, got, want)
		}
		got, err := oauthex.GetProtectedResourceMetadata(t.Context(), metadata, public, client)
		if err != nil {
			t.Errorf("%s: %v", public, err)
		} else if want := []string{"triskele.recall", "triskele.read", "triskele.write"}; !slices.Equal(got.ScopesSupported, want) {
			t.Errorf("%s: got the scopes %v, want %v", public, got.ScopesSupported, want)
		}
		if resp := ask(http.MethodOptions, metadata); resp.StatusCode != http.StatusNoContent || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: before a web page reads the metadata: %s, %v", public, resp.Status, resp.Header)
		}
		p.stop()
		<-p.code
	}
}
