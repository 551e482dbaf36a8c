package backend

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/llm/extractor"
)

// Extraction returns the worker that extracts facts from memories with a model. A configuration switches it on as in
// Curation.
func Extraction(ctx context.Context, b *Backend, index *graph.Leg, config extractor.Config, tel *telemetry.Service, log *slog.Logger) (func(context.Context), error) {
	if config.URL == "" {
		on, err := index.Extraction(ctx)
		if on {
			log.WarnContext(ctx, "extraction is on in this database, but this process has no model: new memories wait for a process with a model, or for `triskele graph extract --off`")
		}
		return func(context.Context) {}, err
	}
	e, err := extractor.New(config, index, tel, log)
	if err != nil {
		return nil, settings.Wrong(err)
	}
	if err := index.SetExtraction(ctx, true); err != nil {
		return nil, err
	}
	worker := b.Worker(graph.ExtractionQueue, e, log)
	worker.Batch = e.Batch()
	return worker.Run, nil
}
