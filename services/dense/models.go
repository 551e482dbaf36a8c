package dense

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

// Status is what a model's vectors are for.
type Status string

// The statuses of a model. One at most is active and one at most is being built.
const (
	Building Status = "building" // by Models.Reembed, to become active
	Active   Status = "active"   // new and changed memories are embedded with it, and searches use it
	Retired  Status = "retired"  // not kept up to date; processes configured for it still search with it
)

// ModelInfo is a model that a database has vectors of.
type ModelInfo struct {
	ID        int64
	Model     embed.Model
	Status    Status
	Sensitive bool // sensitive memories are embedded too
	Vectors   int64
	CreatedAt time.Time
}

// modelState is what decides whether vectors of a model may be written.
type modelState struct {
	status    Status // empty if there is no such model
	sensitive bool
}

// catalog is what an engine keeps of models and their vectors. What changes models waits for those who are writing
// vectors and keeps others from starting, so nobody writes under a status that has passed.
type catalog interface {
	list(ctx context.Context) ([]ModelInfo, error)
	// active returns the active model; false if there is none.
	active(ctx context.Context) (embed.Model, bool, error)
	state(ctx context.Context, model int64) (modelState, error)
	// put writes embeddings while the model has the given status, else it returns a *statusError. It leaves out those that
	// are of an older revision than what is there, and those whose memory is gone, has changed its sensitivity, or is
	// sensitive where the model may not have such.
	put(ctx context.Context, model int64, embeddings []embedding, status Status) error

	// alone runs fn unless another process is in it.
	alone(ctx context.Context, fn func() error) error
	// build registers a model as building, or finds it building or active. Another that is building is an error.
	build(ctx context.Context, model embed.Model) (id int64, status Status, err error)
	namespaces(ctx context.Context) ([]string, error)
	// countLacking counts the memories of a namespace that the model should have a vector of and has none, or one of an
	// older revision. Texts without a vector count too.
	countLacking(ctx context.Context, model int64, namespace string) (int64, error)
	// lacking returns up to n of them by id, those after a given one.
	lacking(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) ([]record.Record, error)
	// asSensitive says whether records are as sensitive as they were when they were read.
	asSensitive(ctx context.Context, records []record.Record) (bool, error)
	// prepare makes a model's vectors fast to search, without keeping others from writing.
	prepare(ctx context.Context, id int64, model embed.Model) error
	// activate retires the active model, makes the one that is building active, and enqueues what that lacks, all at once.
	// A model that is not local loses sensitive memories.
	activate(ctx context.Context, model int64) (queued int64, err error)

	// retire ends the building of a model and returns it; false if none is being built.
	retire(ctx context.Context) (ModelInfo, bool, error)
	// unprepare undoes prepare.
	unprepare(ctx context.Context, model int64) error
	// deleteVectors deletes up to n vectors of a retired model in a namespace, those after a given memory, and returns the
	// last of them.
	deleteVectors(ctx context.Context, model int64, namespace string, after uuid.UUID, n int) (last uuid.UUID, deleted int64, err error)
	// forget removes a retired model that has no vectors.
	forget(ctx context.Context, model int64) error

	// allowSensitive lets the active model and the one that is building, as far as they are local, have vectors of
	// sensitive memories, and enqueues those. errNotLocal if the active one is not.
	allowSensitive(ctx context.Context) (queued int64, err error)
	// forbidSensitive is the inverse: all such vectors and tasks go at once.
	forbidSensitive(ctx context.Context) (deleted int64, err error)
}

// statusError says that a model has another status than expected.
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

// sameSpace says whether vectors of two models can be compared.
func sameSpace(a, b embed.Model) bool {
	a.Local, b.Local = false, false
	a.QueryDimensions, b.QueryDimensions = 0, 0
	return a == b
}

// buildingError says that one change of models at a time is enough.
func buildingError(other embed.Model) error {
	return fmt.Errorf("%s is being built already: finish that with `triskele reembed` and its --embedder, or give it up with `triskele models cancel`", other)
}

// modelError says that the configured model is not the one whose vectors are stored.
func modelError(active, configured embed.Model) error {
	stay := "To stay with the present model, give the --embedder that names it"
	if static.Retired(active) {
		stay = "The present model was built into an earlier release, which alone can stay with it"
	}
	return fmt.Errorf("this database's memories are embedded with %s, but the configured embedding model is %s. "+
		"To change to that, run `triskele reembed` with the same --embedder and the same database: processes configured as before go on answering meanwhile. %s",
		active, configured, stay)
}

// outdated says that a model was active when this process started and another is now.
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

// markOutdated says in a result that the model it was searched with is not the active one.
func markOutdated(ctx context.Context, c catalog, configured embed.Model, found Status, result *leg.Result) error {
	switch found {
	case Active:
		return nil
	case "":
		return fmt.Errorf("%s: %w", configured, &statusError{})
	}
	reason, err := outdated(ctx, c, configured)
	if err != nil {
		return err
	}
	if result.State == triskelev1.LegState_LEG_STATE_UNSPECIFIED {
		result.State = triskelev1.LegState_LEG_STATE_FALLBACK
	} else {
		reason = result.Reason + "; " + reason
	}
	result.Reason = reason
	return nil
}

// knows is Follower.Knows for the vectors of a model: those of one that is no longer active are not kept up to date, even
// if the index is.
func knows(ctx context.Context, c catalog, index queue.Follower, model int64, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	knows, gaveUp, err = index.Knows(ctx, namespace, sequence)
	if err != nil || !knows {
		return knows, gaveUp, err
	}
	state, err := c.state(ctx, model)
	active := state.status == Active
	return active, !active, err
}

// index embeds records and writes their vectors, as long as the model is active.
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
