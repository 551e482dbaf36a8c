package querypath

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/embed"
)

// scripted embeds a text as its length, after a delay, unless it is to fail.
type scripted struct {
	model embed.Model
	delay atomic.Int64
	fail  atomic.Bool
	calls atomic.Int64
	ended atomic.Int64 // calls that their context ended
}

var errDown = errors.New("down")

func newScripted(delay time.Duration) *scripted {
	s := &scripted{model: embed.Model{Provider: "test", Name: "m", Dimensions: 1}}
	s.delay.Store(int64(delay))
	return s
}

func (s *scripted) Model() embed.Model { return s.model }

func (s *scripted) EmbedDocuments(context.Context, []string) ([][]float32, error) {
	return nil, errDown
}

func (s *scripted) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	s.calls.Add(1)
	if s.fail.Load() {
		return nil, errDown
	}
	select {
	case <-time.After(time.Duration(s.delay.Load())):
		return []float32{float32(len(text))}, nil
	case <-ctx.Done():
		s.ended.Add(1)
		return nil, ctx.Err()
	}
}

func newPath(t *testing.T, first, fallback embed.Embedder) *Embedder {
	t.Helper()
	e, err := New(first, fallback, 1<<20, noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// within asks with a deadline.
func within(t *testing.T, e *Embedder, d time.Duration, text string) ([]float32, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return e.EmbedQuery(ctx, text)
}

func TestRemembers(t *testing.T) {
	t.Parallel()
	s := newScripted(0)
	e := newPath(t, s, nil)
	for _, text := range []string{"a query", "  a\tquery\n", "a  query", "A query", "another"} {
		vector, err := e.EmbedQuery(t.Context(), text)
		if want := float32(len(strings.Join(strings.Fields(text), " "))); err != nil || vector[0] != want {
			t.Errorf("%q: %v, %v", text, vector, err)
		}
		vector[0] = -1 // is the caller's own
	}
	if n := s.calls.Load(); n != 3 {
		t.Errorf("%d texts were embedded, want 3: case counts, white space does not", n)
	}
	s.fail.Store(true)
	if _, err := e.EmbedQuery(t.Context(), "new"); !errors.Is(err, errDown) {
		t.Errorf("failure: %v", err)
	}
	s.fail.Store(false)
	if _, err := e.EmbedQuery(t.Context(), "new"); err != nil {
		t.Errorf("a failure is remembered: %v", err)
	}
}

// A prefix is part of the model, to the letter.
func TestPrefixStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, prefix, want string }{
		{" a\n b ", "", "a b"},
		{"Find it.\nQuery:  a\n b ", "Find it.\nQuery: ", "Find it.\nQuery: a b"},
		{" a  b", "q:", "a b"},
	} {
		if got := normalize(c.text, c.prefix); got != c.want {
			t.Errorf("%q with the prefix %q becomes %q, want %q", c.text, c.prefix, got, c.want)
		}
	}
}

// Both embedders get what acronyms stand for.
func TestAcronymsAreWrittenOut(t *testing.T) {
	t.Parallel()
	first, fallback := newScripted(0), newScripted(0)
	first.model.QueryPrefix, fallback.model.QueryPrefix = "For a VPN: ", "For a VPN: " // stays as it is
	e := newPath(t, first, fallback)
	for i, text := range []string{"For a VPN: the CRM", "For a VPN: one CRM"} {
		first.fail.Store(i > 0)
		vector, err := e.EmbedQuery(t.Context(), text)
		if want := float32(len(text + " customer relationship management")); err != nil || len(vector) != 1 || vector[0] != want {
			t.Errorf("%q has the vector %v, %v, want its whole length, %v", text, vector, err, want)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 10 * (entryOverhead + 4 + 4)
	c := newCache(limit)
	cached := func(text string) bool { _, ok := c.GetIfPresent(text); return ok }
	for i := range 100 {
		c.Set(fmt.Sprintf("%04d", i), []float32{1})
		if !cached("0000") { // stays in use
			t.Fatalf("the text that is used most is gone after %d texts", i)
		}
		if size := c.WeightedSize(); size > limit {
			t.Fatalf("%d bytes after %d texts, want at most %d", size, i, limit)
		}
	}
	kept := 0
	for i := range 100 {
		if cached(fmt.Sprintf("%04d", i)) {
			kept++
		}
	}
	if kept != 10 {
		t.Errorf("kept %d texts, want 10", kept)
	}
	if c.Set(strings.Repeat("x", limit), []float32{1}); !cached("0000") {
		t.Error("a text larger than the cache pushed others out")
	}
}

func TestEmbedsOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(time.Second)
		e := newPath(t, s, nil)
		var wg sync.WaitGroup
		// The caller who begins leaves early; the others still get their vector.
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			if _, err := e.EmbedQuery(ctx, "text"); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			wg.Go(func() {
				if vector, err := e.EmbedQuery(t.Context(), "text"); err != nil || vector[0] != 4 {
					t.Errorf("%v, %v", vector, err)
				}
			})
		}
		wg.Wait()
		if n := s.calls.Load(); n != 1 {
			t.Errorf("embedded %d times, want once", n)
		}
	})
}

// The fallback embedder is asked once for all too, also where the first was too quick to share.
func TestFallsBackOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newScripted(quick/2), newScripted(time.Second)
		e := newPath(t, first, second)
		if _, err := e.EmbedQuery(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		first.fail.Store(true)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if vector, err := e.EmbedQuery(t.Context(), "text"); err != nil || vector[0] != 4 {
					t.Errorf("%v, %v", vector, err)
				}
			})
		}
		wg.Wait()
		if n := second.calls.Load(); n != 1 {
			t.Errorf("embedded %d times, want once", n)
		}
	})
}

func TestNothingOutlivesItsCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(time.Hour)
		e := newPath(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _, _ = e.EmbedQuery(ctx, "text") })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		synctest.Wait()
		if s.ended.Load() != 1 {
			t.Error("the embedding goes on although nobody waits for it")
		}
		s.delay.Store(0)
		if _, err := e.EmbedQuery(t.Context(), "text"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A caller with time left does not fail because the one who began had less.
func TestJoinerWithMoreTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(time.Second)
		e := newPath(t, s, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := within(t, e, 500*time.Millisecond, "text"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("half a second: %v", err)
			}
		})
		synctest.Wait()
		if vector, err := within(t, e, 10*time.Second, "text"); err != nil || vector[0] != 4 {
			t.Errorf("ten seconds: %v, %v", vector, err)
		}
		wg.Wait()
	})
}

// checked may not send its first text: whether it may cannot be told.
type checked struct{ *scripted }

func (c checked) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vector, err := c.scripted.EmbedQuery(ctx, text)
	if c.calls.Load() == 1 {
		return nil, fmt.Errorf("%w: %w", endpoint.ErrUnchecked, errDown)
	}
	return vector, err
}

// A caller does not fail because the text of the one who began could not be checked.
func TestJoinerWhoMaySend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newPath(t, checked{newScripted(time.Second)}, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := e.EmbedQuery(t.Context(), "text"); !errors.Is(err, endpoint.ErrUnchecked) {
				t.Errorf("unchecked: got %v", err)
			}
		})
		synctest.Wait()
		if vector, err := e.EmbedQuery(t.Context(), "text"); err != nil || vector[0] != 4 {
			t.Errorf("the other: got %v, %v", vector, err)
		}
		wg.Wait()
	})
}

func TestDoesNotStartWhatCannotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(100 * time.Millisecond)
		e := newPath(t, s, nil)
		if _, err := within(t, e, time.Second, "one"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := within(t, e, 50*time.Millisecond, "two"); !errors.Is(err, ErrNoTime) || time.Since(start) != 0 || s.calls.Load() != 1 {
			t.Errorf("%v after %v and %d calls, want a refusal at once", err, time.Since(start), s.calls.Load())
		}
		if _, err := within(t, e, 50*time.Millisecond, "one"); err != nil {
			t.Errorf("remembered: %v", err)
		}
		if _, err := within(t, e, 150*time.Millisecond, "three"); err != nil {
			t.Errorf("with enough time: %v", err)
		}
		// What was slow once is tried again after a while.
		time.Sleep(maxAge + time.Second)
		s.delay.Store(int64(time.Millisecond))
		if _, err := within(t, e, 50*time.Millisecond, "four"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

// An embedding that was cut off teaches that there was too little time.
func TestLearnsFromTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(time.Minute)
		e := newPath(t, s, nil)
		if _, err := within(t, e, time.Second, "one"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		synctest.Wait() // the caller may be back before the embedding has ended
		if _, err := within(t, e, 100*time.Millisecond, "two"); !errors.Is(err, ErrNoTime) {
			t.Errorf("%v, want a refusal", err)
		}
	})
}

func TestFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newScripted(0), newScripted(time.Millisecond)
		e := newPath(t, first, second)
		first.fail.Store(true)
		if vector, err := e.EmbedQuery(t.Context(), "text"); err != nil || vector[0] != 4 {
			t.Errorf("first is down: %v, %v", vector, err)
		}
		first.fail.Store(false)
		first.delay.Store(int64(time.Hour))
		if vector, err := within(t, e, 100*time.Millisecond, "other"); err != nil || vector[0] != 5 {
			t.Errorf("first hangs: %v, %v", vector, err)
		}
		second.fail.Store(true)
		first.fail.Store(true)
		if _, err := within(t, e, time.Hour, "third"); !errors.Is(err, errDown) {
			t.Errorf("both are down: %v", err)
		}
		// A caller who gives up is no reason to ask the second.
		first.fail.Store(false)
		before := second.calls.Load()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := e.EmbedQuery(ctx, "fourth"); !errors.Is(err, context.Canceled) || second.calls.Load() != before {
			t.Errorf("cancelled: %v, %d calls", err, second.calls.Load()-before)
		}
	})
}

func TestFallbackMustBeOfTheSameModel(t *testing.T) {
	t.Parallel()
	for _, model := range []embed.Model{{Provider: "test", Name: "n", Dimensions: 1}, {Provider: "test", Name: "m", Dimensions: 2}, {Provider: "test", Name: "m", Dimensions: 1, QueryPrefix: "q"}} {
		other := newScripted(0)
		other.model = model
		if _, err := New(newScripted(0), other, 1<<20, noop.Meter{}); err == nil {
			t.Errorf("%+v is taken", model)
		}
	}
	// The same model may be had from two providers.
	other := newScripted(0)
	other.model.Provider = "elsewhere"
	if _, err := New(newScripted(0), other, 1<<20, noop.Meter{}); err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	s := newScripted(0)
	e, err := New(s, nil, 1<<20, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"canary", "canary", "canary2"} {
		if _, err := e.EmbedQuery(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	s.fail.Store(true)
	_, _ = e.EmbedQuery(t.Context(), "canary3")
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	counts, recorded := map[string]int64{}, fmt.Sprintf("%+v", metrics)
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, point := range data.DataPoints {
				value, _ := point.Attributes.Value("triskele.embed.source")
				counts[value.AsString()] = point.Value
			}
		case metricdata.Gauge[int64]:
			if data.DataPoints[0].Value < 2*entryOverhead {
				t.Errorf("%s is %d", m.Name, data.DataPoints[0].Value)
			}
		case metricdata.Histogram[float64]:
			if data.DataPoints[0].Count != 2 {
				t.Errorf("%s has %d observations, want 2", m.Name, data.DataPoints[0].Count)
			}
		}
	}
	if want := map[string]int64{"cache": 1, "embedder": 2, "failed": 1}; fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
	if strings.Contains(recorded, "canary") {
		t.Errorf("a metric has the text of a query: %s", recorded)
	}
}

func BenchmarkRemembered(b *testing.B) {
	e, err := New(newScripted(0), nil, 1<<20, noop.Meter{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.EmbedQuery(b.Context(), "which harbour did we deploy the new soil sensors to"); err != nil {
			b.Fatal(err)
		}
	}
}

// panicking is an embedder that takes its time and panics.
type panicking struct{ *scripted }

func (p panicking) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	_, _ = p.scripted.EmbedQuery(ctx, text)
	panic("cannot embed " + text)
}

// TestPanicIsTheQuerys: a panic of the embedder, which runs beside the callers, is an error of those who wait for it.
func TestPanicIsTheQuerys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newPath(t, panicking{newScripted(10 * time.Millisecond)}, nil)
		errs := make(chan error, 2)
		for range 2 {
			go func() { _, err := e.EmbedQuery(t.Context(), "a query"); errs <- err }()
		}
		for range 2 {
			var caught *panics.Error
			if err := <-errs; !errors.As(err, &caught) || strings.Contains(err.Error(), "query") {
				t.Errorf("got %v, want a panic without its value", err)
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.flights) != 0 {
			t.Errorf("got %d flights afterwards, want none", len(e.flights))
		}
	})
}
