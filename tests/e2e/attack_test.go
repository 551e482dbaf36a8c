package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	attackMemory  = 150 << 20              // bytes above idle that an attack may cost
	attackDelay   = 3                      // times the quiet p99 that a recall of others may take meanwhile
	attackNoise   = 500 * time.Millisecond // a quiet p99 below this counts as this: other tests run beside
	attackRecalls = 100                    // of others, quiet and for each attack
	mebibyte      = 1 << 20
)

// attacked is `triskele up` with TLS and tokens, and an agent who wants to go on.
type attacked struct {
	*system
	authority *authtest.Authority
	tokens    map[string]string
	audit     string
	quiet     time.Duration
	idle      int64
}

// TestAttack: a stranger, or a tenant with a token of their own, neither fills the memory of a program nor holds up others.
func TestAttack(t *testing.T) {
	a := startAttacked(t)
	a.quiet = max(a.p99(nil), attackNoise)
	for _, attack := range []struct {
		name string
		do   func(context.Context)
	}{
		{"a stranger imports 16 MiB of empty memories", a.importNothing},
		{"strangers stall in the middle of large gRPC-Web frames", a.stall},
		{"strangers ask for health with compressed messages", a.inflate},
		{"a token for recall sends large recalls", a.recallMuch},
		{"exports are never read", a.exportUnread},
		{"a recall names 120,000 namespaces", a.nameMany},
		{"recalls name namespaces that do not exist", a.invent},
		{"names are as long as messages", a.nameLong},
	} {
		t.Run(attack.name, func(t *testing.T) {
			a.resetPeak(t)
			took := a.p99(attack.do)
			for tries := 1; took > attackDelay*a.quiet && tries < 3; tries++ { // other programs hold recalls up now and then, an attack each time
				a.quiet = max(a.quiet, a.p99(nil))
				took = min(took, a.p99(attack.do))
			}
			if got, most := a.resident(t, "VmHWM"), a.idle+attackMemory; got > most {
				t.Errorf("resident memory got to %d MiB, want at most %d (idle %d)", got/mebibyte, most/mebibyte, a.idle/mebibyte)
			}
			if most := attackDelay * a.quiet; took > most {
				t.Errorf("p99 of others' recalls is %v, want at most %v (quiet %v)", took, most, a.quiet)
			}
			a.awaitIdle(t)
		})
	}
	a.checkNames(t)
	a.checkAudit(t)
}

func startAttacked(t *testing.T) *attacked {
	t.Helper()
	folder := t.TempDir()
	a := &attacked{authority: authtest.NewAuthority(t), tokens: map[string]string{}, audit: filepath.Join(folder, "audit.jsonl")}
	var kept []auth.Token
	for name, grant := range map[string]auth.Token{
		"agent":  {Namespaces: []string{"acme", "acme/*"}, Scopes: auth.Scopes},
		"recall": {Namespaces: []string{"*"}, Scopes: []auth.Scope{auth.Recall}},
		"reader": {Namespaces: []string{"acme"}, Scopes: []auth.Scope{auth.Read}},
		"owner":  {Namespaces: []string{"*"}, Scopes: auth.Scopes},
	} {
		secret, entry, err := auth.NewToken(grant, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		entry.Name, a.tokens[name] = name, secret
		kept = append(kept, entry)
	}
	tokens := filepath.Join(folder, "tokens.json")
	if err := auth.WriteTokens(tokens, kept); err != nil {
		t.Fatal(err)
	}
	files := a.authority.Issue(t, "fuser")
	args := []string{"--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-clients", "", "--tokens", tokens, "--audit", a.audit}
	a.system = startOne(t, setup{args: map[string][]string{"triskele": args}, dial: func(string) []grpc.DialOption { return a.as(t, "owner") }}).system
	for i := range 400 {
		a.remember(&triskelev1.Memory{Namespace: "acme", Content: fmt.Sprintf("Backup %d is kept on heron-db-%d. %s", i, i%7, strings.Repeat("More is said of it. ", 500))})
	}
	for _, name := range []string{"acme/secret", "acme-secret-merger", "acme2/payroll"} {
		a.remember(&triskelev1.Memory{Namespace: name, Content: "Something."})
	}
	a.awaitIndexes("acme")
	a.p99(nil) // what a first recall loads is no attack
	a.idle = a.resident(t, "VmRSS")
	return a
}

// as returns how a holder of a token calls, "" for a stranger.
func (a *attacked) as(t *testing.T, token string) []grpc.DialOption {
	t.Helper()
	options, err := auth.Bearer{Token: a.tokens[token]}.Dial(auth.TLS{CA: a.authority.File, Reload: time.Second}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return options
}

// caller opens a connection of its own for a holder of a token.
func (a *attacked) caller(token string) *grpc.ClientConn {
	conn, err := rpc.Dial(a.processes["triskele"].address, a.tel, a.as(a.t, token)...)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// p99 is how long an agent's recalls take, all of which have to succeed, while an attack goes on.
func (a *attacked) p99(attack func(context.Context)) time.Duration {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if attack != nil {
			attack(ctx)
		}
	}()
	defer func() { cancel(); <-done }()
	took := make([]time.Duration, 0, attackRecalls)
	for range attackRecalls {
		began := time.Now()
		if _, err := a.ask("acme", 10*time.Second); err != nil {
			a.t.Errorf("another's recall: %v", err)
		}
		took = append(took, time.Since(began))
	}
	if attack != nil {
		select { // so that it was whole
		case <-done:
		case <-time.After(20 * time.Second):
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// resident reads a figure of the process's memory, in bytes.
func (a *attacked) resident(t *testing.T, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.processes["triskele"].cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("/proc has no %s", name)
	return 0
}

// resetPeak has VmHWM begin anew.
func (a *attacked) resetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", a.processes["triskele"].cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// awaitIdle returns when the process uses hardly any time any more: no work outlives its caller.
func (a *attacked) awaitIdle(t *testing.T) {
	t.Helper()
	const window, busy, most = 300 * time.Millisecond, 10, 1000 // hundredths of a second: the usual tick of Linux
	first := a.ticks(t)
	before := first
	for range time.Tick(window) {
		now := a.ticks(t)
		if now-before < busy {
			return
		}
		if before = now; now-first > most {
			t.Error("the process still works when it has used 10 s of processor time after its callers have gone")
			return
		}
	}
}

// ticks is the processor time that the process has used.
func (a *attacked) ticks(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.processes["triskele"].cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	sum := int64(0)
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// tls opens a connection on which an attacker writes what they like.
func (a *attacked) dialTLS() *tls.Conn {
	text, err := os.ReadFile(a.authority.File)
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	conn, err := tls.Dial("tcp", a.processes["triskele"].address, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}})
	if err != nil {
		a.t.Error(err)
		return nil
	}
	return conn
}

// post sends the beginning of a request over HTTP/1.1, then body until the other side no longer takes it, and waits for ctx or for
// an answer, which it returns the status line of.
func (a *attacked) post(ctx context.Context, path, kind string, length int, body io.Reader) string {
	conn := a.dialTLS()
	if conn == nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, kind, length)
		_, _ = io.Copy(conn, body)
	}()
	line := make([]byte, 64)
	n, _ := io.ReadAtLeast(conn, line, 12)
	return string(line[:n])
}

func (a *attacked) importNothing(ctx context.Context) {
	body := `{"memories":[` + strings.Repeat("{},", 16*mebibyte/3-8) + `{}]}`
	if got := a.post(ctx, "/v1/memories:import", "application/json", len(body), strings.NewReader(body)); !strings.Contains(got, "401") {
		a.t.Errorf("a stranger's import: got %q, want 401", got)
	}
}

func (a *attacked) stall(ctx context.Context) {
	const frame = 90 * mebibyte
	header := binary.BigEndian.AppendUint32([]byte{0}, frame)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			body := io.MultiReader(bytes.NewReader(header), io.LimitReader(zeros{}, frame-1))
			a.post(ctx, triskelev1.MemoryService_Import_FullMethodName, "application/grpc-web+proto", len(header)+frame, body)
		})
	}
	wg.Wait()
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func (a *attacked) inflate(ctx context.Context) {
	request := &healthpb.HealthCheckRequest{Service: "what deflated.Compress sends instead is 95 MiB"}
	var wg sync.WaitGroup
	for range 6 {
		client := healthpb.NewHealthClient(a.caller(""))
		wg.Go(func() {
			if _, err := client.Check(ctx, request, grpc.UseCompressor("gzip")); err == nil || ctx.Err() != nil {
				a.t.Errorf("a compressed health check of 95 MiB: got %v, want a refusal", err)
			}
		})
	}
	wg.Wait()
}

// deflated is gzip for a client that sends 95 MiB of zeros, a member of 1 MiB for each, whatever its message is.
type deflated struct{ member func() []byte }

func init() {
	encoding.RegisterCompressor(deflated{sync.OnceValue(func() []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(make([]byte, mebibyte))
		_ = w.Close()
		return out.Bytes()
	})})
}

// Name implements encoding.Compressor.
func (deflated) Name() string { return "gzip" }

// Compress implements encoding.Compressor.
func (d deflated) Compress(w io.Writer) (io.WriteCloser, error) {
	_, err := w.Write(bytes.Repeat(d.member(), 95))
	return discarded{}, err
}

// Decompress implements encoding.Compressor.
func (deflated) Decompress(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

// discarded is a writer of nothing.
type discarded struct{}

// Write implements io.Writer.
func (discarded) Write(p []byte) (int, error) { return len(p), nil }

// Close implements io.Closer.
func (discarded) Close() error { return nil }

func (a *attacked) recallMuch(ctx context.Context) {
	request := &triskelev1.RecallRequest{Namespaces: []string{"acme"}, Query: strings.Repeat("a", 24*mebibyte)}
	var wg sync.WaitGroup
	for range 4 {
		client := triskelev1.NewRecallServiceClient(a.caller("recall"))
		wg.Go(func() {
			if _, err := client.Recall(ctx, request); err == nil || len(err.Error()) > 1000 {
				a.t.Errorf("a recall of 24 MiB: got %.100v, want a short refusal", err)
			}
		})
	}
	wg.Wait()
}

func (a *attacked) exportUnread(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // the recalls of others take a second
	defer cancel()
	opened := 0
	for range 16 {
		stream, err := triskelev1.NewMemoryServiceClient(a.caller("reader")).Export(ctx, &triskelev1.ExportRequest{Namespace: "acme"})
		if err != nil {
			continue
		}
		if _, err := stream.Recv(); err == nil { // the first, and nothing after it
			opened++
		} else if code := status.Code(err); code != codes.ResourceExhausted {
			a.t.Errorf("an export: got %v, want RESOURCE_EXHAUSTED when there are too many", err)
		}
	}
	if opened == 0 {
		a.t.Error("no export began")
	}
	<-ctx.Done()
}

func (a *attacked) nameMany(ctx context.Context) {
	names := make([]string, 120_000)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	for range 3 {
		_, err := triskelev1.NewRecallServiceClient(a.caller("recall")).Recall(ctx, &triskelev1.RecallRequest{Namespaces: names, Query: "x"})
		if code := status.Code(err); code != codes.InvalidArgument && code != codes.ResourceExhausted {
			a.t.Errorf("a recall in 120,000 namespaces: got %v, want a refusal at once", err)
		}
	}
}

func (a *attacked) invent(ctx context.Context) {
	client := triskelev1.NewRecallServiceClient(a.caller("recall"))
	for i := range 400 {
		names := make([]string, 16)
		for j := range names {
			names[j] = fmt.Sprintf("invented/%d/%s", i*len(names)+j, strings.Repeat("x", 90))
		}
		_, err := client.Recall(ctx, &triskelev1.RecallRequest{Namespaces: names, Query: fmt.Sprintf("what about %d", i)})
		if code := status.Code(err); code != codes.InvalidArgument && ctx.Err() == nil {
			a.t.Errorf("a recall in namespaces that do not exist: got %v, want %v", err, codes.InvalidArgument)
			return
		}
	}
}

func (a *attacked) nameLong(ctx context.Context) {
	conn := a.caller("owner")
	_, err := triskelev1.NewMemoryServiceClient(conn).Forget(ctx, &triskelev1.ForgetRequest{Namespace: strings.Repeat("n", 20*mebibyte), Ids: []string{"x"}})
	if err == nil || len(err.Error()) > 1000 {
		a.t.Errorf("a namespace of 20 MiB: got %.100v, want a short refusal", err)
	}
	var names []*triskelev1.Memory
	for i := range 200 {
		names = append(names, &triskelev1.Memory{Namespace: strings.Repeat("n", 100_000+i), Content: "x"})
	}
	stream, err := triskelev1.NewMemoryServiceClient(conn).Import(ctx)
	if err == nil {
		_ = stream.Send(&triskelev1.ImportRequest{Memories: names})
		_, err = stream.CloseAndRecv()
	}
	if err == nil || len(err.Error()) > 10_000 {
		a.t.Errorf("an import with long namespaces: got %.100v, want a short refusal", err)
	}
}

// checkNames: a token sees the names of namespaces that it allows.
func (a *attacked) checkNames(t *testing.T) {
	got, err := triskelev1.NewMemoryServiceClient(a.caller("agent")).ListNamespaces(t.Context(), &triskelev1.ListNamespacesRequest{Prefix: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range got.GetNamespaces() {
		names = append(names, n.GetNamespace())
	}
	if want := []string{"acme", "acme/secret"}; !slices.Equal(names, want) {
		t.Errorf("ListNamespaces: got %q, want %q", names, want)
	}
}

// checkAudit: no line of the audit log is long.
func (a *attacked) checkAudit(t *testing.T) {
	text, err := os.ReadFile(a.audit)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range bytes.Lines(text) {
		if lines++; len(line) > 10_000 {
			t.Errorf("a line of the audit log has %d bytes, want at most 10,000", len(line))
		}
	}
	if lines == 0 {
		t.Error("the audit log is empty")
	}
}
