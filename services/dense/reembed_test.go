package dense_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func models(f *storetest.Fixture) *dense.Models { return dense.NewModels(f.Store()) }

func small(t testing.TB) embed.Embedder {
	t.Helper()
	e, err := embed.NewFolded(128)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ignore(dense.Progress) {}

func reembed(t testing.TB, f *storetest.Fixture, e embed.Embedder) dense.Reembedded {
	t.Helper()
	done, err := models(f).Reembed(t.Context(), e, 0, ignore)
	if err != nil {
		t.Fatalf("reembed: %v", err)
	}
	return done
}

// watched is a model that notes the texts it has embedded, and may do something before.
type watched struct {
	embed.Embedder
	before func(texts []string) error
	mu     sync.Mutex
	texts  map[string]bool
}

func (w *watched) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	if w.before != nil {
		if err := w.before(texts); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.texts == nil {
		w.texts = map[string]bool{}
	}
	for _, text := range texts {
		w.texts[text] = true
	}
	return w.Embedder.EmbedDocuments(ctx, texts)
}

// process is a store with its worker, as a program of its own would run them.
type process struct {
	store    store
	embedder embed.Embedder
}

func startProcess(t *testing.T, f *storetest.Fixture, e embed.Embedder) process {
	t.Helper()
	p := process{mustOpen(t, f, e), e}
	ctx, cancel := context.WithCancel(context.Background())
	worker := queue.Worker{Index: "dense", Store: f.Queue, Indexer: p.store, Batch: 16, Log: storetest.Log()}
	ended := make(chan struct{})
	go func() { worker.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return p
}

// recall searches and checks that every score of a memory whose text is known is this process's model's and no other's.
func (p process) recall(ctx context.Context, query string, texts map[uuid.UUID]string) (leg.Result, error) {
	result, err := p.store.Search(ctx, leg.Query{Namespace: "ns", Text: query, Depth: 20, ReturnVector: true})
	if err != nil {
		return result, err
	}
	if len(result.Hits) == 0 {
		return result, errors.New("nothing found")
	}
	of := result.Vector
	if dimensions := p.embedder.Model().Dimensions; len(of) != dimensions {
		return result, fmt.Errorf("the query has %d dimensions, the model %d", len(of), dimensions)
	}
	for _, hit := range result.Hits {
		text, known := texts[hit.ID]
		if !known {
			continue
		}
		vectors, err := p.embedder.EmbedDocuments(ctx, []string{text})
		if err != nil {
			return result, err
		}
		var cosine float64
		for i, x := range vectors[0] {
			cosine += float64(x) * float64(of[i])
		}
		if math.Abs(cosine-hit.Score) > 2e-3 {
			return result, fmt.Errorf("a hit scores %v, the model says %v", hit.Score, cosine)
		}
	}
	return result, nil
}

func TestReembedUnderLoad(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		before := startProcess(t, f, embed.NewHashed())
		rng := rand.New(rand.NewPCG(5, 5))
		texts := map[uuid.UUID]string{} // of memories that never change
		var changing []uuid.UUID
		for i := range 400 {
			r := storetest.Record("ns", fmt.Sprintf("%s %d", sentence(rng, 6), i), nil)
			if i%4 == 0 {
				changing = append(changing, r.ID)
			} else {
				texts[r.ID] = r.Content
			}
			f.Insert(t, r)
		}
		awaitIndexed(t, before.store)

		// From here on somebody remembers, changes and recalls.
		stop := make(chan struct{})
		var load sync.WaitGroup
		stopLoad := sync.OnceFunc(func() { close(stop); load.Wait() })
		defer stopLoad()
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := f.Memory.Insert(context.Background(), []record.Record{storetest.Record("ns", fmt.Sprintf("a new report about tide number %d", i), nil)}); err != nil {
					t.Errorf("remember: %v", err)
					return
				}
				id := changing[i%len(changing)]
				if _, err := f.Memory.Update(context.Background(), "ns", id, 0, func(r *record.Record) error { r.Content = fmt.Sprintf("harbour version %d", i); return nil }); err != nil {
					t.Errorf("update: %v", err)
					return
				}
			}
		})
		var mu sync.Mutex
		recalls := map[triskelev1.LegState]int{}
		recalling := func(p process) {
			rng := rand.New(rand.NewPCG(6, 6))
			for {
				select {
				case <-stop:
					return
				default:
				}
				result, err := p.recall(context.Background(), sentence(rng, 4), texts)
				if err != nil {
					t.Errorf("recall: %v", err)
					return
				}
				mu.Lock()
				recalls[result.State]++
				mu.Unlock()
			}
		}
		load.Go(func() { recalling(before) })

		// The first attempt dies in its second batch.
		died := errors.New("killed")
		first := &watched{Embedder: small(t)}
		first.before = func([]string) error {
			if len(first.texts) > 0 {
				return died
			}
			return nil
		}
		if _, err := models(f).Reembed(t.Context(), first, 0, ignore); !errors.Is(err, died) {
			t.Fatalf("the first attempt: %v", err)
		}
		if got := list(t, f); got != "active 256, building 128" {
			t.Errorf("after the first attempt the models are %s", got)
		}
		if _, err := open(t, f, small(t)); err == nil || !strings.Contains(err.Error(), "triskele reembed") {
			t.Errorf("a process for a model that is not ready: %v", err)
		}

		second := &watched{Embedder: small(t)}
		done := reembed(t, f, second)
		if !done.Switched || done.Embedded < int64(len(texts)-len(first.texts)) {
			t.Errorf("%+v", done)
		}
		for text := range maps.Keys(first.texts) {
			if second.texts[text] {
				t.Errorf("%q was embedded twice", text)
			}
		}
		if got := list(t, f); got != "retired 256, active 128" {
			t.Errorf("after the switch the models are %s", got)
		}
		if _, err := open(t, f, embed.NewHashed()); err == nil {
			t.Error("a process for the model before was let in")
		}
		after := startProcess(t, f, small(t))
		load.Go(func() { recalling(after) })
		for deadline := time.Now().Add(time.Minute); ; { // both processes have answered
			mu.Lock()
			enough := recalls[triskelev1.LegState_LEG_STATE_FALLBACK] > 10 && recalls[triskelev1.LegState_LEG_STATE_UNSPECIFIED] > 10
			mu.Unlock()
			if enough || t.Failed() {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("recalls by state: %v", recalls)
			}
			time.Sleep(5 * time.Millisecond)
		}
		stopLoad()
		awaitIndexed(t, after.store)
		if done := reembed(t, f, small(t)); done.Switched || done.Embedded != 0 {
			t.Errorf("memories were left without a current vector: %+v", done)
		}
		result, err := before.recall(t.Context(), "harbour sensor", texts)
		if err != nil || result.State != triskelev1.LegState_LEG_STATE_FALLBACK || !strings.Contains(result.Reason, "(256 dimensions) has been replaced by builtin/hashed-ngrams-v1 (128 dimensions)") {
			t.Errorf("the process before says %v %q, %v", result.State, result.Reason, err)
		}
	})
}

// awaitIndexed waits until the index has no tasks.
func awaitIndexed(t testing.TB, s store) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		status, err := s.Status(t.Context(), "ns")
		if err != nil {
			t.Fatal(err)
		}
		if status.Pending == 0 && status.Dead == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the index is still behind: %+v", status)
		}
	}
}

// list describes the models by status and dimensions.
func list(t testing.TB, f *storetest.Fixture) string {
	t.Helper()
	all, err := models(f).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, m := range all {
		parts = append(parts, fmt.Sprintf("%s %d", m.Status, m.Model.Dimensions))
	}
	return strings.Join(parts, ", ")
}

// A switch between embedding and writing must not let vectors of the model before be written, nor lose the memory.
func TestSwitchDuringIndexing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		e := &watched{Embedder: embed.NewHashed()}
		s := mustOpen(t, f, e)
		f.Insert(t, storetest.Record("ns", "the cello lesson", nil))
		tasks := claim(t, f)
		e.before = func([]string) error { reembed(t, f, small(t)); return nil }
		if err := s.Index(t.Context(), []record.Record{tasks[0].Record}); !errors.Is(err, queue.ErrPaused) || !strings.Contains(err.Error(), "(128 dimensions)") {
			t.Errorf("indexing across a switch: %v", err)
		}
		e.before = func([]string) error { return errors.New("embedded for nothing") }
		if err := s.Index(t.Context(), []record.Record{tasks[0].Record}); !errors.Is(err, queue.ErrPaused) {
			t.Errorf("indexing after a switch: %v", err)
		}
		if n := vectors(t, f); n != 1 {
			t.Errorf("%d vectors are stored, want the new model's", n)
		}
	})
}

// What a worker of the model before has claimed is not done when it says so after the switch.
func TestSwitchEnqueuesAnew(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := mustOpen(t, f, embed.NewHashed())
		f.Insert(t, storetest.Record("ns", "the cello lesson", nil), storetest.Record("ns", "the backup", nil))
		tasks := claim(t, f)
		if err := s.Index(t.Context(), []record.Record{tasks[0].Record, tasks[1].Record}); err != nil {
			t.Fatal(err)
		}
		// One memory is missing in the new model when it becomes active, as if it had been written at that moment.
		if done := reembed(t, f, half{small(t)}); done.Queued != 1 {
			t.Errorf("%+v", done)
		}
		if err := f.Queue.Done(t.Context(), "dense", tasks); err != nil {
			t.Fatal(err)
		}
		again := claim(t, f)
		if len(again) != 1 || again[0].Record.Content != "the cello lesson" || again[0].Attempts != 0 {
			t.Fatalf("left to do: %+v", again)
		}
		if err := f.Queue.Done(t.Context(), "dense", again); err != nil {
			t.Fatal(err)
		}
		if left := claim(t, f); len(left) != 0 {
			t.Errorf("left in the end: %+v", left)
		}
	})
}

// half is a model that has nothing to say about cellos.
type half struct{ embed.Embedder }

func (h half) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := h.Embedder.EmbedDocuments(ctx, texts)
	for i, text := range texts {
		if strings.Contains(text, "cello") {
			clear(vectors[i])
		}
	}
	return vectors, err
}

func claim(t testing.TB, f *storetest.Fixture) []queue.Task {
	t.Helper()
	tasks, err := f.Queue.Claim(t.Context(), "dense", 100, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func TestWorkerOfARetiredModelGivesTasksBack(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		before := startProcess(t, f, embed.NewHashed())
		awaitIndexed(t, before.store)
		reembed(t, f, small(t))
		f.Insert(t, storetest.Record("ns", "the cello lesson", nil))
		last := int64(count(t, f, `SELECT max(sequence) FROM memory.memories`, `SELECT max(sequence) FROM memories`))
		if known, gaveUp, err := before.store.Knows(t.Context(), "ns", last); err != nil || known || !gaveUp {
			t.Errorf("with a task that no worker does: knows %v, gave up %v, %v; want no wait for it", known, gaveUp, err)
		}
		after := startProcess(t, f, small(t))
		awaitIndexed(t, after.store)
		if got := search(t, after.store, "cello", nil); len(got.Hits) != 1 {
			t.Errorf("found %v", got.Hits)
		}
		if got := search(t, before.store, "cello", nil); len(got.Hits) != 0 {
			t.Errorf("the retired model was given a vector: %v", got.Hits)
		}
		for model, x := range map[string]struct {
			process
			knows bool
		}{"retired": {before, false}, "active": {after, true}} {
			if known, gaveUp, err := x.store.Knows(t.Context(), "ns", 1); err != nil || known != x.knows || gaveUp == x.knows {
				t.Errorf("the %s model: knows %v, gave up %v, %v", model, known, gaveUp, err)
			}
		}
	})
}

// A release whose built-in model is new embeds a file's memories again by itself. On PostgreSQL, whose services may not, it names the command.
func TestSuccessorEmbedsAgain(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		builtin, err := static.Builtin()
		if err != nil {
			t.Fatal(err)
		}
		former := embed.NewHashed().Model()
		former.Name = "static-en-v1"
		f.Insert(t, storetest.Record("ns", "the cello lesson", nil))
		before := startProcess(t, f, modelled{embed.NewHashed(), former, &sync.Map{}})
		awaitIndexed(t, before.store)
		if _, err := open(t, f, small(t)); err == nil {
			t.Error("a model that succeeds none became active")
		}
		if f.Store().File == nil {
			if _, err := open(t, f, builtin); err == nil || !strings.Contains(err.Error(), "run `triskele reembed`") {
				t.Errorf("the error is %v", err)
			}
			reembed(t, f, builtin)
		}
		after := startProcess(t, f, builtin)
		awaitIndexed(t, after.store)
		for name, p := range map[string]process{"former": before, "new": after} {
			if got := search(t, p.store, "cello", nil); len(got.Hits) != 1 {
				t.Errorf("with the %s model: found %v", name, got.Hits)
			}
		}
	})
}

// prefixed is a model with prefixes.
func prefixed(e embed.Embedder, document, query string) *watched {
	m := e.Model()
	m.DocumentPrefix, m.QueryPrefix = document, query
	return &watched{Embedder: modelled{e, m, &sync.Map{}}}
}

// modelled gives itself out for a model and notes the queries.
type modelled struct {
	embed.Embedder
	model   embed.Model
	queries *sync.Map
}

func (m modelled) Model() embed.Model { return m.model }

func (m modelled) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	m.queries.Store(text, true)
	return m.Embedder.EmbedQuery(ctx, text)
}

func TestPrefixesBelongToTheModel(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := corpus{}
		c.add(t, f, mustOpen(t, f, embed.NewHashed()), "a", "the cello lesson", func(r *record.Record) { r.Title = "Thursday" })
		e := prefixed(embed.NewHashed(), "passage: ", "query: ")
		if _, err := open(t, f, e); err == nil || !strings.Contains(err.Error(), `(256 dimensions, prefixes "passage: " and "query: ")`) {
			t.Errorf("other prefixes: %v", err)
		}
		reembed(t, f, e)
		s := mustOpen(t, f, e)
		c.expect(t, search(t, s, "cello", nil), "a")
		if !e.texts["passage: Thursday\nThursday\nthe cello lesson"] || len(e.texts) != 1 {
			t.Errorf("embedded %q", slices.Collect(maps.Keys(e.texts)))
		}
		if _, ok := e.Embedder.(modelled).queries.Load("query: cello"); !ok {
			t.Error("the query was embedded without its prefix")
		}
	})
}

func TestCancelAndPrune(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		for i := range 200 {
			f.Insert(t, storetest.Record("other", fmt.Sprintf("report %d", i), nil))
		}
		f.Drain(t, "dense", s)
		c.add(t, f, s, "a", "the cello lesson", nil)
		if _, ok, err := models(f).Cancel(t.Context(), ignore); ok || err != nil {
			t.Errorf("nothing to cancel: %v, %v", ok, err)
		}

		// Cancelled by another process while it runs.
		e := &watched{Embedder: small(t)}
		e.before = func([]string) error {
			if len(e.texts) == 0 {
				return nil
			}
			third, err := embed.NewFolded(64)
			if err != nil {
				return err
			}
			if f.Engine == schema.SQLite { // on PostgreSQL a second one is turned away earlier
				if _, err := models(f).Reembed(t.Context(), third, 0, ignore); err == nil || !strings.Contains(err.Error(), "triskele models cancel") {
					t.Errorf("a second model: %v", err)
				}
			} else if _, err := models(f).Reembed(t.Context(), third, 0, ignore); err == nil || !strings.Contains(err.Error(), "another process") {
				t.Errorf("a second model: %v", err)
			}
			cancelled, ok, err := models(f).Cancel(t.Context(), ignore)
			if err != nil || !ok || cancelled.Model.Dimensions != 128 || cancelled.Vectors == 0 {
				t.Errorf("cancelled %+v, %v, %v", cancelled, ok, err)
			}
			return nil
		}
		if _, err := models(f).Reembed(t.Context(), e, 0, ignore); err == nil || err.Error() != "re-embedding has been cancelled" {
			t.Errorf("a cancelled reembed: %v", err)
		}
		if got := list(t, f); got != "active 256" || vectors(t, f) != 201 {
			t.Errorf("after the cancellation: %s, %d vectors", got, vectors(t, f))
		}

		reembed(t, f, small(t))
		c.expect(t, search(t, s, "cello", nil), "a")
		var last dense.Progress
		removed, err := models(f).Prune(t.Context(), func(p dense.Progress) { last = p })
		if err != nil || len(removed) != 1 || removed[0].Vectors != 201 || last.Done != 201 || last.Total != 201 {
			t.Errorf("removed %+v, %v; progress %+v", removed, err, last)
		}
		if got := list(t, f); got != "active 128" || vectors(t, f) != 201 {
			t.Errorf("after pruning: %s, %d vectors", got, vectors(t, f))
		}
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) { // noticed within a second
			_, err := s.Search(t.Context(), leg.Query{Namespace: "ns", Text: "cello", Depth: 1})
			if unable, ok := errors.AsType[*leg.UnableError](err); ok && strings.Contains(unable.Reason, "restart this process") {
				break
			}
			if err != nil || time.Since(begun) > time.Minute {
				t.Fatalf("searching with a removed model: %v", err)
			}
		}
		if removed, err := models(f).Prune(t.Context(), ignore); len(removed) != 0 || err != nil {
			t.Errorf("pruning again: %v, %v", removed, err)
		}
		c.expect(t, search(t, mustOpen(t, f, small(t)), "cello", nil), "a")
	})
}

// Going back to the model before embeds only what has changed since.
func TestGoingBack(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		for i := range 20 {
			c.add(t, f, s, fmt.Sprint(i), fmt.Sprintf("report number %d", i), nil)
		}
		reembed(t, f, small(t))
		if _, err := f.Memory.Update(t.Context(), "ns", c["7"].ID, 0, func(r *record.Record) error { r.Content = "the cello lesson"; return nil }); err != nil {
			t.Fatal(err)
		}
		if done := reembed(t, f, embed.NewHashed()); !done.Switched || done.Embedded != 1 {
			t.Errorf("%+v", done)
		}
		if got := list(t, f); got != "active 256, retired 128" {
			t.Errorf("models: %s", got)
		}
		if first := search(t, s, "the cello lesson", nil); first.Hits[0].ID != c["7"].ID || first.State != triskelev1.LegState_LEG_STATE_UNSPECIFIED {
			t.Errorf("the process that was never stopped: %v, first %v", first.State, first.Hits[0])
		}
	})
}

func TestReembedAtARate(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	s := mustOpen(t, f, embed.NewHashed())
	for i := range 60 {
		f.Insert(t, storetest.Record("ns", fmt.Sprintf("report %d", i), nil))
	}
	f.Drain(t, "dense", s)
	begun := time.Now()
	if _, err := models(f).Reembed(t.Context(), small(t), 100, ignore); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 600*time.Millisecond {
		t.Errorf("60 memories at 100 a second took %v", took)
	}
}

// TestReembedOutlastsIdleTransactionsPostgres: a server that ends idle transactions does not end the one that keeps other processes from
// re-embedding. It lasts as long as the work.
func TestReembedOutlastsIdleTransactionsPostgres(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	f.Insert(t, storetest.Record("ns", "soil", nil))
	if _, err := f.Pool.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = 1000', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	f.Pool.Reset()
	done := reembed(t, f, &watched{Embedder: small(t), before: func([]string) error {
		_, err := f.Pool.Exec(t.Context(), `SELECT pg_sleep(1.5)`)
		return err
	}})
	if !done.Switched || done.Embedded != 1 {
		t.Errorf("got %+v, want one memory embedded and the model switched", done)
	}
}
