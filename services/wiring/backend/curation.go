package backend

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/memory"
)

// Curation returns the curation worker of a database; it finds neighbours through the gateway. A configuration with a
// model server switches curation on in the database. One without leaves the switch alone, so that one process of
// several may have no model; the returned function then does nothing.
func Curation(ctx context.Context, b *Backend, config curator.Config, gateway grpc.ClientConnInterface, tel *telemetry.Service, log *slog.Logger) (func(context.Context), error) {
	store := b.Memory()
	if config.URL == "" {
		on, err := store.Curation(ctx)
		if on {
			log.WarnContext(ctx, "curation is on in this database, but this process has no model: new memories wait for a process with a model, or for `triskele curation off`")
		}
		return func(context.Context) {}, err
	}
	c, err := curator.New(config, store, triskelev1.NewRecallServiceClient(gateway), tel, log)
	if err != nil {
		return nil, settings.Wrong(err)
	}
	if err := store.SetCuration(ctx, true); err != nil {
		return nil, err
	}
	worker := b.Worker(memory.CurationQueue, c, log)
	worker.Batch = 1 // each judgement depends on the decision before it
	return worker.Run, nil
}
