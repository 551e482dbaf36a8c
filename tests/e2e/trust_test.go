package e2e_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// flags are a program's for a certificate.
func flags(tls auth.TLS) []string {
	return []string{"--tls-cert", tls.Cert, "--tls-key", tls.Key, "--tls-ca", tls.CA, "--tls-reload", "50ms"}
}

// TestTrust: with certificates between the services and tokens for agents, every wrong combination is refused with the
// right code, the refusals say nothing of what is there, and everything else works as without.
func TestTrust(t *testing.T) {
	t.Parallel()
	authority, other := authtest.NewAuthority(t), authtest.NewAuthority(t)
	folder := t.TempDir()
	tokens, audit := filepath.Join(folder, "tokens.json"), filepath.Join(folder, "audit.jsonl")
	secrets := map[string]string{}
	var kept []auth.Token
	for name, grant := range map[string]auth.Token{
		"agent":   {Namespaces: []string{"acme/*"}, Scopes: []auth.Scope{auth.Recall, auth.Read, auth.Write}},
		"reader":  {Namespaces: []string{"acme/*"}, Scopes: []auth.Scope{auth.Recall, auth.Read}},
		"other":   {Namespaces: []string{"globex"}, Scopes: auth.Scopes},
		"expired": {Namespaces: []string{"*"}, Scopes: auth.Scopes, Expires: time.Now().Add(-time.Second)},
		"revoked": {Namespaces: []string{"*"}, Scopes: auth.Scopes},
		"slow":    {Namespaces: []string{"acme/*"}, Scopes: auth.Scopes, Rate: 0.001},
	} {
		secret, entry, err := auth.NewToken(grant, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		entry.Name, secrets[name] = name, secret
		kept = append(kept, entry)
	}
	if err := auth.WriteTokens(tokens, kept); err != nil {
		t.Fatal(err)
	}

	gateway := authority.Issue(t, "fuser")
	args := map[string][]string{"fuser": append(flags(gateway), "--tokens", tokens, "--audit", audit)}
	for _, name := range append([]string{"memory"}, legs...) {
		args[name] = flags(authority.Issue(t, name))
	}
	options := func(tls auth.TLS, token string) []grpc.DialOption {
		tls.Reload = time.Second
		options, err := auth.Bearer{Token: token}.Dial(tls, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return options
	}
	agent := auth.TLS{CA: authority.File}
	s := startWith(t, setup{args: args, dial: func(name string) []grpc.DialOption {
		if name == "fuser" {
			return options(agent, secrets["agent"])
		}
		return options(gateway, "") // as the gateway does
	}})
	triskele := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "triskele"), args...)
		cmd.Env = append(os.Environ(), "TRISKELE_TOKEN="+secrets["agent"])
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	s.seed("acme/kestrel")
	resp, err := s.ask("acme/kestrel", 5*time.Second)
	if err != nil || resp.GetDegraded() || len(resp.GetHits()) == 0 {
		t.Fatalf("an agent's recall: %v, %v", resp, err)
	}
	if out, err := triskele("recall", "--address", s.processes["fuser"].address, "--tls-ca", authority.File, "-n", "acme/kestrel", "backup of Kestrel 3"); err != nil || !strings.Contains(out, "heron-db") {
		t.Errorf("the command line's recall: %v: %s", err, out)
	}

	// A certificate that is replaced is used, and a token that is revoked is not, without a restart.
	authority.Renew(t, gateway, "fuser", time.Hour)
	id := strings.Split(secrets["revoked"], "_")[1]
	if out, err := triskele("token", "revoke", id, "--tokens", tokens); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	const private = "heron-db"
	call := func(address string, tls auth.TLS, token string, ask func(context.Context, *grpc.ClientConn) error) error {
		conn, err := rpc.Dial(address, s.tel, options(tls, token)...)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		return ask(ctx, conn)
	}
	recall := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := triskelev1.NewRecallServiceClient(conn).Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"acme/kestrel"}, Query: "Kestrel"})
		return err
	}
	recallBoth := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := triskelev1.NewRecallServiceClient(conn).Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"globex", "acme/kestrel"}, Query: "Kestrel"})
		return err
	}
	write := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := triskelev1.NewMemoryServiceClient(conn).Remember(ctx, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "acme/kestrel", Content: "not to be stored"}})
		return err
	}
	export := func(ctx context.Context, conn *grpc.ClientConn) error {
		stream, err := triskelev1.NewMemoryServiceClient(conn).Export(ctx, &triskelev1.ExportRequest{Namespace: "acme/kestrel"})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	rename := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := triskelev1.NewMemoryServiceClient(conn).RenameNamespace(ctx, &triskelev1.RenameNamespaceRequest{Namespace: "globex", NewName: "acme/kestrel/globex"})
		return err
	}
	search := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := triskelev1.NewLegServiceClient(conn).Search(ctx, &triskelev1.SearchRequest{Namespace: "acme/kestrel", Query: "Kestrel", Depth: 10})
		return err
	}
	stranger := other.Issue(t, "fuser")
	stranger.CA = authority.File
	misled := auth.TLS{CA: other.File}
	at := func(name string) string { return s.processes[name].address }
	s.eventually("a revoked token is refused", func() bool {
		return status.Code(call(at("fuser"), agent, secrets["revoked"], recall)) == codes.Unauthenticated
	})
	for name, c := range map[string]struct {
		address string
		tls     auth.TLS
		token   string
		ask     func(context.Context, *grpc.ClientConn) error
		want    codes.Code
	}{
		"no token":                    {at("fuser"), agent, "", recall, codes.Unauthenticated},
		"made up":                     {at("fuser"), agent, "trsk_0123456789ab_made-up", recall, codes.Unauthenticated},
		"expired":                     {at("fuser"), agent, secrets["expired"], recall, codes.Unauthenticated},
		"revoked":                     {at("fuser"), agent, secrets["revoked"], recall, codes.Unauthenticated},
		"other namespace":             {at("fuser"), agent, secrets["other"], recall, codes.PermissionDenied},
		"one of two namespaces":       {at("fuser"), agent, secrets["other"], recallBoth, codes.PermissionDenied},
		"into another namespace":      {at("fuser"), agent, secrets["other"], rename, codes.PermissionDenied},
		"export of another":           {at("fuser"), agent, secrets["other"], export, codes.PermissionDenied},
		"a reader writes":             {at("fuser"), agent, secrets["reader"], write, codes.PermissionDenied},
		"a reader reads":              {at("fuser"), agent, secrets["reader"], export, codes.OK},
		"an agent's administration":   {at("fuser"), agent, secrets["agent"], rename, codes.PermissionDenied},
		"authority not known":         {at("fuser"), misled, secrets["agent"], recall, codes.Unavailable},
		"plain text":                  {at("fuser"), auth.TLS{}, secrets["agent"], recall, codes.Unavailable},
		"the gateway asks a leg":      {at("lexical"), gateway, "", search, codes.OK},
		"an agent asks a leg":         {at("lexical"), agent, secrets["agent"], search, codes.Unavailable},
		"a leg asks a leg":            {at("lexical"), authority.Issue(t, "dense"), "", search, codes.PermissionDenied},
		"a stranger asks a leg":       {at("dense"), stranger, "", search, codes.Unavailable},
		"a leg in plain text":         {at("graph"), auth.TLS{}, "", search, codes.Unavailable},
		"an agent asks for records":   {at("memory"), agent, secrets["agent"], export, codes.Unavailable},
		"a leg asks for records":      {at("memory"), authority.Issue(t, "graph"), "", export, codes.PermissionDenied},
		"the gateway asks for a text": {at("memory"), gateway, "", export, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			err := call(c.address, c.tls, c.token, c.ask)
			if status.Code(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			for _, word := range []string{private, "acme", "globex"} {
				if err != nil && strings.Contains(err.Error(), word) {
					t.Errorf("the refusal says %q: %v", word, err)
				}
			}
		})
	}
	// A tenant's list has its own names only: other namespaces' names tell of other tenants.
	named := func(namespace string) func(context.Context, *grpc.ClientConn) error {
		return func(ctx context.Context, conn *grpc.ClientConn) error {
			resp, err := triskelev1.NewMemoryServiceClient(conn).ListNamespaces(ctx, &triskelev1.ListNamespacesRequest{})
			if got := resp.GetNamespaces(); err == nil && !(namespace == "" && len(got) == 0 || len(got) == 1 && got[0].GetNamespace() == namespace) {
				t.Errorf("got the namespaces %v, want %q", got, namespace)
			}
			return err
		}
	}
	for name, want := range map[string]string{"slow": "acme/kestrel", "other": ""} {
		if err := call(at("fuser"), agent, secrets[name], named(want)); err != nil {
			t.Errorf("the list of %s: %v", name, err)
		}
	}
	if err := call(at("fuser"), agent, secrets["slow"], recall); err != nil {
		t.Errorf("the first of a slow token: %v", err)
	}
	if err := call(at("fuser"), agent, secrets["slow"], recall); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second of a slow token: %v", err)
	}

	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(log, []byte(`"msg":"written"`)); n != 20 {
		t.Errorf("%d writes in the audit log, want 20", n)
	}
	if n := bytes.Count(log, []byte(`"msg":"denied"`)); n < 10 {
		t.Errorf("%d refusals in the audit log", n)
	}
	everything := string(log) + s.logs()
	for _, word := range append(slices.Sorted(func(yield func(string) bool) {
		for _, secret := range secrets {
			if !yield(secret) {
				return
			}
		}
	}), private, "not to be stored") {
		if strings.Contains(everything, word) {
			t.Errorf("a log has %q", word)
		}
	}
}
