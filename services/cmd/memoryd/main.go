// Command memoryd serves the records: MemoryService over PostgreSQL. It also removes those that expired long ago.
package main

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/backend"
	"github.com/triskele/triskele/services/daemon"
	"github.com/triskele/triskele/services/memory"
)

func main() {
	var sweep memory.Sweep
	daemon.Main("memory", "Serves the records: remember, update, supersede, forget, get, list, import, export.", "127.0.0.1:7404", "memory",
		func(_ context.Context, b backend.Backend, _ *telemetry.Service, log *slog.Logger) (daemon.Service, error) {
			store := b.Memory()
			return daemon.Service{
				Register: func(s *rpc.Server) { triskelev1.RegisterMemoryServiceServer(s, memory.NewServer(store)) },
				Work:     func(ctx context.Context) { sweep.Run(ctx, store, log) },
			}, nil
		}, &sweep)
}
