package storetest

import (
	"log/slog"
	"testing"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
)

// Client serves the fixture's memories within the process until the test ends, and returns a client.
func (f *Fixture) Client(t testing.TB) triskelev1.MemoryServiceClient {
	t.Helper()
	return f.ClientOf(t, Log())
}

// ClientOf is Client with a log for the server.
func (f *Fixture) ClientOf(t testing.TB, log *slog.Logger) triskelev1.MemoryServiceClient {
	t.Helper()
	server := rpc.NewServer(f.Tel, log)
	triskelev1.RegisterMemoryServiceServer(server, memory.NewServer(f.Memory))
	t.Cleanup(server.Drain)
	return triskelev1.NewMemoryServiceClient(rpc.NewLocal(server, f.Tel))
}
