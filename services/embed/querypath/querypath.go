// Package querypath wraps an embedder for the dense leg, so that queries are embedded cheaply and within their deadline.
// Documents go to the embedder unchanged. A query takes these steps:
//
//  1. White space is normalised, and the vector is looked up in a cache.
//  2. Callers with the same text share one embedding (a flight), unless the embedder is so fast that waiting costs more.
//     A flight is cancelled when its last caller leaves.
//  3. The embedder is not called if it probably needs more time than the deadline leaves. The estimate is a moving average
//     of its latency.
//  4. If the embedder fails, a fallback embedder of the same model is asked. A share of the time is reserved for it.
//  5. The vector is cached.
package querypath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/forms"
)

const (
	// DefaultCacheBytes holds some 25,000 queries of 256 dimensions.
	DefaultCacheBytes = 32 << 20
	// quick bounds the latency of embedders whose queries are not shared: waiting for another goroutine may take longer.
	// With a fallback, queries are always shared.
	quick = 200 * time.Microsecond
	// fallbackShare is the share of the remaining time that is reserved for the fallback.
	fallbackShare = 0.3
)

// ErrNoTime is returned if an embedding was not started, because it would probably have missed the deadline.
var ErrNoTime = errors.New("embedding a query takes longer than what is left of the budget")

// source tells where a query's vector came from. Metrics and spans have it as an attribute.
type source string

const (
	fromCache    source = "cache"
	fromFlight   source = "shared" // another caller's embedding of the same text
	fromEmbedder source = "embedder"
	fromFallback source = "fallback"
	refused      source = "refused"
	failed       source = "failed"
)

// Embedder is an embed.Embedder with a fast path for queries. It may be used concurrently.
type Embedder struct {
	embed.Embedder // the primary one
	fallback       embed.Embedder
	cache          *otter.Cache[string, []float32] // by normalised text
	latency        latency
	queries        metric.Int64Counter
	duration       metric.Float64Histogram
	mu             sync.Mutex
	flights        map[string]*flight
}

var _ embed.Embedder = (*Embedder)(nil)

// flight is a running embedding. It is cancelled when its last waiting caller leaves.
type flight struct {
	cancel  context.CancelFunc
	waiting int // guarded by Embedder.mu
	done    chan struct{}
	// These are set once done is closed.
	vector []float32
	source source
	err    error
}

// measured is implemented by embedders that count their requests.
type measured interface {
	Measure(meter metric.Meter)
}

// New wraps an embedder. fallback may be nil. Otherwise its model must be the same, because its vectors are compared with
// stored vectors of the first. cacheBytes bounds the cache, texts included.
func New(first, fallback embed.Embedder, cacheBytes int, meter metric.Meter) (*Embedder, error) {
	if fallback != nil {
		a, b := first.Model(), fallback.Model()
		if a.Name != b.Name || a.Dimensions != b.Dimensions || a.QueryPrefix != b.QueryPrefix {
			return nil, fmt.Errorf("the fallback embedder's model is %s with %d dimensions and query prefix %q: it must be %s with %d and %q, "+
				"because vectors of different models cannot be compared", b.Name, b.Dimensions, b.QueryPrefix, a.Name, a.Dimensions, a.QueryPrefix)
		}
	}
	for _, embedder := range []embed.Embedder{first, fallback} {
		if m, ok := embedder.(measured); ok {
			m.Measure(meter)
		}
	}
	e := &Embedder{
		Embedder: first, fallback: fallback, cache: newCache(cacheBytes), flights: map[string]*flight{},
		queries: telemetry.Must(meter.Int64Counter("triskele.embed.queries", metric.WithDescription("Queries embedded, by where the vector came from."))),
		duration: telemetry.Must(meter.Float64Histogram("triskele.embed.duration", metric.WithUnit("s"),
			metric.WithDescription("Time to embed a query that was not in the cache."),
			metric.WithExplicitBucketBoundaries(1e-5, 1e-4, 1e-3, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5))),
	}
	telemetry.Must(meter.Int64ObservableGauge("triskele.embed.cache_bytes", metric.WithUnit("By"),
		metric.WithDescription("Memory that remembered query vectors take."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(e.cache.WeightedSize()))
			return nil
		})))
	return e, nil
}

// entryOverhead is the approximate size of a cache entry without its text and vector.
const entryOverhead = 160

func newCache(bytes int) *otter.Cache[string, []float32] {
	return otter.Must(&otter.Options[string, []float32]{
		MaximumWeight: uint64(max(bytes, 1)),
		Weigher:       func(text string, vector []float32) uint32 { return uint32(entryOverhead + len(text) + 4*len(vector)) },
		Executor:      func(evict func()) { evict() }, // at once, so that the bound is never exceeded for long
	})
}

// Immediate reports whether the primary embedder is immediate: see embed.Immediate.
func (e *Embedder) Immediate() bool { return embed.Immediate(e.Embedder) }

// EmbedQuery implements embed.Embedder. It trims white space and reduces runs of it to one space, except in the model's query
// prefix.
func (e *Embedder) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vector, _, err := e.EmbedQueryOrFallBack(ctx, text)
	return vector, err
}

// EmbedQueryOrFallBack is EmbedQuery that also reports whether the vector is the fallback's.
func (e *Embedder) EmbedQueryOrFallBack(ctx context.Context, text string) (vector []float32, fellBack bool, err error) {
	vector, from, err := e.embedQuery(ctx, normalize(text, e.Model().QueryPrefix))
	value := attribute.String("triskele.embed.source", string(from))
	e.queries.Add(ctx, 1, metric.WithAttributes(value))
	cached := "miss"
	if from == fromCache {
		cached = "hit"
	}
	trace.SpanFromContext(ctx).SetAttributes(value, attribute.String("triskele.cache", cached))
	return slices.Clone(vector), from == fromFallback, err
}

func normalize(text, prefix string) string {
	rest, found := strings.CutPrefix(text, prefix)
	if !found {
		prefix = ""
	}
	return prefix + strings.Join(strings.Fields(rest), " ")
}

func (e *Embedder) embedQuery(ctx context.Context, text string) ([]float32, source, error) {
	for {
		if vector, ok := e.cache.GetIfPresent(text); ok {
			return vector, fromCache, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, failed, err
		}
		if expected := e.latency.expected(time.Now()); e.fallback == nil && 0 < expected && expected < quick {
			vector, from, err := e.run(ctx, text)
			if err == nil {
				e.cache.Set(text, vector)
			}
			return vector, from, err
		}
		f, joined := e.join(ctx, text)
		select {
		case <-f.done:
		case <-ctx.Done():
			e.leave(text, f)
			return nil, failed, ctx.Err()
		}
		e.leave(text, f)
		switch {
		case joined && f.err != nil && ctx.Err() == nil &&
			(errors.Is(f.err, context.DeadlineExceeded) || errors.Is(f.err, ErrNoTime) || endpoint.NotSent(f.err)):
			continue // the other caller had less time, or may not send the text
		case joined && f.source == fromEmbedder:
			return f.vector, fromFlight, nil
		}
		return f.vector, f.source, f.err
	}
}

// join returns the flight of a text. It starts one if there is none.
func (e *Embedder) join(ctx context.Context, text string) (f *flight, joined bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.flights[text]; f != nil {
		f.waiting++
		return f, true
	}
	// The flight keeps its first caller's deadline, but outlives the cancellation of that caller.
	shared := context.WithoutCancel(ctx)
	f = &flight{waiting: 1, done: make(chan struct{})}
	if deadline, ok := ctx.Deadline(); ok {
		shared, f.cancel = context.WithDeadline(shared, deadline)
	} else {
		shared, f.cancel = context.WithCancel(shared)
	}
	e.flights[text] = f
	go func() {
		f.source = failed
		f.err = panics.Catch(shared, nil, "embed a query", func() (err error) {
			f.vector, f.source, err = e.run(shared, text)
			return err
		})
		if f.err == nil {
			e.cache.Set(text, f.vector)
		}
		e.mu.Lock()
		if e.flights[text] == f {
			delete(e.flights, text)
		}
		e.mu.Unlock()
		close(f.done)
	}()
	return f, false
}

// leave ends a caller's wait. It cancels the flight if no other caller waits.
func (e *Embedder) leave(text string, f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if e.flights[text] == f {
			delete(e.flights, text) // later callers must not join a cancelled flight
		}
	}
}

// run embeds a text, its acronyms written out, by the first embedder. If that fails or would take too long, it asks the fallback.
func (e *Embedder) run(ctx context.Context, text string) ([]float32, source, error) {
	first, cancel := e.budget(ctx)
	defer cancel()
	if asked, found := strings.CutPrefix(text, e.Model().QueryPrefix); found {
		text = e.Model().QueryPrefix + forms.WriteOut(asked)
	}
	vector, err := e.byFirst(first, text)
	switch {
	case err == nil:
		return vector, fromEmbedder, nil
	case e.fallback != nil && ctx.Err() == nil:
		vector, second := e.fallback.EmbedQuery(ctx, text)
		if second != nil {
			return nil, failed, errors.Join(err, fmt.Errorf("fallback: %w", second))
		}
		return vector, fromFallback, nil
	case errors.Is(err, ErrNoTime):
		return nil, refused, err
	}
	return nil, failed, err
}

// budget returns the context of the first embedder, which leaves the fallback its share of the time.
func (e *Embedder) budget(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if e.fallback == nil || !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration((1-fallbackShare)*float64(time.Until(deadline))))
}

func (e *Embedder) byFirst(ctx context.Context, text string) ([]float32, error) {
	start := time.Now()
	deadline, limited := ctx.Deadline()
	if limited && deadline.Sub(start) < e.latency.expected(start) {
		return nil, ErrNoTime
	}
	vector, err := e.Embedder.EmbedQuery(ctx, text)
	now := time.Now()
	// The clock decides, not ctx.Err(): at the deadline the last caller leaves too, and either may end ctx first.
	if err == nil || limited && !now.Before(deadline) {
		e.latency.observe(now.Sub(start), err != nil, now)
	}
	if err == nil {
		e.duration.Record(ctx, now.Sub(start).Seconds())
	}
	return vector, err
}
