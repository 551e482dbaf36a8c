package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// TestKeeping runs calls through two services of a process whose sampler leaves everything out, and looks at what is exported.
func TestKeeping(t *testing.T) {
	budget := attribute.Int64("triskele.budget_us", 1)
	for name, x := range map[string]struct {
		inner func(context.Context, trace.Span) // what the second service does
		other bool                              // by a library
		want  string
	}{
		"ordinary":             {func(_ context.Context, s trace.Span) { s.SetAttributes(budget); time.Sleep(249 * time.Millisecond) }, false, ""},
		"slow":                 {func(_ context.Context, s trace.Span) { s.SetAttributes(budget); time.Sleep(250 * time.Millisecond) }, false, "inner outer"},
		"slow, but no recall":  {func(context.Context, trace.Span) { time.Sleep(time.Hour) }, false, ""},
		"failed":               {func(_ context.Context, s trace.Span) { s.SetStatus(codes.Error, "") }, false, "inner outer"},
		"failed, in a library": {func(_ context.Context, s trace.Span) { s.SetStatus(codes.Error, "") }, true, ""},
		"degraded":             {func(_ context.Context, s trace.Span) { s.SetAttributes(attribute.Bool("triskele.degraded", true)) }, false, "inner outer"},
		"not degraded":         {func(_ context.Context, s trace.Span) { s.SetAttributes(attribute.Bool("triskele.degraded", false)) }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exported := tracetest.NewSpanRecorder()
				k := newKeeper(250*time.Millisecond, exported)
				provider := func() *sdktrace.TracerProvider {
					return sdktrace.NewTracerProvider(sdktrace.WithSampler(recording{sdktrace.NeverSample()}), sdktrace.WithSpanProcessor(k))
				}
				scope := ScopeName
				if x.other {
					scope = "library"
				}
				ctx, outer := provider().Tracer(ScopeName).Start(t.Context(), "outer")
				ctx, inner := provider().Tracer(scope).Start(ctx, "inner")
				x.inner(ctx, inner)
				inner.End()
				if len(exported.Ended()) > 0 {
					t.Error("exported before the end was known")
				}
				outer.End()
				var got []string
				for _, span := range exported.Ended() {
					got = append(got, span.Name())
					if !span.SpanContext().IsSampled() {
						t.Errorf("%s would be dropped", span.Name())
					}
				}
				if got := strings.Join(got, " "); got != x.want {
					t.Errorf("exported %q, want %q", got, x.want)
				}
				if len(k.traces) > 0 {
					t.Errorf("%d traces are held for ever", len(k.traces))
				}
			})
		})
	}
}

func TestKeepingIsBounded(t *testing.T) {
	exported := tracetest.NewSpanRecorder()
	k := newKeeper(time.Second, exported)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(recording{sdktrace.NeverSample()}), sdktrace.WithSpanProcessor(k))
	tracer := provider.Tracer(ScopeName)
	ctx, root := tracer.Start(t.Context(), "root")
	for range 2 * maxSpansPerTrace {
		_, child := tracer.Start(ctx, "child")
		child.SetStatus(codes.Error, "")
		child.End()
	}
	root.End()
	if n := len(exported.Ended()); n != maxSpansPerTrace {
		t.Errorf("%d spans of one trace were held", n)
	}
	var open []trace.Span
	for range 2 * maxHeldTraces {
		_, span := tracer.Start(t.Context(), "root")
		open = append(open, span)
	}
	if len(k.traces) != maxHeldTraces {
		t.Errorf("%d traces are held", len(k.traces))
	}
	for _, span := range open {
		span.End()
	}
	if len(k.traces) != 0 {
		t.Errorf("%d traces are left", len(k.traces))
	}
}

// TestSampledSpansPass makes sure that keeping changes nothing for what is sampled.
// A span that began while too many traces were held does not end the trace for those that began later.
func TestSpansThatWereNotHeld(t *testing.T) {
	exported := tracetest.NewSpanRecorder()
	k := newKeeper(time.Second, exported)
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSampler(recording{sdktrace.NeverSample()}), sdktrace.WithSpanProcessor(k)).Tracer(ScopeName)
	var others []trace.Span
	for range maxHeldTraces {
		_, span := tracer.Start(t.Context(), "other")
		others = append(others, span)
	}
	ctx, root := tracer.Start(t.Context(), "root")
	for _, span := range others {
		span.End()
	}
	_, first := tracer.Start(ctx, "first")
	_, second := tracer.Start(ctx, "second")
	root.SetAttributes(attribute.Bool("triskele.degraded", true))
	root.End()
	first.End()
	if n := len(exported.Ended()); n > 0 {
		t.Errorf("got %d spans while one was open, want none", n)
	}
	second.End()
	if n := len(exported.Ended()); n != 3 || len(k.traces) > 0 {
		t.Errorf("got %d spans in the end, and %d traces are left; want 3 and none", n, len(k.traces))
	}
}

func TestSampledSpansPass(t *testing.T) {
	exported := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(recording{sdktrace.AlwaysSample()}), sdktrace.WithSpanProcessor(newKeeper(time.Second, exported)))
	ctx, root := provider.Tracer(ScopeName).Start(t.Context(), "root")
	_, child := provider.Tracer(ScopeName).Start(ctx, "child")
	child.End()
	if len(exported.Ended()) != 1 {
		t.Error("a sampled span was held")
	}
	root.End()
}

func TestSamplers(t *testing.T) {
	for _, x := range []struct {
		name, argument, says string
		keeps                bool
	}{
		{"", "", "ParentBased{root:AlwaysOnSampler", true},
		{"always_on", "", "AlwaysOnSampler", true},
		{"always_off", "", "AlwaysOffSampler", false},
		{"traceidratio", "0.01", "TraceIDRatioBased{0.01}", true},
		{"parentbased_always_on", "", "ParentBased{root:AlwaysOnSampler", true},
		{"parentbased_always_off", "", "ParentBased{root:AlwaysOffSampler", false},
		{"parentbased_traceidratio", "0.25", "ParentBased{root:TraceIDRatioBased{0.25}", true},
		{"parentbased_traceidratio", "1.5", "", true},
		{"parentbased_traceidratio", "half", "", true},
		{"sometimes", "", "", true},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", x.name)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", x.argument)
		sampler, err := samplerFromEnvironment()
		if x.says == "" {
			if err == nil {
				t.Errorf("%s %s was accepted", x.name, x.argument)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(sampler.Description(), x.says) {
			t.Errorf("%s: %v, %v", x.name, sampler, err)
		}
		if (Keep{time.Second}).wanted() != x.keeps || (Keep{}).wanted() {
			t.Errorf("%s: keeping", x.name)
		}
	}
}

func TestReticence(t *testing.T) {
	exported := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(redacting{exported}))
	for _, scope := range []string{ScopeName, "github.com/exaring/otelpgx"} {
		_, span := provider.Tracer(scope).Start(t.Context(), scope)
		err := errors.New(`invalid input syntax for type json: "quokka"`)
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(attribute.String("db.response.status_code", "22P02"))
		span.End()
	}
	for i, says := range []bool{true, false} {
		span := exported.Ended()[i]
		text := fmt.Sprint(span.Status(), span.Events())
		if strings.Contains(text, "quokka") != says || span.Status().Code != codes.Error || len(span.Attributes()) != 1 {
			t.Errorf("%s: %s", span.Name(), text)
		}
	}
}

func TestSummary(t *testing.T) {
	for statement, want := range map[string]string{
		"SELECT a, b FROM memory.memories m JOIN x ON true WHERE m.content = 'quokka'": "SELECT memory.memories",
		"insert into terms (a) values ($1)":                                            "INSERT terms",
		"\n\tWITH due AS (\n SELECT x FROM memory.index_queue)\nUPDATE y SET":          "WITH memory.index_queue",
		"UPDATE memory.index_queue SET dead = true":                                    "UPDATE memory.index_queue",
		"SELECT set_config('a', $1, true)":                                             "SELECT",
		"begin":                                                                        "BEGIN",
		"":                                                                             "SQL",
	} {
		if got := Summary(statement); got != want {
			t.Errorf("%q: %q, want %q", statement, got, want)
		}
	}
}

// TestEveryServiceHasItsMetrics makes sure that a process with many services shows all of them, each once.
func TestEveryServiceHasItsMetrics(t *testing.T) {
	for renamed, want := range map[string][]string{"": {"one 2", "two 1"}, "ours": {"ours 2", "ours/two 1"}} {
		t.Setenv("OTEL_SERVICE_NAME", renamed)
		process, err := Start(t.Context(), Scraped)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"one", "two", "one"} {
			counter, err := process.Service(name).MeterProvider.Meter(ScopeName).Int64Counter("things")
			if err != nil {
				t.Fatal(err)
			}
			counter.Add(t.Context(), 1)
		}
		families, err := process.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, family := range families {
			if family.GetName() != "things_total" {
				continue
			}
			for _, m := range family.GetMetric() {
				got = append(got, fmt.Sprintf("%s %v", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("with the name %q: got metrics %q, want %q", renamed, got, want)
		}
	}
}

// TestStatementsAreNotHeld makes sure that what is recorded on suspicion is what there are few of.
func TestStatementsAreNotHeld(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	for sampler, recorded := range map[string]string{"parentbased_always_on": "true true", "parentbased_traceidratio": "true false", "always_off": "false false"} {
		t.Setenv("OTEL_TRACES_SAMPLER", sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
		process, err := Start(t.Context(), Keeping(Keep{time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		s := process.Service("test")
		ctx, own := s.Tracer.Start(t.Context(), "search")
		_, statement := s.Statements.Tracer("database").Start(ctx, "SELECT")
		if got := fmt.Sprint(own.IsRecording(), statement.IsRecording()); got != recorded {
			t.Errorf("%s: recorded %s, want %s", sampler, got, recorded)
		}
	}
}
