package storetest

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
)

// Client serves the fixture's memories until the test ends and returns a client.
func (f *Fixture) Client(t testing.TB) triskelev1.MemoryServiceClient {
	t.Helper()
	return f.ClientOf(t, Log())
}

// ClientOf is Client with a log for the server.
func (f *Fixture) ClientOf(t testing.TB, log *slog.Logger) triskelev1.MemoryServiceClient {
	t.Helper()
	server := rpc.NewServer(f.Tel, log)
	triskelev1.RegisterMemoryServiceServer(server, memory.NewServer(f.Memory))
	server.Ready()
	listener := bufconn.Listen(1 << 20)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, listener) }()
	conn, err := rpc.Dial("passthrough:///memory", f.Tel, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return triskelev1.NewMemoryServiceClient(conn)
}
