// Command graphd serves the graph leg: search by the names that memories share, over PostgreSQL. It also keeps the leg's index in step with the records.
package main

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/backend"
	"github.com/triskele/triskele/services/daemon"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
)

func main() {
	var flags graph.Flags
	daemon.Main("graph", "Serves the graph leg, search by the names that memories share, and keeps its index.", "127.0.0.1:7403", "graph",
		func(_ context.Context, b backend.Backend, tel *telemetry.Service, log *slog.Logger) (daemon.Service, error) {
			index := b.Graph(flags.Config())
			return daemon.Service{
				Register: func(s *rpc.Server) { triskelev1.RegisterLegServiceServer(s, leg.NewServer(index, tel, log)) },
				Work:     b.Worker("graph", index, log).Run,
			}, nil
		}, &flags)
}
