// Command densed serves the dense leg: similarity search over PostgreSQL. It also keeps the leg's index in step with
// the records.
package main

import (
	"context"

	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/daemon"
)

func main() {
	var flags open.Flags
	var search replica.Config
	daemon.Main("dense", "Serves the dense leg (search by meaning) and maintains its index.", "127.0.0.1:7402",
		func(ctx context.Context, p daemon.Program) (daemon.Service, error) {
			embedder, err := p.Embedder(flags)
			if err != nil {
				return daemon.Service{}, err
			}
			images := p.Images(ctx, search, p.Log)
			index, err := p.Dense(ctx, images, embedder)
			if err != nil {
				return daemon.Service{}, err
			}
			return p.Leg(index, images), nil
		}, &flags, &search)
}
