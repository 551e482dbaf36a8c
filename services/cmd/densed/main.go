// Command densed serves the dense leg: similarity search over PostgreSQL. It also keeps the leg's index in step with
// the records.
package main

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/daemon"
)

func main() {
	var flags open.Flags
	var search replica.Config
	daemon.Main("dense", "Serves the dense leg (search by meaning) and maintains its index.", "127.0.0.1:7402", "dense",
		func(ctx context.Context, b *backend.Backend, _ auth.TLS, tel *telemetry.Service, log *slog.Logger) (daemon.Service, error) {
			embedder, err := daemon.Embedder(flags, tel)
			if err != nil {
				return daemon.Service{}, err
			}
			images := b.Images(ctx, search, log)
			index, err := b.Dense(ctx, images, embedder)
			if err != nil {
				return daemon.Service{}, err
			}
			return daemon.Leg(b, index, images, tel, log), nil
		}, &flags, &search)
}
