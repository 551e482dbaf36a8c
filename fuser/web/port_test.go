package web_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	"github.com/triskele/triskele/fuser/web"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// dial returns a gRPC client for the same port.
func (g *gateway) dial(creds credentials.TransportCredentials) triskelev1.RecallServiceClient {
	g.t.Helper()
	conn, err := grpc.NewClient(g.address, grpc.WithTransportCredentials(creds))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return triskelev1.NewRecallServiceClient(conn)
}

func (g *gateway) recalls(c triskelev1.RecallServiceClient) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	_, err := c.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"acme/ops"}, Query: "frozen"})
	return err
}

// Every way of speaking HTTP finds its server on one port, in plain text and encrypted.
func TestOnePort(t *testing.T) {
	plain := startPlain(t)
	if err := plain.recalls(plain.dial(insecure.NewCredentials())); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	if resp, _ := plain.ask(http.DefaultClient, "POST", "http://"+plain.address+"/v1/recall", frozen); resp.StatusCode != 200 {
		t.Errorf("HTTP: %s", resp.Status)
	}

	authority := authtest.NewAuthority(t)
	for name, listener := range map[string]auth.Listener{
		"callers without a certificate": {TLS: authority.Issue(t, "fuser")},
		"callers with one":              {TLS: authority.Issue(t, "fuser"), Clients: []string{"agent"}},
	} {
		g := start(t, web.Flags{HTTP: true}, listener, auth.Access{})
		pem, err := os.ReadFile(authority.File)
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(pem)
		stranger := config.Clone()
		for who, c := range map[string]*tls.Config{"agent": config, "stranger": stranger} {
			own := authority.Issue(t, who)
			pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		if err := g.recalls(g.dial(credentials.NewTLS(config.Clone()))); err != nil {
			t.Errorf("%s: gRPC: %v", name, err)
		}
		for offer, protocols := range map[string][]string{"as browsers": {"h2", "http/1.1"}, "HTTP/1.1": {"http/1.1"}, "nothing": nil} {
			c := config.Clone()
			c.NextProtos = protocols
			resp, text := g.ask(&http.Client{Transport: &http.Transport{TLSClientConfig: c}}, "POST", "https://"+g.address+"/v1/recall", frozen)
			if resp.StatusCode != 200 || resp.ProtoMajor != 1 {
				t.Errorf("%s, offering %s: %s %s", name, offer, resp.Proto, text)
			}
		}
		want := 200
		if len(listener.Clients) > 0 {
			want = 403
		}
		if resp, text := g.ask(&http.Client{Transport: &http.Transport{TLSClientConfig: stranger}}, "POST", "https://"+g.address+"/v1/recall", frozen); resp.StatusCode != want {
			t.Errorf("%s: a certificate of another name: %d %s", name, resp.StatusCode, text)
		}
	}
}

// Without the flag, the port speaks gRPC alone.
func TestSwitchedOff(t *testing.T) {
	g := start(t, web.Flags{}, auth.Listener{}, auth.Access{})
	if err := g.recalls(g.dial(insecure.NewCredentials())); err != nil {
		t.Error(err)
	}
	if resp, err := http.Get("http://" + g.address + "/openapi.json"); err == nil {
		_ = resp.Body.Close()
		t.Error(resp.Status)
	}
}

// Tokens, scopes, rates and the audit log are those of gRPC.
func TestTokens(t *testing.T) {
	folder := t.TempDir()
	access := auth.Access{Tokens: filepath.Join(folder, "tokens.json"), Audit: filepath.Join(folder, "audit.jsonl")}
	secrets := map[string]string{}
	var kept []auth.Token
	for name, grant := range map[string]auth.Token{
		"agent": {Namespaces: []string{"acme/*"}, Scopes: []auth.Scope{auth.Recall, auth.Write}},
		"slow":  {Namespaces: []string{"acme/*"}, Scopes: auth.Scopes, Rate: 0.001},
	} {
		secret, entry, err := auth.NewToken(grant, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secrets[name] = secret
		kept = append(kept, entry)
	}
	if err := auth.WriteTokens(access.Tokens, kept); err != nil {
		t.Fatal(err)
	}
	g := start(t, web.Flags{HTTP: true}, auth.Listener{}, access)
	url := "http://" + g.address
	for _, x := range []struct {
		name, method, path, body, token string
		code                            int
		header, value                   string
	}{
		{"no token", "POST", "/v1/recall", frozen, "", 401, "WWW-Authenticate", "Bearer"},
		{"a wrong one", "POST", "/v1/recall", frozen, "trsk_x", 401, "WWW-Authenticate", "Bearer"},
		{"a right one", "POST", "/v1/recall", frozen, secrets["agent"], 200, "", ""},
		{"another scope", "GET", "/v1/memories?namespace=acme/ops", "", secrets["agent"], 403, "", ""},
		{"another namespace", "POST", "/v1/memories", `{"namespace": "globex", "content": "x"}`, secrets["agent"], 403, "", ""},
		{"a write", "POST", "/v1/memories", memory, secrets["agent"], 200, "", ""},
		{"the first call", "POST", "/v1/recall", frozen, secrets["slow"], 200, "", ""},
		{"one too many", "POST", "/v1/recall", frozen, secrets["slow"], 429, "Retry-After", "1000"},
		{"in a stream", "GET", "/v1/memories:export?namespace=acme/ops", "", secrets["slow"], 429, "Retry-After", "1000"},
		{"by another name", "POST", "/v1/recall", frozen, secrets["agent"], 200, "", ""},
	} {
		headers := []string{"Host: fuser.example"} // which is no danger where a token is asked for
		if x.token != "" {
			headers = append(headers, "Authorization: Bearer "+x.token)
		}
		resp, text := g.ask(http.DefaultClient, x.method, url+x.path, x.body, headers...)
		if resp.StatusCode != x.code || x.header != "" && resp.Header.Get(x.header) != x.value {
			t.Errorf("%s: %d %v %s", x.name, resp.StatusCode, resp.Header, text)
		}
	}
	audit, err := os.ReadFile(access.Audit)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(audit), []byte("\n"))
	if len(lines) != 7 {
		t.Errorf("%d lines: %s", len(lines), audit)
	}
	for _, line := range lines {
		var entry struct{ Peer, Method string }
		if err := json.Unmarshal(line, &entry); err != nil || !strings.HasPrefix(entry.Peer, "127.0.0.1:") || entry.Method == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// A connection on which nothing is ever said holds up neither others nor the end; a running call is waited for.
func TestStop(t *testing.T) {
	g := startPlain(t)
	idle, err := net.Dial("tcp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	if _, err := idle.Write([]byte("PO")); err != nil {
		t.Fatal(err)
	}
	began, end := make(chan struct{}), make(chan struct{})
	g.recall = func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		close(began)
		<-end
		return &triskelev1.RecallResponse{}, nil
	}
	code := make(chan int, 1)
	go func() {
		resp, _ := g.ask(http.DefaultClient, "POST", "http://"+g.address+"/v1/recall", frozen)
		code <- resp.StatusCode
	}()
	<-began
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		g.stop()
	}()
	_, _ = idle.Read(make([]byte, 1)) // until it is closed
	select {
	case <-stopped:
		t.Error("stopped while a call was running")
	default:
	}
	close(end)
	if got := <-code; got != 200 {
		t.Errorf("the running call: %d", got)
	}
	<-stopped
}
