package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/proto/client"
	"github.com/triskele/triskele/proto/client/clienttest"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// gateway is a fake that fails at first, and remembers what it was called with.
type gateway struct {
	*clienttest.Fake
	failures  atomic.Int64 // calls still to fail
	calls     atomic.Int64
	token     atomic.Value
	remaining atomic.Int64 // of the last call's deadline
}

func (g *gateway) meet(ctx context.Context) error {
	g.calls.Add(1)
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		g.token.Store(strings.Join(md.Get("authorization"), " "))
	}
	if deadline, ok := ctx.Deadline(); ok {
		g.remaining.Store(int64(time.Until(deadline)))
	}
	if g.failures.Add(-1) >= 0 {
		return status.Error(codes.Unavailable, "not yet")
	}
	return nil
}

func (g *gateway) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	if err := g.meet(ctx); err != nil {
		return nil, err
	}
	return g.Fake.Recall(ctx, req)
}

func (g *gateway) Remember(ctx context.Context, req *triskelev1.RememberRequest) (*triskelev1.RememberResponse, error) {
	if err := g.meet(ctx); err != nil {
		return nil, err
	}
	return g.Fake.Remember(ctx, req)
}

// serve starts the fake on a socket.
func serve(t *testing.T, options ...grpc.ServerOption) (*gateway, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{Fake: clienttest.NewFake()}
	server := grpc.NewServer(options...)
	triskelev1.RegisterRecallServiceServer(server, g)
	triskelev1.RegisterMemoryServiceServer(server, g)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return g, listener.Addr().String()
}

func dial(t *testing.T, target string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestWhatReadsIsTriedAgain(t *testing.T) {
	g, address := serve(t)
	c := dial(t, address)
	if _, err := c.Remember(t.Context(), &triskelev1.Memory{Namespace: "n", Content: "tea at four"}); err != nil {
		t.Fatal(err)
	}
	g.calls.Store(0)
	g.failures.Store(2)
	if resp, err := c.Recall(t.Context(), "n", "tea"); err != nil || len(resp.GetHits()) != 1 || g.calls.Load() != 3 {
		t.Errorf("recall: %v, %v after %d calls", resp, err, g.calls.Load())
	}
	g.calls.Store(0)
	g.failures.Store(1)
	if _, err := c.Remember(t.Context(), &triskelev1.Memory{Namespace: "n", Content: "x"}); status.Code(err) != codes.Unavailable || g.calls.Load() != 1 {
		t.Errorf("remember: %v after %d calls", err, g.calls.Load())
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	g, address := serve(t)
	c := dial(t, address, client.WithTimeout(time.Hour))
	_, _ = c.Recall(t.Context(), "n", "tea")
	if left := time.Duration(g.remaining.Load()); left < 50*time.Minute || left > time.Hour {
		t.Errorf("without a deadline a call has %v", left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	_, _ = c.Recall(ctx, "n", "tea")
	if left := time.Duration(g.remaining.Load()); left < time.Hour {
		t.Errorf("of two hours a call has %v", left)
	}
}

func TestToken(t *testing.T) {
	g, address := serve(t)
	_, _ = dial(t, address, client.WithToken("secret\n")).Recall(t.Context(), "n", "tea")
	if got := g.token.Load(); got != "Bearer secret" {
		t.Errorf("shown: %v", got)
	}
	for _, target := range []string{"memory.example.com:7400", "dns:///10.0.0.1:7400", "localhost.example.com:1", "dns://10.0.0.1/localhost:7400"} {
		if _, err := client.Dial(target, client.WithToken("secret")); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: a token is sent in plain text: %v", target, err)
		}
	}
	for _, target := range []string{"localhost:7400", "dns:///127.0.0.1:7400", "[::1]:7400", "unix:///run/x"} {
		if _, err := client.Dial(target, client.WithToken("secret")); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	g, address := serve(t, grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	if _, err := dial(t, address, client.WithTLS(&tls.Config{RootCAs: roots}), client.WithToken("secret")).Recall(t.Context(), "n", "tea"); err != nil || g.token.Load() != "Bearer secret" {
		t.Errorf("with its certificate trusted: %v, shown %v", err, g.token.Load())
	}
	if _, err := dial(t, address, client.WithTLS(&tls.Config{})).Recall(t.Context(), "n", "tea"); status.Code(err) != codes.Unavailable {
		t.Errorf("a stranger's certificate: %v", err)
	}
}

func TestIterators(t *testing.T) {
	var memories []*triskelev1.Memory
	var want []string
	for i := range 250 {
		want = append(want, strings.Repeat("x", i+1))
		memories = append(memories, &triskelev1.Memory{Namespace: "n", Content: want[i]})
	}
	c := clienttest.New(t, memories...)
	var got []string
	for m, err := range c.Export(t.Context(), "n") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.GetContent())
	}
	if !slices.Equal(got, want) {
		t.Errorf("exported %d", len(got))
	}
	got = nil
	request := &triskelev1.ListRequest{Namespace: "n", PageSize: proto.Int32(70)}
	for m, err := range c.List(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.GetContent())
	}
	slices.Reverse(want)
	if !slices.Equal(got, want) || request.GetPageToken() != "" {
		t.Errorf("listed %d, token %q", len(got), request.GetPageToken())
	}
	for range c.List(t.Context(), request) {
		break
	}
	for range c.Export(t.Context(), "n") {
		break
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, sequence := range map[string]func(func(*triskelev1.Memory, error) bool){"list": c.List(ended, request), "export": c.Export(ended, "n")} {
		var errs []error
		for m, err := range sequence {
			if m != nil {
				t.Errorf("%s: a memory without a call", name)
			}
			errs = append(errs, err)
		}
		if len(errs) != 1 || status.Code(errs[0]) != codes.Canceled && !errors.Is(errs[0], context.Canceled) {
			t.Errorf("%s: errors %v", name, errs)
		}
	}
}

func TestFake(t *testing.T) {
	c := clienttest.New(t)
	old, err := c.Remember(t.Context(), &triskelev1.Memory{Namespace: "n", Content: "tea at four"})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := c.Memories.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: old.GetId(), Replacement: &triskelev1.Memory{Namespace: "n", Content: "tea at five"}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Recall(t.Context(), "n", "tea")
	if err != nil || len(resp.GetHits()) != 1 || resp.GetHits()[0].GetId() != newer.GetMemory().GetId() {
		t.Errorf("recalled %v, %v", resp, err)
	}
	forgotten, err := c.Memories.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: "n", Ids: []string{old.GetId(), "x"}})
	if err != nil || forgotten.GetForgotten() != 1 {
		t.Errorf("forgot %v, %v", forgotten, err)
	}
	got, err := c.Memories.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{old.GetId(), newer.GetMemory().GetId()}})
	if err != nil || len(got.GetMemories()) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// A gateway that is back after an hour is found within seconds. gRPC by itself looks for it every two minutes.
func TestComesBackSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		c, err := client.Dial("passthrough:///gateway", client.WithDialOptions(grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			tries = append(tries, time.Now())
			return nil, errors.New("the gateway is down")
		})))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Memories.Remember(t.Context(), &triskelev1.RememberRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Hour)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for i, at := range tries[1:] {
			if pause := at.Sub(tries[i]); pause > 10*time.Second {
				t.Fatalf("looks for the gateway %v after the last time", pause)
			}
		}
		t.Logf("%d tries", len(tries))
	})
}
