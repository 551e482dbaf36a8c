// Command graphd serves the graph leg: search over entities shared by memories, on PostgreSQL. It also keeps the
// leg's index in step with the records, and extracts facts from them if a model is configured.
package main

import (
	"context"

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
	daemon.Main("graph", "Serves the graph leg (search by the names that memories share) and maintains its index.", "127.0.0.1:7403",
		func(ctx context.Context, p daemon.Program) (daemon.Service, error) {
			config := f.Graph
			var err error
			if config.Embedder, err = p.Embedder(f.Embedder); err != nil {
				return daemon.Service{}, err
			}
			images := p.Images(ctx, f.Search, p.Log)
			index := p.Graph(images, config)
			extract, err := backend.Extraction(ctx, p.Backend, index, f.Extractor, p.Tel, p.Log)
			if err != nil {
				return daemon.Service{}, err
			}
			service := p.Leg(index, images)
			service.Work["refresh the graph"] = func(ctx context.Context) { index.Refresh(ctx, p.Log) }
			service.Work["extract"] = extract
			return service, nil
		}, &f)
}
