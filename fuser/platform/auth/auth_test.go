package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// records answers every call that gets through to it.
type records struct {
	triskelev1.UnimplementedMemoryServiceServer
}

func (records) Get(context.Context, *triskelev1.GetRequest) (*triskelev1.GetResponse, error) {
	return &triskelev1.GetResponse{}, nil
}

func (records) Remember(context.Context, *triskelev1.RememberRequest) (*triskelev1.RememberResponse, error) {
	return &triskelev1.RememberResponse{}, nil
}

func (records) Import(stream grpc.ClientStreamingServer[triskelev1.ImportRequest, triskelev1.ImportResponse]) error {
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&triskelev1.ImportResponse{})
		}
		if err != nil {
			return err
		}
	}
}

func service(t *testing.T) *telemetry.Service {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return process.Service("test")
}

// serve runs a server and returns its address.
func serve(t *testing.T, listener auth.Listener, access auth.Access) string {
	t.Helper()
	_, address := open(t, listener, access)
	return address
}

// open runs a server and returns it with its address.
func open(t *testing.T, listener auth.Listener, access auth.Access) (*rpc.Server, string) {
	t.Helper()
	listener.Listen = "127.0.0.1:0"
	server, at, err := listener.Open(access, service(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	triskelev1.RegisterMemoryServiceServer(server, records{})
	triskelev1.RegisterRecallServiceServer(server, recalls{})
	server.Ready()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx, at) })
	t.Cleanup(func() { stop(); running.Wait() })
	return server, at.Addr().String()
}

// dial connects with a certificate and a token, both of which may be none.
func dial(t *testing.T, address string, tls auth.TLS, token string) *grpc.ClientConn {
	t.Helper()
	tls.Reload = max(tls.Reload, time.Millisecond)
	options, err := auth.Bearer{Token: token}.Dial(tls, address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial(address, service(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// plain has no certificate, and reloads at once.
var plain = auth.TLS{Reload: time.Millisecond}

// tokens makes a file of one token and returns it with the token.
func tokens(t *testing.T, grant auth.Token) (file, secret string) {
	t.Helper()
	secret, kept, err := auth.NewToken(grant, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "tokens.json")
	if err := auth.WriteTokens(file, []auth.Token{kept}); err != nil {
		t.Fatal(err)
	}
	return file, secret
}

const id = "00000000-0000-7000-8000-000000000000"

func get(ctx context.Context, conn *grpc.ClientConn, namespace string) error {
	_, err := triskelev1.NewMemoryServiceClient(conn).Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: []string{id}})
	return err
}

func remember(ctx context.Context, conn *grpc.ClientConn, namespace string) error {
	_, err := triskelev1.NewMemoryServiceClient(conn).Remember(ctx, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: namespace, Content: "canary"}})
	return err
}

func list(ctx context.Context, conn *grpc.ClientConn, prefix string) error {
	_, err := triskelev1.NewMemoryServiceClient(conn).ListNamespaces(ctx, &triskelev1.ListNamespacesRequest{Prefix: prefix})
	return err
}

// importing sends one message for each namespace.
func importing(ctx context.Context, conn *grpc.ClientConn, namespaces ...string) error {
	stream, err := triskelev1.NewMemoryServiceClient(conn).Import(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: namespace, Content: "canary"}}}) != nil {
			break // CloseAndRecv says why
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

// TestTokens: what a token does not allow is refused with the right code, and what it does is not.
func TestTokens(t *testing.T) {
	t.Parallel()
	type ask = func(context.Context, *grpc.ClientConn) error
	in := func(call func(context.Context, *grpc.ClientConn, string) error, namespace string) ask {
		return func(ctx context.Context, conn *grpc.ClientConn) error { return call(ctx, conn, namespace) }
	}
	imports := func(namespaces ...string) ask {
		return func(ctx context.Context, conn *grpc.ClientConn) error { return importing(ctx, conn, namespaces...) }
	}
	all := []auth.Scope{auth.Recall, auth.Read, auth.Write, auth.Admin}
	past := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		grant auth.Token
		shown string // in place of the token; "-" is none
		ask   ask
		want  codes.Code
	}{
		"allowed":                {grant: auth.Token{Namespaces: []string{"a"}, Scopes: []auth.Scope{auth.Read}}, ask: in(get, "a")},
		"below":                  {grant: auth.Token{Namespaces: []string{"a/*"}, Scopes: []auth.Scope{auth.Read}}, ask: in(get, "a/b/c")},
		"everywhere":             {grant: auth.Token{Namespaces: []string{"*"}, Scopes: []auth.Scope{auth.Read}}, ask: in(get, "b")},
		"not above":              {grant: auth.Token{Namespaces: []string{"a/*"}, Scopes: all}, ask: in(get, "a"), want: codes.PermissionDenied},
		"not beside":             {grant: auth.Token{Namespaces: []string{"a/*"}, Scopes: all}, ask: in(get, "ab"), want: codes.PermissionDenied},
		"other namespace":        {grant: auth.Token{Namespaces: []string{"a"}, Scopes: all}, ask: in(get, "b"), want: codes.PermissionDenied},
		"only that namespace":    {grant: auth.Token{Namespaces: []string{"a"}, Scopes: all}, ask: in(get, "a/b"), want: codes.PermissionDenied},
		"read does not write":    {grant: auth.Token{Namespaces: []string{"a"}, Scopes: []auth.Scope{auth.Read, auth.Recall, auth.Admin}}, ask: in(remember, "a"), want: codes.PermissionDenied},
		"write does not read":    {grant: auth.Token{Namespaces: []string{"a"}, Scopes: []auth.Scope{auth.Write}}, ask: in(get, "a"), want: codes.PermissionDenied},
		"writes":                 {grant: auth.Token{Namespaces: []string{"a"}, Scopes: []auth.Scope{auth.Write}}, ask: in(remember, "a")},
		"imports":                {grant: auth.Token{Namespaces: []string{"a", "b/*"}, Scopes: all}, ask: imports("a", "b/c", "a")},
		"a message elsewhere":    {grant: auth.Token{Namespaces: []string{"a", "b/*"}, Scopes: all}, ask: imports("a", "c"), want: codes.PermissionDenied},
		"lists what is its own":  {grant: auth.Token{Namespaces: []string{"a/*"}, Scopes: all}, ask: in(list, "a/")},
		"lists what is more":     {grant: auth.Token{Namespaces: []string{"a/*"}, Scopes: all}, ask: in(list, "a")},
		"a writer's list":        {grant: auth.Token{Namespaces: []string{"a/*"}, Scopes: []auth.Scope{auth.Write}}, ask: in(list, "a/"), want: codes.PermissionDenied},
		"lists all":              {grant: auth.Token{Namespaces: []string{"a", "*"}, Scopes: all}, ask: in(list, "")},
		"no token":               {grant: auth.Token{Namespaces: []string{"*"}, Scopes: all}, shown: "-", ask: in(get, "a"), want: codes.Unauthenticated},
		"another token":          {grant: auth.Token{Namespaces: []string{"*"}, Scopes: all}, shown: "trsk_000000000000_AAAA", ask: in(get, "a"), want: codes.Unauthenticated},
		"a word":                 {grant: auth.Token{Namespaces: []string{"*"}, Scopes: all}, shown: "secret", ask: in(get, "a"), want: codes.Unauthenticated},
		"expired":                {grant: auth.Token{Namespaces: []string{"*"}, Scopes: all, Expires: past}, ask: in(get, "a"), want: codes.Unauthenticated},
		"no token, many a call":  {grant: auth.Token{Namespaces: []string{"*"}, Scopes: all}, shown: "-", ask: imports("a"), want: codes.Unauthenticated},
		"a method nobody serves": {grant: auth.Token{Namespaces: []string{"*"}, Scopes: all}, ask: unserved, want: codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, secret := tokens(t, c.grant)
			switch c.shown {
			case "":
			case "-":
				secret = ""
			default:
				secret = c.shown
			}
			conn := dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file}), plain, secret)
			if err := c.ask(t.Context(), conn); status.Code(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			if resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("health cannot be asked without a token: %v, %v", resp, err)
			}
		})
	}
}

func unserved(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := triskelev1.NewLegServiceClient(conn).Search(ctx, &triskelev1.SearchRequest{})
	return err
}

// TestTwoTokensAtOnce: nobody may guess which one counts.
func TestTwoTokensAtOnce(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	conn := dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file}), plain, "")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret, "authorization", "Bearer x")
	if err := get(ctx, conn, "a"); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
}

// TestRevoked: a token that is revoked while the gateway runs is refused soon after, a file that cannot be read changes
// nothing, and a new token is good soon after.
func TestRevoked(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	server, address := open(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file})
	conn := dial(t, address, plain, secret)
	if err := get(t.Context(), conn, "a"); err != nil {
		t.Fatal(err)
	}
	kept, err := auth.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"tokens":`), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(server.Concerns()) == 1 }) // half a file was read
	if err := get(t.Context(), conn, "a"); err != nil {
		t.Fatalf("with half a file: got %v, want the tokens before it to be good", err)
	}
	kept[0].Revoked = time.Now()
	other, more, err := auth.NewToken(auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.WriteTokens(file, append(kept, more)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return status.Code(get(t.Context(), conn, "a")) == codes.Unauthenticated })
	eventually(t, func() bool { return get(t.Context(), dial(t, address, plain, other), "a") == nil })
}

// TestStreamsEndWithTheirToken: an import that is under way when its token is revoked, or expires, stores nothing further.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	issuer := authtest.NewIssuer(t)
	address := serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file, OIDC: auth.OIDC{Issuer: issuer.URL, Audience: "triskele"}})
	signed := issuer.Sign(t, map[string]any{
		"iss": issuer.URL, "aud": "triskele", "sub": "agent", "exp": time.Now().Add(2 * time.Second).Unix(), "scope": "triskele.write", "triskele_namespaces": []string{"a"},
	})
	message := &triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: "a", Content: "canary"}}}
	streams := map[string]triskelev1.MemoryService_ImportClient{}
	for name, token := range map[string]string{"revoked": secret, "expired": signed} {
		stream, err := triskelev1.NewMemoryServiceClient(dial(t, address, plain, token)).Import(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
		streams[name] = stream
	}
	if err := auth.ChangeTokens(file, func(kept []auth.Token) ([]auth.Token, error) {
		kept[0].Revoked = time.Now()
		return kept, nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, stream := range streams {
		eventually(t, func() bool { return stream.Send(message) != nil })
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want UNAUTHENTICATED", name, err)
		}
	}
}

// TestStaleTokensAreSeen by those who ask for health and metrics, while the server serves with the tokens of before.
func TestStaleTokensAreSeen(t *testing.T) {
	t.Parallel()
	process, err := telemetry.Start(t.Context(), telemetry.Scraped)
	if err != nil {
		t.Fatal(err)
	}
	file, _ := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	server, at, err := auth.Listener{Listen: "127.0.0.1:0", TLS: plain}.Open(auth.Access{Tokens: file}, process.Service("fuser"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	server.Ready()
	stale := func() bool {
		w := httptest.NewRecorder()
		process.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		_, value, found := strings.Cut(w.Body.String(), `triskele_tokens_stale_seconds{service_name="fuser"} `)
		if !found {
			t.Fatalf("no metric of stale tokens in %s", w.Body)
		}
		return !strings.HasPrefix(value, "0\n")
	}
	if got := server.Concerns(); len(got) != 0 || stale() {
		t.Errorf("at first: got concerns %q, stale %v", got, stale())
	}
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(server.Concerns()) == 1 && stale() && server.Serving() })
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(server.Concerns()) == 0 && !stale() })
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came")
		}
	}
}

// TestRate: a token that calls too often in one namespace is told when to call again, and goes on elsewhere.
func TestRate(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes, Rate: 0.001})
	conn := dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file, RateLimit: 1000}), plain, secret)
	if err := get(t.Context(), conn, "a"); err != nil {
		t.Fatal(err)
	}
	err := get(t.Context(), conn, "a")
	if status.Code(err) != codes.ResourceExhausted {
		t.Fatal(err)
	}
	details := status.Convert(err).Details()
	if len(details) != 1 {
		t.Fatalf("details: %v", details)
	}
	retry, ok := details[0].(*errdetails.RetryInfo)
	if wait := retry.GetRetryDelay().AsDuration(); !ok || wait < 10*time.Minute || wait > 1000*time.Second {
		t.Errorf("try again after %v", wait)
	}
	if err := get(t.Context(), conn, "b"); err != nil {
		t.Error(err)
	}
}

// TestQuota: a token that stores too much in one namespace is told when to go on, reads all the same, and stores elsewhere.
func TestQuota(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes, Quota: 3})
	conn := dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file, Quota: 1000}), plain, secret)
	if err := errors.Join(remember(t.Context(), conn, "a"), importing(t.Context(), conn, "a", "a")); err != nil {
		t.Fatal(err)
	}
	err := remember(t.Context(), conn, "a")
	details := status.Convert(err).Details()
	if status.Code(err) != codes.ResourceExhausted || len(details) != 1 {
		t.Fatalf("%v, %v", err, details)
	}
	retry, ok := details[0].(*errdetails.RetryInfo)
	if wait := retry.GetRetryDelay().AsDuration(); !ok || wait < 7*time.Hour || wait > 8*time.Hour {
		t.Errorf("try again after %v", wait)
	}
	if said := status.Convert(err).Message(); !strings.Contains(said, "3 memories a day in this namespace: try again in 7h5") && !strings.HasSuffix(said, "in 8h0m0s") {
		t.Errorf("got %q, want the time to wait", said)
	}
	if err := errors.Join(get(t.Context(), conn, "a"), remember(t.Context(), conn, "b")); err != nil {
		t.Error(err)
	}
	// Four at once will not do on any day: there is no time to wait for.
	stream, err := triskelev1.NewMemoryServiceClient(conn).Import(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	memory := &triskelev1.Memory{Namespace: "c", Content: "canary"}
	_ = stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{memory, memory, memory, memory}}) // CloseAndRecv says how it went
	_, err = stream.CloseAndRecv()
	if status.Code(err) != codes.ResourceExhausted || len(status.Convert(err).Details()) != 0 {
		t.Errorf("%v, %v", err, status.Convert(err).Details())
	}
}

// TestAudit: every write and every refusal is a line, with who and where, and without what.
func TestAudit(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"a"}, Scopes: []auth.Scope{auth.Read, auth.Write}})
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	conn := dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file, Audit: log}), plain, secret)
	_ = get(t.Context(), conn, "a")
	_ = remember(t.Context(), conn, "a")
	_ = remember(t.Context(), conn, "b")
	_ = importing(t.Context(), conn, "a", "a")
	var text []byte
	eventually(t, func() bool { // the answer may be there before the line
		text, _ = os.ReadFile(log)
		return bytes.Count(text, []byte("\n")) == 3
	})
	if strings.Contains(string(text), "canary") || strings.Contains(string(text), secret) {
		t.Errorf("the log says too much: %s", text)
	}
	tokenID := strings.Split(secret, "_")[1]
	for i, want := range []struct{ msg, method, code string }{
		{"written", "/triskele.v1.MemoryService/Remember", "OK"}, {"denied", "/triskele.v1.MemoryService/Remember", "PermissionDenied"}, {"written", "/triskele.v1.MemoryService/Import", "OK"},
	} {
		var line struct {
			Msg, Method, Code, Caller, Peer string
			Namespaces                      []string
		}
		if err := json.Unmarshal(bytes.Split(text, []byte("\n"))[i], &line); err != nil {
			t.Fatal(err)
		}
		if line.Msg != want.msg || line.Method != want.method || line.Code != want.code || line.Caller != tokenID || line.Peer == "" || want.msg == "written" && len(line.Namespaces) != 1 {
			t.Errorf("line %d: %+v, want %+v", i, line, want)
		}
	}
}

// TestCertificates: a service takes calls from callers whose certificate is of its authority and has the right name.
func TestCertificates(t *testing.T) {
	t.Parallel()
	authority, other := authtest.NewAuthority(t), authtest.NewAuthority(t)
	address := serve(t, auth.Listener{TLS: authority.Issue(t, "leg"), Clients: []string{"fuser", "spiffe://test/fuser"}}, auth.Access{})
	gateway := authority.Issue(t, "fuser")
	none := auth.TLS{CA: authority.File}
	stranger := other.Issue(t, "fuser")
	stranger.CA = authority.File
	misled := authority.Issue(t, "fuser")
	misled.CA = other.File
	late := authority.Issue(t, "fuser")
	authority.Renew(t, late, "fuser", -time.Minute)
	for name, c := range map[string]struct {
		tls  auth.TLS
		want codes.Code
	}{
		"the gateway":          {gateway, codes.OK},
		"another service":      {authority.Issue(t, "agent"), codes.PermissionDenied},
		"no certificate":       {none, codes.Unavailable},
		"plain text":           {auth.TLS{}, codes.Unavailable},
		"another authority":    {stranger, codes.Unavailable},
		"authority not known":  {misled, codes.Unavailable},
		"an old certificate":   {late, codes.Unavailable},
		"system's authorities": {auth.TLS{CA: auth.SystemRoots}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := get(t.Context(), dial(t, address, c.tls, ""), "a"); status.Code(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestCertificatesAndTokens: with both, a caller needs a certificate with the right name, and a token.
func TestCertificatesAndTokens(t *testing.T) {
	t.Parallel()
	authority := authtest.NewAuthority(t)
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	address := serve(t, auth.Listener{TLS: authority.Issue(t, "gateway"), Clients: []string{"agent"}}, auth.Access{Tokens: file})
	for name, c := range map[string]struct {
		certified, token string
		want             codes.Code
	}{
		"both":              {"agent", secret, codes.OK},
		"another's name":    {"lexical", secret, codes.Unavailable},
		"the name alone":    {"agent", "", codes.Unauthenticated},
		"an invented token": {"agent", "x", codes.Unauthenticated},
	} {
		if err := get(t.Context(), dial(t, address, authority.Issue(t, c.certified), c.token), "a"); status.Code(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestReload: a certificate that is replaced in the file is the one that new connections see, on both sides.
func TestReload(t *testing.T) {
	t.Parallel()
	authority := authtest.NewAuthority(t)
	leg, gateway := authority.Issue(t, "leg"), authority.Issue(t, "agent")
	address := serve(t, auth.Listener{TLS: leg, Clients: []string{"fuser"}}, auth.Access{})
	if err := get(t.Context(), dial(t, address, gateway, ""), "a"); status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	authority.Renew(t, gateway, "fuser", time.Hour)
	authority.Renew(t, leg, "leg", -time.Minute)
	eventually(t, func() bool {
		return status.Code(get(t.Context(), dial(t, address, gateway, ""), "a")) == codes.Unavailable
	})
	authority.Renew(t, leg, "leg", time.Hour)
	eventually(t, func() bool { return get(t.Context(), dial(t, address, gateway, ""), "a") == nil })
}

// TestFilesThatCannotBeReloadedAreTold: the former certificate is used until it expires.
func TestFilesThatCannotBeReloadedAreTold(t *testing.T) {
	t.Parallel()
	authority := authtest.NewAuthority(t)
	own, client, other := authority.Issue(t, "leg"), authority.Issue(t, "fuser"), authority.Issue(t, "other")
	server, address := open(t, auth.Listener{TLS: own, Clients: []string{"fuser"}}, auth.Access{})
	if got, err := server.Concerns(), get(t.Context(), dial(t, address, client, ""), "a"); len(got) > 0 || err != nil {
		t.Fatalf("got %q, %v, want no concern", got, err)
	}
	if err := os.Rename(other.Key, own.Key); err != nil {
		t.Fatal(err)
	}
	if got := server.Concerns(); len(got) != 1 || !strings.Contains(got[0], "private key does not match") {
		t.Errorf("got %q, want that the key is another certificate's", got)
	}
	if err := get(t.Context(), dial(t, address, client, ""), "a"); err != nil {
		t.Error(err)
	}
}

// TestListen: other machines can reach a server only if nobody can listen and callers are known, or if told to.
func TestListen(t *testing.T) {
	t.Parallel()
	authority := authtest.NewAuthority(t)
	file, _ := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	encrypted := authority.Issue(t, "fuser")
	for name, c := range map[string]struct {
		listener auth.Listener
		access   auth.Access
		ok, warn bool
	}{
		"nothing":              {listener: auth.Listener{TLS: plain}},
		"tokens in plain text": {listener: auth.Listener{TLS: plain}, access: auth.Access{Tokens: file}},
		"encrypted":            {listener: auth.Listener{TLS: encrypted}},
		"encrypted, tokens":    {listener: auth.Listener{TLS: encrypted}, access: auth.Access{Tokens: file}, ok: true},
		"certificates":         {listener: auth.Listener{TLS: encrypted, Clients: []string{"fuser"}}, ok: true},
		"told to":              {listener: auth.Listener{TLS: plain, AllowRemote: true}, ok: true, warn: true},
		"names without TLS":    {listener: auth.Listener{TLS: plain, Clients: []string{"fuser"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c.listener.Listen = "0.0.0.0:0"
			_, at, err := c.listener.Open(c.access, service(t), slog.New(slog.NewTextHandler(&log, nil)))
			if (err == nil) != c.ok || strings.Contains(log.String(), "ANYBODY") != c.warn {
				t.Errorf("%v, log %q", err, &log)
			}
			if err == nil {
				_ = at.Close()
			}
		})
	}
}

// TestBadFiles are told of at the start.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	authority := authtest.NewAuthority(t)
	good := authority.Issue(t, "leg")
	file, _ := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*auth.TLS)) auth.TLS {
		tls := good
		change(&tls)
		return tls
	}
	for name, c := range map[string]struct {
		listener auth.Listener
		access   auth.Access
		flag     string
	}{
		"no key":             {auth.Listener{TLS: with(func(t *auth.TLS) { t.Key = "" })}, auth.Access{}, "--tls-key"},
		"no certificate":     {auth.Listener{TLS: with(func(t *auth.TLS) { t.Cert = bad })}, auth.Access{}, "--tls-cert"},
		"key of another":     {auth.Listener{TLS: with(func(tls *auth.TLS) { tls.Key = authority.Issue(t, "x").Key })}, auth.Access{}, "--tls-cert"},
		"no authority":       {auth.Listener{TLS: with(func(t *auth.TLS) { t.CA = bad })}, auth.Access{}, "--tls-ca"},
		"authorities' names": {auth.Listener{TLS: with(func(t *auth.TLS) { t.CA = "" }), Clients: []string{"x"}}, auth.Access{}, "--tls-ca"},
		"no interval":        {auth.Listener{TLS: with(func(t *auth.TLS) { t.Reload = 0 })}, auth.Access{}, "--tls-reload"},
		"tokens":             {auth.Listener{TLS: plain}, auth.Access{Tokens: bad}, "--tokens"},
		"no rate":            {auth.Listener{TLS: plain}, auth.Access{Tokens: file, RateLimit: -1}, "--rate-limit"},
		"no quota":           {auth.Listener{TLS: plain}, auth.Access{Tokens: file, Quota: math.NaN()}, "--write-quota"},
		"no audit":           {auth.Listener{TLS: plain}, auth.Access{Tokens: bad, Audit: t.TempDir()}, "--audit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.listener.Listen = "127.0.0.1:0"
			if _, _, err := c.listener.Open(c.access, service(t), slog.New(slog.DiscardHandler)); !settings.IsWrong(err) || !strings.Contains(err.Error(), c.flag) {
				t.Errorf("%v, want one of wrong usage about %s", err, c.flag)
			}
		})
	}
}

// opens says whether a server can be opened that accepts an issuer's tokens.
func opens(t *testing.T, config auth.OIDC) error {
	t.Helper()
	_, at, err := auth.Listener{Listen: "127.0.0.1:0", TLS: plain}.Open(auth.Access{OIDC: config}, service(t), slog.New(slog.DiscardHandler))
	if err == nil {
		_ = at.Close()
	}
	return err
}

// TestTokenStaysOnThisMachine unless the call is encrypted.
func TestTokenStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	for target, ok := range map[string]bool{
		"127.0.0.1:7400": true, "localhost:7400": true, "[::1]:7400": true, "unix:///run/triskele": true,
		"10.0.0.1:7400": false, "fuser:7400": false, "dns:///fuser:7400": false, "localhost.example.com:1": false, "127.0.0.1.example.com:1": false,
	} {
		if _, err := (auth.Bearer{Token: "x"}).Dial(plain, target); (err == nil) != ok {
			t.Errorf("%s: %v", target, err)
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	if _, err := (auth.Bearer{TokenFile: file}).Dial(plain, "127.0.0.1:1"); err == nil {
		t.Error("there is no such file")
	}
}
