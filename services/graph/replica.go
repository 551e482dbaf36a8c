package graph

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/panics"
)

const (
	// loadTime bounds loading a namespace's graph.
	loadTime = time.Minute
	// replicaArcs is a replica's fixed memory in units of arcs.
	replicaArcs = 40
)

// state is the version of a namespace's graph in the tables. The zero state means that the namespace has no
// graph.
type state struct{ epoch, version, removed int64 }

// covers reports whether a copy at s includes other. other may be older if another search has caught up or a standby
// answered.
func (s state) covers(other state) bool { return s.epoch == other.epoch && s.version >= other.version }

// source reads graphs from tables.
type source interface {
	state(ctx context.Context, namespace string) (state, error)
	// changes returns the memories changed after a version; 0 returns all. Facts have the vectors of model, unless
	// it is empty.
	changes(ctx context.Context, namespace, model string, after int64) ([]memoryRows, error)
	// memories returns the ids of all memories.
	memories(ctx context.Context, namespace string) ([]uuid.UUID, error)
	// texts returns the concepts that still exist, with vectors of the model.
	texts(ctx context.Context, namespace, model string, ids []int64) (map[int64]conceptText, error)
}

// conceptText is a concept's key, name and optional vector.
type conceptText struct {
	key, name string
	vector    code
}

// reader reads networks for a model or none.
type reader struct {
	source
	model string
	dims  int
}

var errTooLarge = errors.New("the namespace's graph has too many arcs to be kept in memory")

// replicas caches networks of namespaces, least recently used out first. Each catches up before use.
type replicas struct {
	reader
	maxArcs int      // over all networks
	share   float64  // of a search's time, to wait for loading
	none    *network // shared by namespaces without a graph, so that made-up names use no memory

	mu     sync.Mutex
	all    map[string]*replica
	clock  int64 // of uses
	inUse  int   // arcs
	unfits map[string]state
}

type replica struct {
	mu      sync.RWMutex // of network's contents
	network *network
	// Guarded by replicas.mu.
	arcs     int
	used     int64
	at       state         // of network
	catching chan struct{} // closed after the current catch-up; nil if there is none
	err      error         // of the last catch-up
}

func newReplicas(r reader, maxArcs int, share float64) *replicas {
	return &replicas{reader: r, maxArcs: maxArcs, share: share, none: newNetwork(r.dims), all: map[string]*replica{}, unfits: map[string]state{}}
}

// last calls fn with a namespace's cached network, however old, and returns its state. It returns false if none is cached or
// it is locked.
func (r *replicas) last(namespace string, fn func(*network)) (state, bool) {
	r.mu.Lock()
	rep := r.all[namespace]
	if rep != nil {
		r.clock++
		rep.used = r.clock
	}
	r.mu.Unlock()
	if rep == nil || !rep.mu.TryRLock() {
		return state{}, false
	}
	defer rep.mu.RUnlock()
	fn(rep.network)
	return rep.network.at, true
}

// with calls fn with a namespace's current network. It returns false if the network is too large or cannot catch up
// in time.
func (r *replicas) with(ctx context.Context, namespace string, fn func(*network)) (bool, error) {
	wait, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		wait, cancel = context.WithTimeout(ctx, time.Duration(r.share*float64(time.Until(deadline))))
	}
	defer cancel()
	for {
		now, err := r.state(ctx, namespace)
		if err != nil {
			return false, err
		}
		if now == (state{}) {
			r.forget(namespace)
			fn(r.none)
			return true, nil
		}
		rep, catching := r.get(namespace, now)
		if rep == nil {
			return false, nil
		}
		if catching == nil {
			rep.mu.RLock()
			if rep.network.at.covers(now) {
				fn(rep.network)
				rep.mu.RUnlock()
				return true, nil
			}
			rep.mu.RUnlock()
			continue // another search has seen a newer state
		}
		select {
		case <-wait.Done():
			return false, ctx.Err()
		case <-catching:
		}
		r.mu.Lock()
		err = rep.err
		r.mu.Unlock()
		switch {
		case errors.Is(err, errTooLarge):
			return false, nil
		case err != nil:
			return false, err
		}
	}
}

// get returns a namespace's replica and its catch-up in progress, if any. The replica is nil if it is known not
// to fit.
func (r *replicas) get(namespace string, now state) (*replica, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unfits[namespace] == now {
		return nil, nil
	}
	rep := r.all[namespace]
	if rep == nil {
		rep = &replica{network: newNetwork(r.dims)}
		r.all[namespace] = rep
	}
	r.clock++
	rep.used = r.clock
	if rep.catching == nil && !rep.at.covers(now) {
		rep.catching = make(chan struct{})
		go r.catchUp(namespace, rep, now)
	}
	return rep, rep.catching
}

// forget drops the replica of a namespace without a graph, unless it is catching up.
func (r *replicas) forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rep := r.all[namespace]; rep != nil && rep.catching == nil {
		r.inUse -= rep.arcs
		delete(r.all, namespace)
	}
	delete(r.unfits, namespace)
}

// catchUp brings a replica to a state. A panic marks the graph as too large until it changes.
func (r *replicas) catchUp(namespace string, rep *replica, to state) {
	ctx, cancel := context.WithTimeout(context.Background(), loadTime)
	defer cancel()
	err := panics.Catch(ctx, nil, "catch up with a graph", func() error { return r.bring(ctx, namespace, rep, to) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && rep.network.arcs > r.maxArcs {
		err = errTooLarge
	}
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		err = errTooLarge
	}
	switch {
	case errors.Is(err, errTooLarge):
		r.inUse -= rep.arcs
		delete(r.all, namespace)
		if len(r.unfits) > 1000 {
			clear(r.unfits)
		}
		r.unfits[namespace] = to
	default:
		r.inUse -= rep.arcs
		rep.arcs, rep.at = rep.network.arcs+replicaArcs, rep.network.at
		r.inUse += rep.arcs
		delete(r.unfits, namespace)
	}
	rep.err = err
	close(rep.catching)
	rep.catching = nil
	r.evict(namespace)
}

// bring updates a replica's network to a state.
func (r *replicas) bring(ctx context.Context, namespace string, rep *replica, to state) error {
	rep.mu.RLock()
	network, at := rep.network, rep.network.at
	rep.mu.RUnlock()
	if at.epoch != to.epoch {
		network, at = newNetwork(r.dims), state{}
	}
	update, err := r.read(ctx, namespace, at, to)
	if err != nil {
		return err
	}
	if at.version == 0 && update.arcs() > r.maxArcs {
		return errTooLarge
	}
	rep.mu.Lock()
	defer rep.mu.Unlock()
	rep.network = newNetwork(r.dims) // kept if the update fails
	if err := update.apply(ctx, network, r.reader, namespace); err != nil {
		return err
	}
	network.at = to
	rep.network = network
	return nil
}

// evict drops the least recently used replicas over the limit, except those in use.
func (r *replicas) evict(current string) {
	for r.inUse > r.maxArcs {
		oldest := ""
		for namespace, rep := range r.all {
			if namespace != current && rep.catching == nil && (oldest == "" || rep.used < r.all[oldest].used) {
				oldest = namespace
			}
		}
		if oldest == "" {
			return
		}
		r.inUse -= r.all[oldest].arcs
		delete(r.all, oldest)
	}
}

// update is the missing changes.
type update struct {
	changed []memoryRows
	removed bool
	left    []uuid.UUID // if removed
}

func (r reader) read(ctx context.Context, namespace string, at, to state) (update, error) {
	var u update
	var err error
	if u.changed, err = r.changes(ctx, namespace, r.model, at.version); err != nil {
		return u, err
	}
	if u.removed = at.version > 0 && to.removed > at.version; u.removed {
		u.left, err = r.memories(ctx, namespace)
	}
	return u, err
}

func (u update) arcs() int {
	n := 0
	for i := range u.changed {
		n += len(u.changed[i].Mentions) + len(u.changed[i].Facts) + len(u.changed[i].Links)
	}
	return n
}

func (u update) apply(ctx context.Context, n *network, r reader, namespace string) error {
	for _, rows := range u.changed {
		n.put(rows)
	}
	if u.removed {
		n.keep(u.left)
	}
	ids := n.unnamed(u.changed)
	if len(ids) == 0 {
		return nil
	}
	texts, err := r.texts(ctx, namespace, r.model, ids)
	for id, text := range texts {
		n.name(id, text)
	}
	return err
}
