package graph

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// namesShare is the share of a search's remaining time for reading the names of a path's concepts.
const namesShare = 0.5

// Leg is the graph in a database of either engine. It searches by PageRank or hop decay.
type Leg struct {
	queue.Follower
	*postgres.Standby
	store     sqldb.Store
	images    *replica.Set
	part      replica.Place
	share     float64 // of a search's time, to wait for loading
	config    Config
	measuring singleflight.Group
	measured  atomic.Pointer[scale] // of the embedder
}

var _ leg.AsyncIndex = (*Leg)(nil) // which nothing else checks before a server starts

// New returns the graph of a database. images get its part; q reports pending tasks. A file is searched only in memory.
func New(store sqldb.Store, images *replica.Set, q *queue.Queue, config Config) *Leg {
	share, dims := 0.9, 0
	if store.File == nil {
		share = 0.5 // the SQL search gets the rest
	}
	if config.Embedder != nil {
		dims = config.Embedder.Model().Dimensions
	}
	part := images.Register(indexName, replica.Graph, func(rows *replica.Rows) replica.Part { return newNetwork(rows, config.modelName(), dims) })
	return &Leg{Follower: queue.Follow(q, indexName), Standby: store.Standby, store: store, images: images, part: part, share: share, config: config}
}

// Search implements leg.Searcher. Only a query without linked names is embedded.
func (l *Leg) Search(ctx context.Context, q leg.Query) (result leg.Result, err error) {
	traversal := triskelev1.Traversal_TRAVERSAL_PAGERANK
	if l.config.Traversal == "hop-decay" {
		traversal = triskelev1.Traversal_TRAVERSAL_HOP_DECAY
	}
	q.Traversal = cmp.Or(q.Traversal, traversal)
	text := words(q.Text, maxQueryWords)
	ps := phrases(text, maxNameWords)
	result = leg.Abstained(scoreKind(q.Traversal), reasonNoWords)
	if len(ps) > 0 {
		result, err = l.inMemory(ctx, q, text, ps, meaning{})
	}
	if err == nil && result.State == triskelev1.LegState_LEG_STATE_ABSTAINED && q.Traversal == triskelev1.Traversal_TRAVERSAL_PAGERANK {
		if means := l.meaningOf(ctx, q); len(means.vector) > 0 {
			result, err = l.inMemory(ctx, q, text, ps, means)
		}
	}
	if leg.NotInMemory(err) {
		result, err = l.fallback(ctx, q, ps, err)
	}
	l.name(ctx, q.Namespace, result.Paths)
	return result, err
}

// fallback searches in SQL, or finds nothing, for a reason.
func (l *Leg) fallback(ctx context.Context, q leg.Query, ps []phrase, reason error) (leg.Result, error) {
	switch {
	case len(ps) == 0:
		return leg.Abstained(scoreKind(q.Traversal), reasonNoWords), nil
	case l.store.File != nil:
		return leg.Result{State: triskelev1.LegState_LEG_STATE_TRUNCATED, Reason: reason.Error(), ScoreKind: scoreKind(q.Traversal)}, nil
	}
	result, err := l.walk(ctx, q, ps)
	if err == nil && result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, reason.Error()+searchedInSQL
	}
	return result, err
}

// inMemory searches the namespace's image. It abstains if the query links to no concept.
func (l *Leg) inMemory(ctx context.Context, q leg.Query, text []word, ps []phrase, means meaning) (leg.Result, error) {
	view, err := l.images.View(ctx, q.Namespace, replica.Need{Part: l.part, Filter: q.Filter, AsOf: q.AsOf, AtLeast: q.AtLeast, Question: q.Text}, l.share)
	if err != nil {
		return leg.Result{}, err
	}
	defer view.Close()
	var found *leg.Result
	if n := view.Part.(*network); q.Traversal == triskelev1.Traversal_TRAVERSAL_PAGERANK {
		found = n.rank(ctx, q, view.Has, text, ps, means)
	} else {
		found = n.hops(q, view.Has, ps)
	}
	result := leg.Abstained(scoreKind(q.Traversal), reasonNotLinked)
	if found != nil {
		result = *found
		result.ScoreKind = scoreKind(q.Traversal)
	} else if err := ctx.Err(); err != nil {
		return leg.Result{}, err
	}
	result.From(view)
	return result, nil
}

// Status implements leg.Searcher.
func (l *Leg) Status(ctx context.Context, namespace string) (leg.Status, error) {
	db := l.store.Searched()
	tasks, err := queue.StatusIn(ctx, db, indexName, namespace)
	if err != nil {
		return leg.Status{}, err
	}
	status := leg.Status{Status: tasks, Model: model}
	_, err = db.In(namespace).Get(ctx, `
		SELECT (SELECT count(*) FROM `+db.Dialect("graph.link_ends", "graph_memories")+` WHERE namespace = $1), (SELECT count(*) FROM memory.memories WHERE namespace = $1 AND sensitive)`,
		[]any{namespace}, &status.Indexed, &status.Excluded)
	return status, err
}

// rounded makes scores comparable.
func rounded(score float64) float64 { return math.Round(score*precision) / precision }

// scored is a memory with its score, which is rounded so that the order of summation decides no rank.
func scored(row uint32, score float64) leg.Scored {
	score = rounded(score)
	return leg.Scored{Row: row, Score: score, Own: score}
}

// name puts the concepts' names in place of their keys, if the database answers in time.
func (l *Leg) name(ctx context.Context, namespace string, paths [][]leg.Step) {
	var ids []int64
	for _, step := range slices.Concat(paths...) {
		if step.Memory == uuid.Nil {
			ids = append(ids, conceptID(step.Concept))
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	ctx, cancel := withShare(ctx, namesShare)
	defer cancel()
	names, _ := l.names(ctx, namespace, slices.Compact(ids)) // keys do without
	for _, path := range paths {
		rename(path, names)
	}
}

// withShare returns a context with a share of the time that is left.
func withShare(ctx context.Context, share float64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(share*float64(time.Until(deadline))))
}

// rename puts names in place of the keys of a path's concepts, as far as there are any.
func rename(path []leg.Step, names map[int64]string) {
	for i, step := range path {
		if step.Memory == uuid.Nil {
			path[i].Concept = cmp.Or(names[conceptID(step.Concept)], step.Concept)
		}
	}
}

// names returns the names of concepts that exist; nil ids means all.
func (l *Leg) names(ctx context.Context, namespace string, ids []int64) (map[int64]string, error) {
	out := map[int64]string{}
	var id int64
	var name string
	statement, args := sqldb.Among(ids, `SELECT id, name FROM graph.concepts WHERE namespace = $1`, ` AND id = ANY($2::bigint[])`, namespace)
	var b sqldb.Batch
	b.Query([]any{&id, &name}, func() { out[id] = name }, statement, args...)
	return out, l.store.Searched().In(namespace).Send(ctx, &b)
}
