package memory

import (
	"context"
	"log/slog"
	"time"
)

// sweepBatch is how many memories one transaction of a sweep removes. Few are enough that a single writer does not
// block others for long.
const sweepBatch = 200

// Sweep configures when expired memories are removed. Reads skip them at once. An update of expires_at restores a
// memory that is not swept yet.
type Sweep struct {
	After time.Duration `name:"sweep-after" help:"Remove memories this long after they expire." default:"24h" env:"TRISKELE_SWEEP_AFTER" needs:"sweep-every"`
	Every time.Duration `name:"sweep-every" help:"How often expired memories are removed; 0 never removes any." default:"1h" env:"TRISKELE_SWEEP_EVERY"`
}

// Run sweeps a store until ctx ends, first at once. Several processes may sweep one store.
func (s Sweep) Run(ctx context.Context, store *Store, log *slog.Logger) {
	if s.Every <= 0 {
		return
	}
	for {
		n, err := s.once(ctx, store)
		if n > 0 {
			log.InfoContext(ctx, "swept expired memories", "memories", n)
		}
		if err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "sweep of expired memories", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.Every):
		}
	}
}

// once removes all memories that are due, and returns how many.
func (s Sweep) once(ctx context.Context, store *Store) (swept int64, err error) {
	before := time.Now().Add(-max(s.After, 0)) // never unexpired memories
	for {
		n, err := store.Sweep(ctx, before, sweepBatch)
		swept += n
		if err != nil || n < sweepBatch {
			return swept, err
		}
	}
}
