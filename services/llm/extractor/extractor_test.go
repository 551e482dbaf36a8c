package extractor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/llm/extractor"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

const (
	moved  = "Orsolya Varga moved to Kessel and works at Fenwright."
	built  = "The Kittiwake was built by Orsolya Varga."
	secret = "Orsolya Varga hides the key of the Kittiwake."
	again  = "Orsolya Varga moved to Brackwater."
	turned = "Varga Orsolya painted the Kittiwake 2."
)

// triple is a line of an answer.
type triple struct {
	Memory   int    `json:"memory"`
	Subject  string `json:"subject"`
	Relation string `json:"relation"`
	Object   string `json:"object"`
	Single   bool   `json:"single"`
}

// read is what the script finds in the texts it knows.
var read = map[string][]triple{
	moved: {{Subject: "Orsolya Varga", Relation: "lives in", Object: "Kessel", Single: true}, {Subject: "Orsolya Varga", Relation: "works at", Object: "Fenwright"}},
	built: {{Subject: "Kittiwake", Relation: "built by", Object: "Orsolya Varga"}},
	// What a memory does not say, and what is no triple, is left out.
	"Teo repairs boats.": {{Subject: "Teo", Relation: "repairs", Object: "boat"}, {Subject: "Teo", Relation: "married to", Object: "Maren"}, {Subject: "Teo", Object: "boat"}},
	again:                {{Subject: "Orsolya Varga", Relation: "lives in", Object: "Brackwater", Single: true}},
	turned:               {{Subject: "Varga Orsolya", Relation: "painted", Object: "Kittiwake 2"}},
}

// server is a chat model that follows a script and remembers what it was asked.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string
	before func(http.ResponseWriter, *http.Request) (done bool)
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request struct {
			Messages       []struct{ Content string }
			ResponseFormat struct {
				Type       string
				JSONSchema struct{ Strict bool } `json:"json_schema"`
			} `json:"response_format"`
		}
		var question struct {
			Memories []struct{ Title, Text string }
		}
		if err := errors.Join(err, json.Unmarshal(body, &request)); err != nil {
			t.Errorf("request: %v", err)
			return
		}
		if f := request.ResponseFormat; f.Type != "json_schema" || !f.JSONSchema.Strict {
			t.Errorf("format %+v", f)
		}
		if err := json.Unmarshal([]byte(request.Messages[1].Content), &question); err != nil {
			t.Errorf("question: %v", err)
		}
		s.mu.Lock()
		s.asked = append(s.asked, string(body))
		before := s.before
		s.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		found := []triple{}
		for i, m := range question.Memories {
			for _, x := range read[m.Text] {
				x.Memory = i + 1
				found = append(found, x)
			}
		}
		answer, err := json.Marshal(map[string]any{"triples": found})
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, completion(string(answer)))
	}))
	t.Cleanup(s.Close)
	return s
}

// completion is a response whose model said a text, for 100 tokens.
func completion(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"choices": [{"message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}], "usage": {"total_tokens": 100}}`, quoted)
}

// requests returns the bodies so far.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *server) set(before func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

func open(t *testing.T, f *storetest.Fixture) *graph.Leg {
	t.Helper()
	config := graph.Config{}
	var err error
	if config.Embedder, err = static.Builtin(); err != nil {
		t.Fatal(err)
	}
	return graph.New(f.Store(), f.Images(t), f.Queue, config)
}

func newExtractor(t *testing.T, store *graph.Leg, config extractor.Config) *extractor.Extractor {
	t.Helper()
	config.Model, config.PerMinute = "scripted", 60_000
	e, err := extractor.New(config, store, storetest.Telemetry(t), storetest.Log())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// facts returns the triples of a namespace's graph, in words.
func facts(t *testing.T, g *graph.Leg, namespace string) []string {
	t.Helper()
	v, err := g.View(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	out := []string{}
	for _, s := range v.Triples() {
		line := s.Subject + ", " + s.Relation + ", " + s.Object
		if !s.To.IsZero() {
			line += ", ended"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func expect(t *testing.T, g *graph.Leg, namespace string, want ...string) {
	t.Helper()
	if got := facts(t, g, namespace); !slices.Equal(got, want) {
		t.Errorf("facts of %s:\n got %q\nwant %q", namespace, got, want)
	}
}

// stored stores memories and has the graph's own index take them in.
func stored(t *testing.T, f *storetest.Fixture, g *graph.Leg, namespace string, texts ...string) []record.Record {
	t.Helper()
	var out []record.Record
	for _, text := range texts {
		out = append(out, storetest.Record(namespace, text, nil))
	}
	f.Insert(t, out...)
	if err := g.Index(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func edited(t *testing.T, f *storetest.Fixture, g *graph.Leg, r record.Record, edit func(*record.Record)) record.Record {
	t.Helper()
	changed, err := f.Memory.Update(t.Context(), r.Namespace, r.ID, 0, func(r *record.Record) error { edit(r); return nil })
	if err == nil {
		err = g.Index(t.Context(), []record.Record{changed})
	}
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestReadOnce(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, g := newServer(t), open(t, f)
		e := newExtractor(t, g, extractor.Config{URL: s.URL})
		records := stored(t, f, g, "n", moved, built, "Teo repairs boats.")
		for range 2 {
			if err := e.Index(t.Context(), records); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"Kittiwake, built by, Orsolya Varga", "Orsolya Varga, lives in, Kessel", "Orsolya Varga, works at, Fenwright", "Teo, repairs, boat"}
		expect(t, g, "n", want...)
		if n := len(s.requests()); n != 1 {
			t.Errorf("%d requests, want one for all three", n)
		}
		if x, err := g.Extracted(t.Context(), "n"); err != nil || x.Memories != 3 || x.Tokens != 99 {
			t.Errorf("read %+v, %v", x, err)
		}

		// Another revision of the same text is not read again, and keeps its facts.
		records[0] = edited(t, f, g, records[0], func(r *record.Record) { r.Tags = []string{"people"} })
		if err := e.Index(t.Context(), records[:1]); err != nil {
			t.Fatal(err)
		}
		expect(t, g, "n", want...)
		if n := len(s.requests()); n != 1 {
			t.Errorf("%d requests after an edit of the tags", n)
		}
		// Facts of a text that is no more go with it, before anybody has read the new one.
		records[0] = edited(t, f, g, records[0], func(r *record.Record) { r.Content = built })
		expect(t, g, "n", "Kittiwake, built by, Orsolya Varga", "Teo, repairs, boat")
		if err := e.Index(t.Context(), records[:1]); err != nil {
			t.Fatal(err)
		}
		expect(t, g, "n", "Kittiwake, built by, Orsolya Varga", "Kittiwake, built by, Orsolya Varga", "Teo, repairs, boat")
		for _, r := range records {
			if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{r.ID}); err != nil {
				t.Fatal(err)
			}
		}
		for _, text := range []string{"Kessel", "works at", "repairs"} {
			if tables := f.Holding(t, text); len(tables) != 0 {
				t.Errorf("%q is left in %q", text, tables)
			}
		}
	})
}

// TestNewerReplaces: what a model calls single is replaced by what it reads in a newer memory.
func TestNewerReplaces(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, g := newServer(t), open(t, f)
		e := newExtractor(t, g, extractor.Config{URL: s.URL})
		records := stored(t, f, g, "n", moved, again)
		if err := e.Index(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		expect(t, g, "n", "Orsolya Varga, lives in, Brackwater", "Orsolya Varga, lives in, Kessel, ended", "Orsolya Varga, works at, Fenwright")
	})
}

func TestNamespacesAreNotMixed(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, g := newServer(t), open(t, f)
		e := newExtractor(t, g, extractor.Config{URL: s.URL, MaxInput: len(moved) + len(built)})
		records := append(stored(t, f, g, "n", moved, built, "Teo repairs boats."), stored(t, f, g, "o", built)...)
		if err := e.Index(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		requests := s.requests()
		if len(requests) != 3 || strings.Contains(requests[0], "Teo") || !strings.Contains(requests[1], "Teo") || strings.Contains(requests[2], "Teo") {
			t.Errorf("%d requests: %q", len(requests), requests)
		}
		expect(t, g, "o", "Kittiwake, built by, Orsolya Varga")
	})
}

func TestSensitiveIsNeitherSentNorKept(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, g := newServer(t), open(t, f)
		e := newExtractor(t, g, extractor.Config{URL: s.URL})
		private := storetest.Record("n", secret, func(r *record.Record) { r.Sensitive = true })
		f.Insert(t, private)
		flips := stored(t, f, g, "n", moved)[0]
		forged := private
		forged.Sensitive = false // as it was when the queue gave it out
		if err := e.Index(t.Context(), []record.Record{private, forged}); err != nil {
			t.Fatal(err)
		}
		if n := len(s.requests()); n != 0 {
			t.Fatalf("%d requests about sensitive memories", n)
		}
		s.set(func(http.ResponseWriter, *http.Request) bool {
			if _, err := f.Memory.Update(t.Context(), "n", flips.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
				t.Error(err)
			}
			return false
		})
		if err := e.Index(t.Context(), []record.Record{flips}); err != nil {
			t.Fatal(err)
		}
		expect(t, g, "n")
		if x, err := g.Extracted(t.Context(), "n"); err != nil || x.Memories != 0 {
			t.Errorf("%+v was read, %v", x, err)
		}
		again := stored(t, f, g, "n", built)[0]
		s.set(nil)
		if err := e.Index(t.Context(), []record.Record{again}); err != nil {
			t.Fatal(err)
		}
		expect(t, g, "n", "Kittiwake, built by, Orsolya Varga")
		if _, err := f.Memory.Update(t.Context(), "n", again.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
			t.Fatal(err)
		}
		expect(t, g, "n")
		if x, err := g.Extracted(t.Context(), "n"); err != nil || x.Memories != 0 {
			t.Errorf("%+v was read, %v", x, err)
		}
	})
}

// TestWhatGoesWrong has the server fail in some way and then answer: nothing is stored by halves, and the errors quote
// nothing.
func TestWhatGoesWrong(t *testing.T) {
	says := func(code int, text string, header ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			if len(header) == 2 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
			return true
		}
	}
	f := storetest.SQLite(t)
	g := open(t, f)
	for name, x := range map[string]struct {
		fail func(http.ResponseWriter, *http.Request) bool
		want error // that it is, if any
	}{
		"no JSON":           {says(200, "I am a teapot, Kessel"), queue.ErrHopeless},
		"malformed answer":  {says(200, completion(`{"triples": [{"memory": 1, "subject": "Kessel`)), queue.ErrHopeless},
		"another object":    {says(200, completion(`{"facts": []}`)), queue.ErrHopeless},
		"an unknown memory": {says(200, completion(`{"triples": [{"memory": 2, "subject": "Kessel", "relation": "is", "object": "Fenwright"}]}`)), queue.ErrHopeless},
		"declined":          {says(200, `{"choices": [{"message": {"role": "assistant", "refusal": "not about Kessel"}, "finish_reason": "stop"}]}`), queue.ErrHopeless},
		"cut short":         {says(200, `{"choices": [{"message": {"content": "{"}, "finish_reason": "length"}]}`), queue.ErrHopeless},
		"too many requests": {says(429, "Kessel", "Retry-After", "0"), nil},
		"broken":            {says(500, "Kessel"), nil},
		"slow":              {func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, nil},
		"connection broken": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := strings.ReplaceAll(strings.ToLower(name), " ", "-")
			s := newServer(t)
			config := extractor.Config{URL: s.URL}
			if name == "slow" {
				config.Timeout = 50 * time.Millisecond
			}
			e := newExtractor(t, g, config)
			records := stored(t, f, g, namespace, moved)
			s.set(x.fail)
			err := e.Index(t.Context(), records)
			if err == nil || x.want != nil && !errors.Is(err, x.want) || x.want == nil && errors.Is(err, queue.ErrHopeless) || strings.Contains(err.Error(), "Kessel") {
				t.Errorf("error %v", err)
			}
			expect(t, g, namespace)
			s.set(nil)
			if err := newExtractor(t, g, extractor.Config{URL: s.URL}).Index(t.Context(), records); err != nil {
				t.Fatal(err)
			}
			expect(t, g, namespace, "Orsolya Varga, lives in, Kessel", "Orsolya Varga, works at, Fenwright")
		})
	}
	t.Run("dead", func(t *testing.T) {
		s := newServer(t)
		s.Close()
		if err := newExtractor(t, g, extractor.Config{URL: s.URL}).Index(t.Context(), stored(t, f, g, "dead", moved)); err == nil || !strings.Contains(err.Error(), "refuses connections") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("asked to wait", func(t *testing.T) {
		s := newServer(t)
		e := newExtractor(t, g, extractor.Config{URL: s.URL})
		records := stored(t, f, g, "waiting", moved)
		s.set(says(429, "", "Retry-After", "600"))
		if err := e.Index(t.Context(), records); err == nil {
			t.Error("no error")
		}
		if err := e.Index(t.Context(), records); !errors.Is(err, queue.ErrPaused) || len(s.requests()) != 1 {
			t.Errorf("%v after %d requests", err, len(s.requests()))
		}
	})
}

func TestBudget(t *testing.T) {
	f := storetest.SQLite(t)
	s, g := newServer(t), open(t, f)
	e := newExtractor(t, g, extractor.Config{URL: s.URL, TokensPerHour: 150, MaxInput: len(moved)})
	records := stored(t, f, g, "n", moved, built, "Teo repairs boats.")
	if err := e.Index(t.Context(), records); !errors.Is(err, queue.ErrPaused) {
		t.Fatalf("error %v", err)
	}
	if n := len(s.requests()); n != 2 { // of 100 tokens each
		t.Errorf("%d requests", n)
	}
	expect(t, g, "n", "Kittiwake, built by, Orsolya Varga", "Orsolya Varga, lives in, Kessel", "Orsolya Varga, works at, Fenwright")
}

// TestNamesAreResolved: a name that is a concept's in other words becomes that concept, with the other name beside it.
func TestNamesAreResolved(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, g := newServer(t), open(t, f)
		e := newExtractor(t, g, extractor.Config{URL: s.URL})
		known := []record.Record{
			storetest.Record("n", "She builds boats.", func(r *record.Record) { r.Title = "Orsolya Varga" }),
			storetest.Record("n", "A boat.", func(r *record.Record) { r.Title = "Kittiwake" }),
		}
		f.Insert(t, known...)
		if err := g.Index(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		r := storetest.Record("n", turned, nil)
		f.Insert(t, r) // the graph has not read its names yet
		if err := e.Index(t.Context(), []record.Record{r}); err != nil {
			t.Fatal(err)
		}
		expect(t, g, "n", "Orsolya Varga, painted, Kittiwake 2", "Varga Orsolya, alias of, Orsolya Varga")
	})
}

// TestQueue: only what is switched on is enqueued, and what was there before on demand.
func TestQueue(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		g := open(t, f)
		waiting := func() int64 {
			t.Helper()
			st, err := f.Queue.Status(t.Context(), graph.ExtractionQueue, "n")
			if err != nil {
				t.Fatal(err)
			}
			return st.Pending
		}
		before := stored(t, f, g, "n", moved)[0]
		f.Insert(t, storetest.Record("n", secret, func(r *record.Record) { r.Sensitive = true }))
		if on, err := g.Extraction(t.Context()); on || err != nil || waiting() != 0 {
			t.Fatalf("on %v, %v, %d waiting", on, err, waiting())
		}
		for range 2 {
			if err := g.SetExtraction(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		stored(t, f, g, "n", built)
		if n := waiting(); n != 1 {
			t.Errorf("%d waiting, want the new one", n)
		}
		for _, want := range []int64{1, 0} {
			if n, err := g.EnqueueExtraction(t.Context(), "n"); err != nil || n != want {
				t.Errorf("%d enqueued, want %d; %v", n, want, err)
			}
		}
		f.Drain(t, graph.ExtractionQueue, newExtractor(t, g, extractor.Config{URL: newServer(t).URL}))
		if ids, err := g.Unread(t.Context(), "n", []record.Record{before}); err != nil || len(ids) != 0 {
			t.Errorf("unread %v, %v", ids, err)
		}
		if ids, err := g.Unread(t.Context(), "other", []record.Record{before}); err != nil || slices.Contains(ids, before.ID) || slices.Contains(ids, uuid.Nil) {
			t.Errorf("unread in another namespace %v, %v", ids, err)
		}
		stored(t, f, g, "n", "Teo repairs boats.")
		if err := g.SetExtraction(t.Context(), false); err != nil || waiting() != 0 {
			t.Errorf("%v, %d waiting after it was switched off", err, waiting())
		}
		if on, err := g.Extraction(t.Context()); on || err != nil {
			t.Errorf("on %v, %v", on, err)
		}
	})
}

func TestConfig(t *testing.T) {
	good := extractor.Config{URL: "http://127.0.0.1:1/v1", Model: "m"}
	for name, x := range map[string]struct {
		change func(*extractor.Config)
		want   string // in the error
	}{
		"defaults": {func(*extractor.Config) {}, ""},
		"no web":   {func(c *extractor.Config) { c.URL = "file:///etc" }, "must be a URL"},
		"no model": {func(c *extractor.Config) { c.Model = "" }, "no name"},
		"batch":    {func(c *extractor.Config) { c.Batch = 65 }, "1 to 64 memories"},
		"input":    {func(c *extractor.Config) { c.MaxInput = -1 }, "1 byte or more"},
		"tokens":   {func(c *extractor.Config) { c.TokensPerHour = -1 }, "1 token an hour"},
		"rate":     {func(c *extractor.Config) { c.PerMinute = -1 }, "requests a minute"},
	} {
		config := good
		x.change(&config)
		_, err := extractor.New(config, nil, storetest.Telemetry(t), storetest.Log())
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}
