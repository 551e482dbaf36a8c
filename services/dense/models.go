package dense

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

// Status is the use of a model's vectors.
type Status string

// The statuses of a model. At most one is active and at most one building.
const (
	Building Status = "building" // Models.Reembed is embedding with it
	Active   Status = "active"   // used for new and changed memories, and for searches
	Retired  Status = "retired"  // outdated; processes configured for it still search with it
)

// ModelInfo describes a model of a database.
type ModelInfo struct {
	ID        int64
	Model     embed.Model
	Status    Status
	Sensitive bool // includes sensitive memories
	Vectors   int64
	CreatedAt time.Time
}

// modelState decides whether a model's vectors may be written.
type modelState struct {
	status    Status // empty if there is no such model
	sensitive bool
}

// catalog stores models and their vectors. A change of models waits for writers of vectors and blocks new ones, so no
// vector is written under an outdated status.
type catalog interface {
	list(ctx context.Context) ([]ModelInfo, error)
	// active returns the active model, or false.
	active(ctx context.Context) (embed.Model, bool, error)
	state(ctx context.Context, model int64) (modelState, error)
	// put writes embeddings of different memories if the model has the given status, else it returns a *statusError. It skips embeddings of
	// an older revision than stored, of deleted memories, of memories with changed sensitivity, and of sensitive ones
	// without permission.
	put(ctx context.Context, model int64, embeddings []embedding, status Status) error

	// alone runs fn unless another process is in it.
	alone(ctx context.Context, fn func() error) error
	// build registers a model as building, or finds it building or active. It fails if another is building.
	build(ctx context.Context, model embed.Model) (id int64, status Status, err error)
	namespaces(ctx context.Context) ([]string, error)
	// countLacking counts a namespace's memories without a current vector of the model. Memories without text to embed
	// count too.
	countLacking(ctx context.Context, model int64, namespace string) (int64, error)
	// lacking returns up to n of them with ids above after.
	lacking(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) ([]record.Record, error)
	// asSensitive reports whether records still have their sensitivity.
	asSensitive(ctx context.Context, records []record.Record) (bool, error)
	// prepare indexes a model's vectors without blocking writers, if an index is wanted.
	prepare(ctx context.Context, id int64, model embed.Model) error
	// activate atomically retires the active model, activates the building one, and enqueues memories without a vector.
	// A remote model loses sensitive memories.
	activate(ctx context.Context, model int64) (queued int64, err error)

	// retire ends the building of a model and returns it, or false.
	retire(ctx context.Context) (ModelInfo, bool, error)
	// unprepare undoes prepare.
	unprepare(ctx context.Context, model int64) error
	// deleteVectors deletes up to n vectors of a retired model in a namespace, after a given memory. It returns
	// the last memory.
	deleteVectors(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) (last uuid.UUID, deleted int64, err error)
	// forget removes a retired model without vectors.
	forget(ctx context.Context, model int64) error

	// allowSensitive lets local active and building models embed sensitive memories, and enqueues these. It returns
	// errNotLocal if the active model is remote.
	allowSensitive(ctx context.Context) (queued int64, err error)
	// forbidSensitive deletes all vectors and tasks of sensitive memories.
	forbidSensitive(ctx context.Context) (deleted int64, err error)
}

// statusError reports an unexpected status of a model.
type statusError struct{ status Status }

func (e *statusError) Error() string {
	if e.status == "" {
		return "the embedding model has been removed"
	}
	return fmt.Sprintf("the embedding model is %s", e.status)
}

var (
	errNotLocal   = errors.New("it sends texts to another host")
	errNoActive   = errors.New("no embedding model is active yet")
	errNotAlone   = errors.New("another process is re-embedding this database")
	errCancelled  = errors.New("re-embedding has been cancelled")
	errLocalTexts = errors.New("sensitive memories are embedded with this model because it was local, but it is now configured to send texts to another host: " +
		"configure it as before, or forbid sensitive memories with `triskele models embed-sensitive off`")
)

// sameSpace reports whether two models' vectors are comparable.
func sameSpace(a, b embed.Model) bool {
	a.Local, b.Local = false, false
	a.QueryDimensions, b.QueryDimensions = 0, 0
	return a == b
}

// buildingError reports another model in building.
func buildingError(other embed.Model) error {
	return fmt.Errorf("%s is being built already: finish that with `triskele reembed` and its --embedder, or give it up with `triskele models cancel`", other)
}

// modelError reports that the configured model is not the active one.
func modelError(active, configured embed.Model) error {
	stay := "To stay with the present model, give the --embedder that names it"
	if static.Retired(active) {
		stay = "The present model was built into an earlier release, which alone can stay with it"
	}
	return fmt.Errorf("this database's memories are embedded with %s, but the configured embedding model is %s. "+
		"To change to that, run `triskele reembed` with the same --embedder and the same database: processes configured as before go on answering meanwhile. %s",
		active, configured, stay)
}

// outdated returns the reason why the configured model is no longer active.
func outdated(ctx context.Context, c catalog, configured embed.Model) (string, error) {
	active, ok, err := c.active(ctx)
	if err != nil {
		return "", err
	}
	now := "has been retired"
	if ok {
		now = "has been replaced by " + active.String()
	}
	return fmt.Sprintf("embedding model %s %s, and its vectors are not kept up to date: restart this process with the --embedder of the active model",
		configured, now), nil
}

// knows is Follower.Knows for a model's vectors. It gives up if the model is not active, since its vectors are then
// outdated.
func knows(ctx context.Context, c catalog, index queue.Follower, model int64, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	knows, gaveUp, err = index.Knows(ctx, namespace, sequence)
	if err != nil || !knows {
		return knows, gaveUp, err
	}
	state, err := c.state(ctx, model)
	active := state.status == Active
	return active, !active, err
}

// index embeds records and stores their vectors while the model is active.
func index(ctx context.Context, c catalog, embedder embed.Embedder, model int64, records []record.Record) error {
	state, err := c.state(ctx, model)
	if err != nil {
		return err
	}
	if state.status == Active {
		embeddings, err := embedRecords(ctx, embedder, records, state.sensitive)
		if err != nil || len(embeddings) == 0 {
			return err
		}
		var changed *statusError
		if err := c.put(ctx, model, embeddings, Active); !errors.As(err, &changed) {
			return err
		}
	}
	reason, err := outdated(ctx, c, embedder.Model())
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", queue.ErrPaused, reason)
}
