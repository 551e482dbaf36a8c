package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// CacheConfig bounds the cache of answers. A command line has it as flags.
type CacheConfig struct {
	Bytes int           `name:"cache-bytes" help:"Memory for a cache of answers. A cached answer is returned while nothing in its namespaces changes. 0 is no cache." default:"0" env:"TRISKELE_CACHE_BYTES"`
	TTL   time.Duration `name:"cache-ttl" help:"Greatest age of a cached answer." default:"1m" env:"TRISKELE_CACHE_TTL"`
}

func (c CacheConfig) check() error {
	if c.Bytes < 0 || c.Bytes > 0 && c.TTL <= 0 {
		return errors.New("gateway: the cache needs bytes 0 or more, and a time above 0")
	}
	return nil
}

// entryOverhead is the approximate size of a cache entry without its texts.
const entryOverhead = 256

// cachedAnswer is the answer to a request at a revision of its namespaces. Authorization comes before the cache: a caller that
// may make a request may have its answer.
type cachedAnswer struct {
	revision    string
	response    []byte
	made, until time.Time
}

func newCache(config CacheConfig) *otter.Cache[string, cachedAnswer] {
	return otter.Must(&otter.Options[string, cachedAnswer]{
		MaximumWeight: uint64(max(config.Bytes, 1)),
		Weigher: func(key string, a cachedAnswer) uint32 {
			return uint32(entryOverhead + len(key) + len(a.revision) + len(a.response))
		},
		Executor: func(evict func()) { evict() }, // at once, so that the bound is never exceeded for long
	})
}

// cacheSlot is the place of a recall's answer in the cache.
type cacheSlot struct {
	key, revision string
	indexed       bool // every index is up to date, so that an answer made now holds as long as the revision does
}

// revisionShare is the divisor of the budget for asking for the revision.
const revisionShare = 10

// lookUp returns the cached answer to a recall, nil if there is none, and the slot for a new answer, nil if it must not be
// cached. The key contains neither the budget nor the request for spans: only complete answers are cached, without spans.
func (g *Gateway) lookUp(ctx context.Context, r *recall) (*triskelev1.RecallResponse, *cacheSlot) {
	if g.config.Cache.Bytes == 0 || r.req.GetIdsOnly() || r.settings[0].recency.GetWeight() > 0 || r.times.any() {
		return nil, nil // without contents their expiry is unknown; with recency, and with "last week", scores change with time
	}
	slot, err := g.slotOf(ctx, r)
	r.lookedUp = time.Since(r.start)
	if err != nil {
		g.countLookup(ctx, "unknown")
		return nil, nil
	}
	if r.req.GetFresh() {
		g.countLookup(ctx, "bypassed")
		return nil, slot
	}
	cached, ok := g.cache.GetIfPresent(slot.key)
	resp := &triskelev1.RecallResponse{}
	if !ok || cached.revision != slot.revision || !r.start.Before(cached.until) || proto.Unmarshal(cached.response, resp) != nil {
		g.countLookup(ctx, "miss")
		return nil, slot
	}
	g.countLookup(ctx, "hit")
	resp.Budget, resp.Age = durationpb.New(r.plan.Total), durationpb.New(r.start.Sub(cached.made))
	return resp, nil
}

func (g *Gateway) countLookup(ctx context.Context, result string) {
	g.lookups.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
	trace.SpanFromContext(ctx).SetAttributes(attribute.String("triskele.cache", result))
}

// slotOf asks for the revision of each namespace. It does so before the search, so that an answer is never older than its
// revision.
func (g *Gateway) slotOf(ctx context.Context, r *recall) (*cacheSlot, error) {
	ctx, cancel := context.WithTimeout(ctx, r.plan.Total/revisionShare)
	defer cancel()
	req := proto.Clone(r.req).(*triskelev1.RecallRequest)
	req.Budget, req.ReturnSpans, req.Fresh = nil, false, false
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return nil, err
	}
	namespaces := req.GetNamespaces()
	found, errs := make([]*triskelev1.GetNamespaceResponse, len(namespaces)), make([]error, len(namespaces))
	var asking []func()
	for i, namespace := range namespaces {
		asking = append(asking, func() {
			found[i], errs[i] = g.namespace(ctx, namespace)
		})
	}
	g.workers.All(asking)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slot := &cacheSlot{key: string(key), indexed: true}
	var revisions []string
	for _, n := range found {
		if n.GetRevision() == "" {
			return nil, errors.New("the memory service is of the release before, without revisions")
		}
		revisions = append(revisions, n.GetRevision())
		slot.indexed = slot.indexed && n.GetIndexed()
	}
	slot.revision = strings.Join(revisions, " ")
	return slot, nil
}

// store caches a complete answer. While an index lags, or if a leg took its fallback, a later answer may be better although no
// memory changes: such an answer is not cached. Neither are texts of sensitive memories.
func (g *Gateway) store(r *recall, slot *cacheSlot, resp *triskelev1.RecallResponse) {
	if slot == nil || !slot.indexed || resp.GetDegraded() || slices.ContainsFunc(resp.GetLegs(), partial) {
		return
	}
	a := cachedAnswer{revision: slot.revision, made: r.start, until: r.start.Add(g.config.Cache.TTL)}
	for m := range given(resp) {
		if m.GetSensitive() {
			return
		}
		if at := m.GetExpiresAt(); at != nil && at.AsTime().Before(a.until) {
			a.until = at.AsTime()
		}
	}
	spans, err := resp.Spans, error(nil)
	resp.Spans = nil
	if a.response, err = proto.Marshal(resp); err == nil {
		g.cache.Set(slot.key, a)
	}
	resp.Spans = spans
}

// given yields all memories in a response.
func given(resp *triskelev1.RecallResponse) iter.Seq[*triskelev1.Memory] {
	return func(yield func(*triskelev1.Memory) bool) {
		for _, h := range slices.Concat(resp.GetHits(), resp.GetLeftOut()) {
			for _, m := range slices.Concat([]*triskelev1.Memory{h.GetMemory()}, h.GetSurroundings().GetBefore(), h.GetSurroundings().GetAfter()) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// partial says whether the leg might give more if it were asked again.
func partial(l *triskelev1.LegReport) bool {
	switch l.GetState() {
	case triskelev1.LegState_LEG_STATE_OK, triskelev1.LegState_LEG_STATE_ABSTAINED, triskelev1.LegState_LEG_STATE_SKIPPED:
		return l.GetBehind() > 0 || l.GetCompletion().GetMissingReason() != ""
	}
	return true
}
