package dense

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/panics"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Leg searches the vectors in memory, and in PostgreSQL while a namespace is not in memory. It also indexes records.
type Leg struct {
	queue.Follower
	*postgres.Standby
	// ExactUpTo is how many memories are compared exactly in the database before an index is used. Set it before the first search.
	ExactUpTo int

	images   *replica.Set
	part     replica.Place
	embedder embed.Embedder
	model    int64 // id in the database
	models   *Models
	use      atomic.Pointer[modelUse]
	asking   atomic.Bool // for use
	// loading is the part of a search's time, 0 to 1, that loading a namespace may take.
	loading float64
	index   hnswIndex
}

var (
	_ leg.Searcher   = (*Leg)(nil)
	_ leg.AsyncIndex = (*Leg)(nil)
	_ leg.Scorer     = (*Leg)(nil)
	_ queue.Indexer  = (*Leg)(nil)
)

// New returns the leg for the embedder's model. It registers the model if none is active. Another active model is an error.
// Building an index for namespaces that are too large for memory ends with ctx. On SQLite, a namespace that is not in memory has no hits.
func New(ctx context.Context, store sqldb.Store, images *replica.Set, embedder embed.Embedder, tasks *queue.Queue) (*Leg, error) {
	l := &Leg{
		Follower: queue.Follow(tasks, indexName), Standby: store.Standby, ExactUpTo: defaultExactUpTo, images: images, embedder: embedder, models: NewModels(store),
		loading: 0.3, index: hnswIndex{background: ctx},
	}
	l.use.Store(&modelUse{at: time.Now()})
	model := embedder.Model()
	var err error
	if l.model, err = l.models.start(ctx, store.Searched().In(postgres.AllNamespaces), model); err != nil {
		return nil, err
	}
	if store.File != nil {
		l.loading = 0.8
	}
	of := stored{l.model, model.Dimensions, model.Queried()}
	l.part = images.Register(indexName, replica.Vectors, func(rows *replica.Rows) replica.Part { return &matrix{rows: rows, of: of, exact: rows.Question != ""} })
	return l, nil
}

// Index implements queue.Indexer. It pauses when the model is not active.
func (l *Leg) Index(ctx context.Context, records []record.Record) error {
	state, err := stateIn(ctx, l.models.db(), l.model, "")
	if err != nil {
		return err
	}
	if state.status == Active {
		embeddings, err := embedRecords(ctx, l.embedder, records, state.sensitive)
		if err != nil || len(embeddings) == 0 {
			return err
		}
		err = l.models.put(ctx, l.model, embeddings, Active)
		if _, changed := errors.AsType[*statusError](err); !changed {
			return err
		}
	}
	reason, err := l.models.outdated(ctx, l.embedder.Model())
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", queue.ErrPaused, reason)
}

// Prepare implements memory.Derived. It embeds records that are about to be stored, except sensitive ones.
func (l *Leg) Prepare(ctx context.Context, records []record.Record) (sqldb.Putter, error) {
	all, err := embedRecords(ctx, l.embedder, records, false)
	return func(ctx context.Context, tx sqldb.Tx, stored map[record.Key]bool) error {
		return putIn(ctx, tx, l.model, slices.DeleteFunc(slices.Clone(all), func(e embedding) bool { return !stored[e.Key()] }), Active)
	}, err
}

// Knows implements leg.AsyncIndex. It gives up if the model is not active: its vectors are outdated, and no worker adds to them.
func (l *Leg) Knows(ctx context.Context, namespace string, sequence int64) (known, gaveUp bool, err error) {
	if known, gaveUp, err = l.Follower.Knows(ctx, namespace, sequence); err != nil {
		return false, false, err
	}
	if state, err := stateIn(ctx, l.models.db(), l.model, ""); err != nil || state.status != Active {
		return false, err == nil, err
	}
	return known, gaveUp, nil
}

// Status implements leg.Searcher.
func (l *Leg) Status(ctx context.Context, namespace string) (leg.Status, error) {
	db := l.models.store.Searched()
	tasks, err := queue.StatusIn(ctx, db, indexName, namespace)
	if err != nil {
		return leg.Status{}, err
	}
	status := leg.Status{Status: tasks, Model: l.embedder.Model().String()}
	_, err = db.In(namespace).Get(ctx, `
		SELECT (SELECT count(*) FROM dense.vectors WHERE namespace = $1 AND model_id = $2),
			(SELECT count(*) FROM memory.memories m WHERE m.namespace = $1 AND m.sensitive
				AND NOT EXISTS (SELECT 1 FROM dense.model_rows r WHERE r.model_id = $2 AND r.sensitive))`,
		[]any{namespace, l.model}, &status.Indexed, &status.Excluded)
	return status, err
}

// Search implements leg.Searcher. Loading the namespace and comparing each get a part of the time. If vectors remain, the
// result is TRUNCATED. The database is not asked about a namespace in memory.
func (l *Leg) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	vector, reason, err := queryVector(ctx, l.embedder, q)
	if err != nil {
		return leg.Result{}, err
	}
	if vector == nil {
		return leg.Abstained(cosine, reason), nil
	}
	result := leg.Result{ScoreKind: cosine}
	if q.ReturnVector {
		result.Vector = vector
	}
	qualify(&result, triskelev1.LegState_LEG_STATE_FALLBACK, reason)
	err = l.inMemory(ctx, q, vector, func(view *replica.View, vector []float32, c comparison) (err error) {
		if q.ReturnVector {
			result.Vector = vector
		}
		var cut string
		result.Hits, cut, err = c.nearest(ctx, q)
		result.From(view)
		qualify(&result, triskelev1.LegState_LEG_STATE_TRUNCATED, cut)
		return err
	})
	if leg.NotInMemory(err) {
		cause := err
		if l.models.store.File != nil {
			qualify(&result, triskelev1.LegState_LEG_STATE_TRUNCATED, cause.Error())
			err = nil
		} else {
			qualify(&result, triskelev1.LegState_LEG_STATE_FALLBACK, cause.Error()+", so it was searched in the database")
			var cut string
			result.Hits, cut, err = l.searchInSQL(ctx, q, vector, cause)
			qualify(&result, triskelev1.LegState_LEG_STATE_TRUNCATED, cut)
		}
	}
	if err != nil {
		return leg.Result{}, err
	}
	outdated, err := l.outdated(ctx)
	if err != nil {
		return leg.Result{}, err
	}
	qualify(&result, triskelev1.LegState_LEG_STATE_FALLBACK, outdated)
	return result, nil
}

// inMemory calls fn with the image of the query's namespace, the query's vector for it, and a comparison with that.
func (l *Leg) inMemory(ctx context.Context, q leg.Query, vector []float32, fn func(*replica.View, []float32, comparison) error) error {
	view, err := l.view(ctx, q)
	if err != nil {
		return err
	}
	defer view.Close()
	work := scratches.Get().(*scratch)
	defer scratches.Put(work)
	m := view.Part.(*matrix)
	vector = m.whiten(q, vector)
	return fn(view, vector, comparison{m, work, view.Selection, prepared(vector[:m.of.queried]), share(ctx, 0.5)})
}

// view returns the image of the query's namespace. The first search waits for the directions of its vectors, for a part of the time,
// without the image's lock: changes wait for that.
func (l *Leg) view(ctx context.Context, q leg.Query) (*replica.View, error) {
	need := replica.Need{Part: l.part, Filter: q.Filter, AtLeast: q.AtLeast, Question: q.Text}
	view, err := l.images.View(ctx, q.Namespace, need, l.loading)
	if err != nil {
		return nil, err
	}
	made := view.Part.(*matrix).lacking(ctx, q)
	if made == nil {
		return view, nil
	}
	view.Close()
	wait, cancel := context.WithDeadline(ctx, cmp.Or(share(ctx, 0.5), time.Now().Add(time.Minute)))
	defer cancel()
	select {
	case <-made:
	case <-wait.Done():
	}
	return l.images.View(ctx, q.Namespace, need, l.loading)
}

// qualify adds a reason to a result, unless it is empty. TRUNCATED is stronger than FALLBACK.
func qualify(result *leg.Result, state triskelev1.LegState, reason string) {
	if reason == "" {
		return
	}
	if result.State != triskelev1.LegState_LEG_STATE_TRUNCATED {
		result.State = state
	}
	if result.Reason != "" {
		reason = result.Reason + "; " + reason
	}
	result.Reason = reason
}

// Scores implements leg.Scorer.
func (l *Leg) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) (scores []leg.Hit, kind triskelev1.ScoreKind, err error) {
	vector, _, err := queryVector(ctx, l.embedder, q)
	if err != nil || vector == nil {
		return nil, cosine, err
	}
	err = l.inMemory(ctx, q, vector, func(_ *replica.View, _ []float32, c comparison) error {
		scores = q.Scores(c.rows, c.selection, ids, c.has, c.lend)
		return nil
	})
	if leg.NotInMemory(err) {
		if l.models.store.File != nil {
			return nil, cosine, nil
		}
		scores, err = l.scoresInSQL(ctx, q.Namespace, vector, ids)
	}
	return scores, cosine, err
}

// modelUse tells whether the model is active.
type modelUse struct {
	at     time.Time // of the answer
	reason string    // why the model is not active; "" if it is
	err    error     // *leg.UnableError of a model that has been removed
}

// An answer is used for lookAgain. Another is then asked for in the background, and a search waits for it if the answer is
// older than lookBy. It waits for lookTime: the database may be away. askTime bounds asking.
const lookAgain, lookBy, lookTime, askTime = 500 * time.Millisecond, time.Second, 50 * time.Millisecond, 5 * time.Second

// outdated returns the reason why the model is not active, or "". It returns a *leg.UnableError if the model has been removed.
func (l *Leg) outdated(ctx context.Context) (string, error) {
	use := l.use.Load()
	if age := time.Since(use.at); age >= lookAgain && l.asking.CompareAndSwap(false, true) {
		answered, last := make(chan struct{}), *use
		go func() {
			defer close(answered)
			defer l.asking.Store(false)
			l.use.Store(l.askUse(context.WithoutCancel(ctx), last))
		}()
		if age >= lookBy {
			select {
			case <-answered:
			case <-ctx.Done():
			case <-time.After(lookTime):
			}
		}
		use = l.use.Load()
	}
	return use.reason, use.err
}

// askUse returns the use of the model now: the last one if the database does not answer.
func (l *Leg) askUse(ctx context.Context, use modelUse) *modelUse {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_ = panics.Catch(ctx, nil, "ask for the use of a model", func() error {
		state, err := stateIn(ctx, l.models.db(), l.model, "")
		reason := ""
		if err == nil && state.status != Active {
			reason, err = l.models.outdated(ctx, l.embedder.Model())
		}
		if err != nil {
			return err
		}
		if use = (modelUse{reason: reason}); state.status == "" {
			use.err = &leg.UnableError{Reason: reason, Cause: &statusError{}}
		}
		return nil
	})
	use.at = time.Now()
	return &use
}
