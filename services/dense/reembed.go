package dense

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/services/embed"
)

const (
	// buildBatch is how many memories are embedded and written at a time, deleteBatch how many vectors are deleted.
	buildBatch, deleteBatch = 128, 2000
	// maxPasses is how often memories are looked through for those written meanwhile. What is left is enqueued.
	maxPasses = 5
)

// Models cares for the embedding models of a database.
type Models struct{ catalog catalog }

// List returns the models that there are vectors of, oldest first.
func (m *Models) List(ctx context.Context) ([]ModelInfo, error) { return m.catalog.list(ctx) }

// Progress is how far a change of models is.
type Progress struct {
	Done, Total int64
	Indexing    bool // all vectors are there, and the database indexes them
}

// Reembedded is the outcome of Reembed.
type Reembedded struct {
	Active   embed.Model
	Switched bool  // false if the model was active already
	Embedded int64 // memories
	Queued   int64 // memories that were left to the worker of the dense index
}

// Reembed makes the embedder's model the active one. It embeds every memory that lacks a current vector of it, beside the
// active model, and then switches. It may be stopped at any moment and continues when called again. If the model is
// active already it embeds what is lacking. At most perSecond memories are embedded a second, 0 for as fast as can be.
func (m *Models) Reembed(ctx context.Context, embedder embed.Embedder, perSecond int, report func(Progress)) (done Reembedded, err error) {
	done.Active = embedder.Model()
	if err := checkModel(done.Active); err != nil {
		return done, err
	}
	err = m.catalog.alone(ctx, func() error {
		id, status, err := m.catalog.build(ctx, done.Active)
		if err != nil {
			return err
		}
		b := building{catalog: m.catalog, embedder: embedder, model: id, status: status, perSecond: perSecond, report: report, begun: time.Now()}
		if err := b.all(ctx); err != nil {
			return err
		}
		done.Embedded = b.progress.Done
		if status == Active {
			return nil
		}
		done.Switched = true
		done.Queued, err = m.catalog.activate(ctx, id)
		return err
	})
	var changed *statusError
	if errors.As(err, &changed) {
		err = errCancelled
	}
	return done, err
}

// building is one run of Reembed.
type building struct {
	catalog   catalog
	embedder  embed.Embedder
	model     int64
	status    Status
	perSecond int
	report    func(Progress)
	progress  Progress
	begun     time.Time
}

// all embeds what is lacking, prepares searching, and embeds what has been written meanwhile.
func (b *building) all(ctx context.Context) error {
	namespaces, err := b.catalog.namespaces(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		n, err := b.catalog.countLacking(ctx, b.model, namespace)
		if err != nil {
			return err
		}
		b.progress.Total += n
	}
	for pass := range maxPasses {
		embedded, err := b.pass(ctx)
		if err != nil {
			return err
		}
		if pass == 0 {
			b.progress.Indexing = true
			b.report(b.progress)
			if err := b.catalog.prepare(ctx, b.model, b.embedder.Model()); err != nil {
				return err
			}
			b.progress.Indexing = false
		} else if embedded <= buildBatch {
			return nil
		}
	}
	return nil
}

// pass looks through all memories once and returns how many it has written vectors of.
func (b *building) pass(ctx context.Context) (written int64, err error) {
	namespaces, err := b.catalog.namespaces(ctx)
	if err != nil {
		return 0, err
	}
	batch := buildBatch
	if b.perSecond > 0 {
		batch = min(batch, b.perSecond)
	}
	for _, namespace := range namespaces {
		for after := uuid.Nil; ; {
			records, err := b.catalog.lacking(ctx, b.model, namespace, after, batch)
			if err != nil {
				return written, err
			}
			if len(records) == 0 {
				break
			}
			// Only sensitive memories that the model may have are lacking, and put checks that once more.
			guarded := endpoint.Guard(ctx, func(ctx context.Context) (bool, error) { return b.catalog.asSensitive(ctx, records) })
			embeddings, err := embedRecords(guarded, b.embedder, records, true)
			if errors.Is(err, endpoint.ErrWithdrawn) {
				continue // with what is lacking now
			}
			if err != nil {
				return written, err
			}
			after = records[len(records)-1].ID
			if err := b.catalog.put(ctx, b.model, embeddings, b.status); err != nil {
				return written, err
			}
			for _, e := range embeddings {
				if e.vector != nil {
					written++
				}
			}
			b.progress.Done += int64(len(records))
			b.progress.Total = max(b.progress.Total, b.progress.Done)
			b.report(b.progress)
			if err := b.rest(ctx); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// rest waits until embedding is not ahead of its rate.
func (b *building) rest(ctx context.Context) error {
	if b.perSecond == 0 {
		return nil
	}
	due := b.begun.Add(time.Duration(b.progress.Done) * time.Second / time.Duration(b.perSecond))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(due)):
		return nil
	}
}

// Cancel stops the building of a model, in whatever process, and removes it; false if none is being built.
func (m *Models) Cancel(ctx context.Context, report func(Progress)) (ModelInfo, bool, error) {
	cancelled, ok, err := m.catalog.retire(ctx)
	if err != nil || !ok {
		return cancelled, ok, err
	}
	return cancelled, true, m.remove(ctx, []ModelInfo{cancelled}, report)
}

// Prune removes the retired models with all their vectors and returns them. Processes configured for one of them cannot
// search any more.
func (m *Models) Prune(ctx context.Context, report func(Progress)) ([]ModelInfo, error) {
	models, err := m.catalog.list(ctx)
	if err != nil {
		return nil, err
	}
	var removed []ModelInfo
	for _, model := range models {
		if model.Status == Retired {
			removed = append(removed, model)
		}
	}
	return removed, m.remove(ctx, removed, report)
}

func (m *Models) remove(ctx context.Context, models []ModelInfo, report func(Progress)) error {
	var progress Progress
	for _, model := range models {
		progress.Total += model.Vectors
	}
	for _, model := range models {
		if err := m.catalog.unprepare(ctx, model.ID); err != nil {
			return err
		}
		namespaces, err := m.catalog.namespaces(ctx)
		if err != nil {
			return err
		}
		for _, namespace := range namespaces {
			for after := uuid.Nil; ; {
				last, n, err := m.catalog.deleteVectors(ctx, model.ID, namespace, after, deleteBatch)
				if err != nil {
					return err
				}
				if n == 0 {
					break
				}
				after = last
				progress.Done += n
				report(progress)
			}
		}
		if err := m.catalog.forget(ctx, model.ID); err != nil {
			return fmt.Errorf("remove %s: %w", model.Model, err)
		}
	}
	return nil
}

// AllowSensitive lets sensitive memories be embedded, which only a local active model may do, and enqueues them. It
// returns how many.
func (m *Models) AllowSensitive(ctx context.Context) (int64, error) {
	active, ok, err := m.catalog.active(ctx)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, errNoActive
	}
	queued, err := m.catalog.allowSensitive(ctx)
	if errors.Is(err, errNotLocal) {
		return 0, fmt.Errorf("sensitive memories cannot be embedded with %s: %w", active, err)
	}
	return queued, err
}

// ForbidSensitive removes all vectors of sensitive memories and lets none be made any more. It returns how many there
// were.
func (m *Models) ForbidSensitive(ctx context.Context) (int64, error) {
	return m.catalog.forbidSensitive(ctx)
}
