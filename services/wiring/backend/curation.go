package backend

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/memory"
)

// Curation returns what curates the memories of a database until its context ends; neighbours are found through the
// gateway. A configuration that names a server switches curation on in the database. One that names none leaves it as it
// is, so that one process of several may be without, and what is returned does nothing.
func Curation(ctx context.Context, b Backend, config curator.Config, gateway grpc.ClientConnInterface, tel *telemetry.Service, log *slog.Logger) (func(context.Context), error) {
	store := b.Memory()
	if config.URL == "" {
		on, err := store.Curation(ctx)
		if on {
			log.WarnContext(ctx, "curation is on in this database, but this process has no model to ask: new memories wait for one that has, or for `triskele curation off`")
		}
		return func(context.Context) {}, err
	}
	c, err := curator.New(config, store, triskelev1.NewRecallServiceClient(gateway), tel, log)
	if err != nil {
		return nil, err
	}
	if err := store.SetCuration(ctx, true); err != nil {
		return nil, err
	}
	worker := b.Worker(memory.CurationQueue, c, log)
	worker.Batch = 1 // a memory is judged in the light of what was decided about the one before
	return worker.Run, nil
}
