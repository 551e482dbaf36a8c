// Command memoryd serves the records: MemoryService over PostgreSQL. It also sweeps expired memories, and curates new
// ones if a model is configured.
package main

import (
	"context"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/daemon"
)

type flags struct {
	Sweep   memory.Sweep   `embed:"" group:"Expired memories:"`
	Curator curator.Config `embed:"" prefix:"curator-" group:"Curator:"`
	Gateway string         `name:"curator-gateway" help:"Address of the gateway through which the curator finds the nearest memories, in gRPC's name syntax." default:"127.0.0.1:7400" env:"TRISKELE_CURATOR_GATEWAY" placeholder:"TARGET" group:"Curator:"`
	Bearer  auth.Bearer    `embed:"" group:"Curator:"`
}

func main() {
	var f flags
	daemon.Main("memory", "Serves the records: remember, update, supersede, forget, get, list, import, export.", "127.0.0.1:7404",
		func(ctx context.Context, p daemon.Program) (daemon.Service, error) {
			store := p.Memory()
			options, err := f.Bearer.Dial(p.Peers, f.Gateway)
			if err != nil {
				return daemon.Service{}, err
			}
			gateway, err := rpc.Dial(f.Gateway, p.Tel, options...) // connects at the first call
			if err != nil {
				return daemon.Service{}, err
			}
			context.AfterFunc(ctx, func() { _ = gateway.Close() })
			curate, err := backend.Curation(ctx, p.Backend, f.Curator, gateway, p.Tel, p.Log)
			if err != nil {
				return daemon.Service{}, err
			}
			return daemon.Service{
				Register: func(s *rpc.Server) { triskelev1.RegisterMemoryServiceServer(s, memory.NewServer(store)) },
				Work: map[string]func(context.Context){
					"sweep":  func(ctx context.Context) { f.Sweep.Run(ctx, store, p.Log) },
					"curate": curate,
				},
			}, nil
		}, &f)
}
