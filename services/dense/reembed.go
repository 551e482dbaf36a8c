package dense

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

const (
	// buildBatch is the number of memories per batch, deleteBatch of vectors per deletion.
	buildBatch, deleteBatch = 128, 2000
	// maxPasses bounds the passes for memories written meanwhile. The rest is enqueued.
	maxPasses = 5
)

// Progress is that of a model change.
type Progress struct {
	Done, Total int64
	Indexing    bool // all vectors are stored, the database indexes them
}

// Reembedded is Reembed's result.
type Reembedded struct {
	Active   embed.Model
	Switched bool  // false if the model was already active
	Embedded int64 // memories
	Queued   int64 // memories left to the dense index's worker
}

// Reembed activates the embedder's model: it embeds every memory that lacks a vector while the active model serves, and then switches.
// It can be interrupted and resumed. perSecond bounds the memories per second; 0 means no limit.
func (m *Models) Reembed(ctx context.Context, embedder embed.Embedder, perSecond int, report func(Progress)) (done Reembedded, err error) {
	done.Active = embedder.Model()
	if err := checkModel(done.Active); err != nil {
		return done, err
	}
	err = m.alone(ctx, func() error {
		id, status, err := m.build(ctx, done.Active)
		if err != nil {
			return err
		}
		b := building{models: m, embedder: embedder, model: id, status: status, rate: rate.NewLimiter(rate.Inf, buildBatch), report: report}
		if perSecond > 0 {
			b.rate = rate.NewLimiter(rate.Limit(perSecond), min(perSecond, buildBatch))
			b.rate.AllowN(time.Now(), b.rate.Burst()) // nothing is saved up at the beginning
		}
		if err := b.all(ctx); err != nil {
			return err
		}
		done.Embedded = b.progress.Done
		if status == Active {
			return nil
		}
		done.Switched = true
		done.Queued, err = m.activate(ctx, id)
		return err
	})
	if _, changed := errors.AsType[*statusError](err); changed {
		err = errCancelled
	}
	return done, err
}

// building is a run of Reembed.
type building struct {
	models   *Models
	embedder embed.Embedder
	model    int64
	status   Status
	rate     *rate.Limiter // of memories
	report   func(Progress)
	progress Progress
}

// all embeds lacking memories, indexes the vectors, and embeds later writes.
func (b *building) all(ctx context.Context) error {
	namespaces, err := b.models.store.DB().Namespaces(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		var n int64
		if _, err := b.models.db().Get(ctx, `SELECT count(*) `+fromLacking, []any{b.model, namespace}, &n); err != nil {
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
			if err := b.models.prepare(ctx, b.model, b.embedder.Model()); err != nil {
				return err
			}
			b.progress.Indexing = false
		} else if embedded <= buildBatch {
			return nil
		}
	}
	return nil
}

// pass goes through all memories once and returns the vectors written.
func (b *building) pass(ctx context.Context) (written int64, err error) {
	namespaces, err := b.models.store.DB().Namespaces(ctx)
	if err != nil {
		return 0, err
	}
	for _, namespace := range namespaces {
		for after := uuid.Nil; ; {
			records, err := b.models.db().Records(ctx, `SELECT `+record.Columns+` `+fromLacking+` AND m.id > $3 ORDER BY m.id LIMIT $4`,
				b.model, namespace, after[:], b.rate.Burst())
			if err != nil {
				return written, err
			}
			if len(records) == 0 {
				break
			}
			// Only sensitive memories that are allowed are lacking; put checks again.
			checked := endpoint.WithCheck(ctx, func(ctx context.Context) (bool, error) { return queue.New(b.models.store).AsSensitive(ctx, records) })
			embeddings, err := embedRecords(checked, b.embedder, records, true)
			if errors.Is(err, endpoint.ErrWithdrawn) {
				continue // read what is lacking again
			}
			if err != nil {
				return written, err
			}
			after = records[len(records)-1].ID
			if err := b.models.put(ctx, b.model, embeddings, b.status); err != nil {
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
			if err := b.rate.WaitN(ctx, len(records)); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// Cancel stops the building of a model in any process and removes it, or returns false.
func (m *Models) Cancel(ctx context.Context, report func(Progress)) (cancelled ModelInfo, ok bool, err error) {
	if err = m.change(ctx, func(tx sqldb.Tx) error {
		db := tx.In(postgres.Entered)
		if cancelled, ok, err = withStatus(ctx, db, Building); err != nil || !ok {
			return err
		}
		if err := exec(ctx, tx, `UPDATE dense.models SET status = 'retired' WHERE id = $1`, cancelled.ID); err != nil {
			return err
		}
		_, err := db.Get(ctx, `SELECT count(*) FROM dense.vectors WHERE model_id = $1`, []any{cancelled.ID}, &cancelled.Vectors)
		return err
	}); err != nil || !ok {
		return cancelled, ok, err
	}
	return cancelled, true, m.remove(ctx, []ModelInfo{cancelled}, report)
}

// Prune removes the retired models with their vectors and returns them. Processes configured for them can no longer search.
func (m *Models) Prune(ctx context.Context, report func(Progress)) ([]ModelInfo, error) {
	models, err := m.List(ctx)
	if err != nil {
		return nil, err
	}
	retired := slices.DeleteFunc(models, func(model ModelInfo) bool { return model.Status != Retired })
	return retired, m.remove(ctx, retired, report)
}

func (m *Models) remove(ctx context.Context, models []ModelInfo, report func(Progress)) error {
	var progress Progress
	for _, model := range models {
		progress.Total += model.Vectors
	}
	for _, model := range models {
		if err := m.unprepare(ctx, model.ID); err != nil {
			return err
		}
		namespaces, err := m.store.DB().Namespaces(ctx)
		if err != nil {
			return err
		}
		for _, namespace := range namespaces {
			for after := uuid.Nil; ; {
				last, n, err := m.deleteVectors(ctx, model.ID, namespace, after, deleteBatch)
				if err != nil {
					return err
				}
				if n == 0 {
					break
				}
				after = last
				progress.Done += int64(n)
				report(progress)
			}
		}
		if err := m.change(ctx, func(tx sqldb.Tx) error {
			return exec(ctx, tx, `DELETE FROM dense.models WHERE id = $1 AND status = 'retired'`, model.ID)
		}); err != nil {
			return fmt.Errorf("remove %s: %w", model.Model, err)
		}
	}
	return nil
}
