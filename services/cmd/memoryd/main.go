// Command memoryd serves the records: MemoryService over PostgreSQL.
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
	daemon.Main("memory", "Serves the records: remember, update, supersede, forget, get, list, import, export.", "127.0.0.1:7404", "memory",
		func(_ context.Context, b backend.Backend, _ *telemetry.Service, _ *slog.Logger) (daemon.Service, error) {
			return daemon.Service{Register: func(s *rpc.Server) {
				triskelev1.RegisterMemoryServiceServer(s, memory.NewServer(b.Memory()))
			}}, nil
		})
}
