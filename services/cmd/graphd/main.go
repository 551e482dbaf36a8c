// Command graphd serves the graph leg: search over entities shared by memories, on PostgreSQL. It also keeps the
// leg's index in step with the records, and extracts facts from them if a model is configured.
package main

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/llm/extractor"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/daemon"
)

type flags struct {
	Graph     graph.Config     `embed:"" group:"Graph leg:"`
	Search    replica.Config   `embed:"" group:"Search in memory:"`
	Embedder  open.Flags       `embed:"" group:"Embedder:"`
	Extractor extractor.Config `embed:"" prefix:"extractor-" group:"Extractor:"`
}

func main() {
	var f flags
	daemon.Main("graph", "Serves the graph leg (search by the names that memories share) and maintains its index.", "127.0.0.1:7403", "graph",
		func(ctx context.Context, b *backend.Backend, _ auth.TLS, tel *telemetry.Service, log *slog.Logger) (daemon.Service, error) {
			config := f.Graph
			var err error
			if config.Embedder, err = daemon.Embedder(f.Embedder, tel); err != nil {
				return daemon.Service{}, err
			}
			images := b.Images(ctx, f.Search, log)
			index := b.Graph(images, config)
			extract, err := backend.Extraction(ctx, b, index, f.Extractor, tel, log)
			if err != nil {
				return daemon.Service{}, err
			}
			service := daemon.Leg(b, index, images, tel, log)
			service.Work["refresh the graph"] = func(ctx context.Context) { index.Refresh(ctx, log) }
			service.Work["extract"] = extract
			return service, nil
		}, &f)
}
