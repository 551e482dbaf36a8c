package gateway

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// CacheConfig says how many answers are remembered. A command line has it as flags.
type CacheConfig struct {
	Bytes int           `name:"cache-bytes" help:"Memory for answers, which are given again while nothing in their namespaces has changed; 0 remembers none." default:"0" env:"TRISKELE_CACHE_BYTES"`
	TTL   time.Duration `name:"cache-ttl" help:"No answer is remembered for longer." default:"1m" env:"TRISKELE_CACHE_TTL"`
}

func (c CacheConfig) check() error {
	if c.Bytes < 0 || c.Bytes > 0 && c.TTL <= 0 {
		return errors.New("gateway: the cache needs bytes 0 or more, and a time above 0")
	}
	return nil
}

// entryOverhead is about what an entry takes besides its texts.
const entryOverhead = 256

// cache remembers answers, those made last, up to a number of bytes. It is behind everything that decides what a caller may
// ask: who may make a request may have its answer. It is safe for concurrent use.
type cache struct {
	config  CacheConfig
	mu      sync.Mutex
	used    int
	entries map[string]*list.Element
	order   list.List // of *entry, the one made last in front
}

type entry struct {
	key, revision string
	answer        []byte
	made, until   time.Time
}

func (e *entry) bytes() int { return entryOverhead + len(e.key) + len(e.revision) + len(e.answer) }

func newCache(config CacheConfig) *cache {
	return &cache{config: config, entries: map[string]*list.Element{}}
}

// get returns the answer that was made at a revision, and when; nil if there is none.
func (c *cache) get(key, revision string, now time.Time) ([]byte, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(now)
	element := c.entries[key]
	if element == nil {
		return nil, time.Time{}
	}
	e := element.Value.(*entry)
	if e.revision != revision || !now.Before(e.until) {
		c.drop(element)
		return nil, time.Time{}
	}
	return e.answer, e.made
}

// put remembers an answer, and forgets those made longest ago until there is room. One that takes more than all there is
// is not remembered.
func (c *cache) put(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(e.made)
	if element := c.entries[e.key]; element != nil {
		c.drop(element)
	}
	if e.bytes() > c.config.Bytes {
		return
	}
	c.entries[e.key] = c.order.PushFront(e)
	c.used += e.bytes()
	for c.used > c.config.Bytes {
		c.drop(c.order.Back())
	}
}

// expire forgets what was made too long ago.
func (c *cache) expire(now time.Time) {
	for last := c.order.Back(); last != nil && now.Sub(last.Value.(*entry).made) >= c.config.TTL; last = c.order.Back() {
		c.drop(last)
	}
}

func (c *cache) drop(element *list.Element) {
	e := c.order.Remove(element).(*entry)
	delete(c.entries, e.key)
	c.used -= e.bytes()
}

// bytes returns how many are used.
func (c *cache) bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// place is where in the cache a recall looks, and may leave its answer.
type place struct {
	key, revision string
	keeps         bool // an answer made now holds as long as the revision does
}

// revisionShare of the budget is what asking for the revision may take.
const revisionShare = 10

// look returns the remembered answer to a recall, nil if there is none, and the place for a new one, nil if it is not to be
// remembered. What an answer depends on besides its request and the memories is none of its business: the budget, since only
// whole answers are remembered, and whose spans are returned.
func (g *Gateway) look(ctx context.Context, r *recall) (*triskelev1.RecallResponse, *place) {
	if g.config.Cache.Bytes == 0 || r.req.GetIdsOnly() || r.settings[0].recency.GetWeight() > 0 {
		return nil, nil // when hits expire is unknown; scores change by themselves
	}
	p, err := g.placeOf(ctx, r)
	r.looked = time.Since(r.start)
	if err != nil {
		g.looked(ctx, "unknown")
		return nil, nil
	}
	if r.req.GetFresh() {
		g.looked(ctx, "bypassed")
		return nil, p
	}
	answer, made := g.cache.get(p.key, p.revision, r.start)
	resp := &triskelev1.RecallResponse{}
	if answer == nil || proto.Unmarshal(answer, resp) != nil {
		g.looked(ctx, "miss")
		return nil, p
	}
	g.looked(ctx, "hit")
	resp.Budget, resp.Age = durationpb.New(r.plan.Total), durationpb.New(r.start.Sub(made))
	return resp, nil
}

func (g *Gateway) looked(ctx context.Context, result string) {
	g.lookups.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
	trace.SpanFromContext(ctx).SetAttributes(attribute.String("triskele.cache", result))
}

// placeOf asks for the revision of each namespace. It is asked for before the search, so an answer is never older than the
// revision it is remembered by.
func (g *Gateway) placeOf(ctx context.Context, r *recall) (*place, error) {
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
	var wg sync.WaitGroup
	for i, namespace := range namespaces {
		wg.Go(func() {
			found[i], errs[i] = g.namespace(ctx, namespace)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p := &place{key: string(key), keeps: true}
	var revisions []string
	for _, n := range found {
		if n.GetRevision() == "" {
			return nil, errors.New("a memory service of the release before") // which knows of none
		}
		revisions = append(revisions, n.GetRevision())
		p.keeps = p.keeps && n.GetIndexed()
	}
	p.revision = strings.Join(revisions, " ")
	return p, nil
}

// remember keeps an answer, if it is whole and says all there is: while an index lags, or when a leg took its cheaper path, a
// better one may come without any change of the memories. Texts of sensitive memories are not kept.
func (g *Gateway) remember(r *recall, p *place, resp *triskelev1.RecallResponse) {
	if p == nil || !p.keeps || resp.GetDegraded() || slices.ContainsFunc(resp.GetLegs(), partial) {
		return
	}
	e := &entry{key: p.key, revision: p.revision, made: r.start, until: r.start.Add(g.config.Cache.TTL)}
	for _, h := range resp.GetHits() {
		if h.GetMemory().GetSensitive() {
			return
		}
		if at := h.GetMemory().GetExpiresAt(); at != nil && at.AsTime().Before(e.until) {
			e.until = at.AsTime()
		}
	}
	spans, err := resp.Spans, error(nil)
	resp.Spans = nil
	if e.answer, err = proto.Marshal(resp); err == nil {
		g.cache.put(e)
	}
	resp.Spans = spans
}

// partial says whether a leg might say more if it were asked again.
func partial(l *triskelev1.LegReport) bool {
	switch l.GetState() {
	case triskelev1.LegState_LEG_STATE_OK, triskelev1.LegState_LEG_STATE_ABSTAINED, triskelev1.LegState_LEG_STATE_SKIPPED:
		return l.GetBehind() > 0 || l.GetCompletion().GetMissingReason() != ""
	}
	return true
}
