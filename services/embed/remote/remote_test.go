package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/panics"
)

// recorded is a request as the server saw it.
type recorded struct {
	path, key string
	body      map[string]any
}

// server answers with what answer returns and keeps what it was asked.
func server(t *testing.T, answer http.HandlerFunc) (url string, requests func() []recorded) {
	t.Helper()
	var mu sync.Mutex
	var seen []recorded
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var body map[string]any
		if err == nil {
			err = json.Unmarshal(text, &body)
		}
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("a request that is not a POST of JSON: %v", err)
		}
		mu.Lock()
		seen = append(seen, recorded{r.URL.Path, r.Header.Get("Authorization"), body})
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(text))
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []recorded {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// write answers with status and body. It may fail to: the client hangs up on an answer that it has read enough of.
func write(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func newEmbedder(t *testing.T, config Config) *Embedder {
	t.Helper()
	if config.Model == "" {
		config.Model = "m"
	}
	if config.Dimensions == 0 {
		config.Dimensions = 2
	}
	e, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each provider's request and answer, as its documentation has them.
var contracts = []struct {
	name, path, query, documents, answer string
	config                               Config
}{
	{
		name: "openai", path: "/v1/embeddings", config: Config{Provider: "openai", Shorten: true},
		query:     `{"input":["hello"],"model":"m","encoding_format":"float","dimensions":2}`,
		documents: `{"input":["one","two"],"model":"m","encoding_format":"float","dimensions":2}`,
		answer:    `{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0,2]},{"object":"embedding","index":0,"embedding":[3,4]}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}`,
	},
	{
		name: "openai with the model's own dimensions", path: "/v1/embeddings", config: Config{Provider: "openai"},
		query:     `{"input":["hello"],"model":"m","encoding_format":"float"}`,
		documents: `{"input":["one","two"],"model":"m","encoding_format":"float"}`,
		answer:    `{"data":[{"index":0,"embedding":[3,4]},{"index":1,"embedding":[0,2]}]}`,
	},
	{
		name: "voyage", path: "/v1/embeddings", config: Config{Provider: "voyage", Shorten: true},
		query:     `{"input":["hello"],"model":"m","input_type":"query","truncation":true,"output_dimension":2}`,
		documents: `{"input":["one","two"],"model":"m","input_type":"document","truncation":true,"output_dimension":2}`,
		answer:    `{"object":"list","data":[{"object":"embedding","embedding":[3,4],"index":0},{"object":"embedding","embedding":[0,2],"index":1}],"model":"m","usage":{"total_tokens":5}}`,
	},
	{
		name: "cohere", path: "/v2/embed", config: Config{Provider: "cohere", Shorten: true},
		query:     `{"model":"m","texts":["hello"],"input_type":"search_query","embedding_types":["float"],"truncate":"END","output_dimension":2}`,
		documents: `{"model":"m","texts":["one","two"],"input_type":"search_document","embedding_types":["float"],"truncate":"END","output_dimension":2}`,
		answer:    `{"id":"x","embeddings":{"float":[[3,4],[0,2]]},"texts":["one","two"],"meta":{"api_version":{"version":"2"}}}`,
	},
	{
		name: "tei", path: "/embed", config: Config{Provider: "tei"},
		query:     `{"inputs":["hello"],"normalize":true,"truncate":true}`,
		documents: `{"inputs":["one","two"],"normalize":true,"truncate":true}`,
		answer:    `[[3,4],[0,2]]`,
	},
}

func TestContract(t *testing.T) {
	t.Parallel()
	for _, c := range contracts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, requests := server(t, write(200, c.answer))
			c.config.URL, c.config.Key, c.config.DocumentPrefix, c.config.QueryPrefix = url+"/", "secret", "d: ", "q: "
			e := newEmbedder(t, c.config)
			vectors, err := e.EmbedDocuments(t.Context(), []string{"one", "two"})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(vectors[0], []float32{0.6, 0.8}) || !slices.Equal(vectors[1], []float32{0, 1}) {
				t.Errorf("documents: %v, want them in order and of length 1", vectors)
			}
			// The answer has two vectors: one too many for a query, which is refused after it was asked.
			if _, err := e.EmbedQuery(t.Context(), "hello"); err == nil {
				t.Error("two vectors for one text are taken")
			}
			for i, want := range []string{c.documents, c.query} {
				var body map[string]any
				if err := json.Unmarshal([]byte(want), &body); err != nil {
					t.Fatal(err)
				}
				got := requests()[i]
				if fmt.Sprint(got.body) != fmt.Sprint(body) || got.path != c.path || got.key != "Bearer secret" {
					t.Errorf("request %d: %+v, want %v at %s", i, got, body, c.path)
				}
			}
			if m := e.Model(); m.Provider != c.config.Provider || m.Name != "m" || m.Dimensions != 2 || m.QueryPrefix != "q: " || m.DocumentPrefix != "d: " || !m.Local {
				t.Errorf("model %+v", m)
			}
		})
	}
}

// An answer that is not the vectors asked for is refused at once, and its text is in no error.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"not JSON":         `canary`,
		"cut off":          `[[1,2`,
		"empty":            ``,
		"wrong type":       `["canary"]`,
		"an object":        `{"error":"canary"}`,
		"NaN":              `[[NaN,1]]`,
		"null for NaN":     `[[null,1]]`,
		"infinite":         `[[1e39,1]]`,
		"beyond floats":    `[[1e999,1]]`,
		"squares too far":  `[[3e38,3e38]]`,
		"too few":          `[]`,
		"too many":         `[[1,2],[3,4]]`,
		"wrong dimensions": `[[1,2,3]]`,
		"no dimensions":    `[[]]`,
		"null vector":      `[null]`,
		"endless":          `[[` + strings.Repeat("1,", 1<<20) + `1]]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := server(t, write(200, answer))
			vector, err := newEmbedder(t, Config{Provider: "tei", URL: url}).EmbedQuery(t.Context(), "hello")
			if name == "squares too far" {
				if err != nil || math.Abs(float64(vector[0])-math.Sqrt(0.5)) > 1e-6 {
					t.Errorf("large components: %v, %v", vector, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("%.40q is taken for %v", answer, vector)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error repeats the answer: %v", err)
			}
			if n := len(requests()); n != 1 {
				t.Errorf("%d requests, want 1: asking again does not help", n)
			}
		})
	}
	for name, answer := range map[string]string{
		"index twice":        `{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`,
		"index out of range": `{"data":[{"index":0,"embedding":[1,2]},{"index":2,"embedding":[1,2]}]}`,
		"one missing":        `{"data":[{"index":0,"embedding":[1,2]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := server(t, write(200, answer))
			if _, err := newEmbedder(t, Config{Provider: "openai", URL: url}).EmbedDocuments(t.Context(), []string{"a", "b"}); err == nil {
				t.Error("taken")
			}
		})
	}
}

// sequence answers with one status after the other, and then with a vector.
func sequence(headers http.Header, statuses ...int) http.HandlerFunc {
	var at atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		if i := int(at.Add(1)) - 1; i < len(statuses) {
			for name, values := range headers {
				w.Header()[name] = values
			}
			w.WriteHeader(statuses[i])
			_, _ = io.WriteString(w, "canary")
			return
		}
		_, _ = io.WriteString(w, `[[3,4]]`)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int
		after    string
		requests int
		ok       bool
		least    time.Duration // of the first pause
		most     time.Duration
	}{
		"429":                   {statuses: []int{429}, requests: 2, ok: true, least: firstPause / 2, most: firstPause},
		"500 twice":             {statuses: []int{500, 503}, requests: 3, ok: true, least: firstPause / 2, most: firstPause},
		"500 too often":         {statuses: []int{500, 500, 500}, requests: 3, least: firstPause / 2, most: firstPause},
		"429 with seconds":      {statuses: []int{429}, after: "7", requests: 2, ok: true, least: 7 * time.Second, most: 7 * time.Second},
		"503 with a date":       {statuses: []int{503}, after: time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat), requests: 2, ok: true, least: 10 * time.Second, most: 20 * time.Second},
		"429 for an hour":       {statuses: []int{429}, after: "3600", requests: 1},
		"400":                   {statuses: []int{400}, requests: 1},
		"401":                   {statuses: []int{401}, requests: 1},
		"a redirect":            {statuses: []int{307}, requests: 1},
		"429 with nonsense":     {statuses: []int{429}, after: "soon", requests: 2, ok: true, least: firstPause / 2, most: firstPause},
		"429 with a past date":  {statuses: []int{429}, after: "Mon, 02 Jan 2006 15:04:05 GMT", requests: 2, ok: true, least: firstPause / 2, most: firstPause},
		"429 with minus a year": {statuses: []int{429}, after: "-31536000", requests: 2, ok: true, least: firstPause / 2, most: firstPause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := server(t, sequence(http.Header{"Retry-After": {c.after}, "Location": {"http://192.0.2.1/"}}, c.statuses...))
			e := newEmbedder(t, Config{Provider: "tei", URL: url})
			var pauses []time.Duration
			e.pause = func(_ context.Context, d time.Duration) error {
				pauses = append(pauses, d)
				return nil
			}
			_, err := e.EmbedQuery(t.Context(), "hello")
			if (err == nil) != c.ok || len(requests()) != c.requests || len(pauses) != c.requests-1 {
				t.Errorf("%v after %d requests and pauses %v", err, len(requests()), pauses)
			}
			if len(pauses) > 0 && (pauses[0] < c.least || pauses[0] > c.most) {
				t.Errorf("waited %v, want %v to %v", pauses[0], c.least, c.most)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error repeats the answer: %v", err)
			}
		})
	}
}

// A text that may not be sent any more when its turn comes again is not, and that says nothing about the server.
func TestWithdrawnBetweenAttempts(t *testing.T) {
	t.Parallel()
	var texts atomic.Int64
	answer := sequence(nil, 503)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && bytes.Contains(body, []byte("hello")) {
			texts.Add(1)
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	e := newEmbedder(t, Config{Provider: "tei", URL: s.URL})
	e.pause = func(context.Context, time.Duration) error { return nil }
	hidden := endpoint.WithCheck(t.Context(), func(context.Context) (bool, error) { return texts.Load() == 0, nil })
	for range 2 * tripAfter { // or the breaker would open
		if _, err := e.EmbedQuery(hidden, "hello"); !errors.Is(err, endpoint.ErrWithdrawn) || texts.Load() != 1 {
			t.Fatalf("%v after %d requests", err, texts.Load())
		}
	}
	if _, err := e.EmbedQuery(t.Context(), "hello"); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// A check that fails, as all do while the database is away, is repeated by nobody here and says nothing about the server.
func TestFailedChecks(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = io.WriteString(w, "[[3,4]]")
		}
	}))
	t.Cleanup(s.Close)
	e := newEmbedder(t, Config{Provider: "tei", URL: s.URL})
	checks := 0
	unknown := endpoint.WithCheck(t.Context(), func(context.Context) (bool, error) {
		checks++
		return false, errors.New("the database is away")
	})
	for range 2 * tripAfter {
		if _, err := e.EmbedQuery(unknown, "hello"); !errors.Is(err, endpoint.ErrUnchecked) {
			t.Fatalf("got %v, want ErrUnchecked", err)
		}
	}
	if checks != 2*tripAfter {
		t.Errorf("%d texts were checked %d times", 2*tripAfter, checks)
	}
	if _, err := e.EmbedQuery(t.Context(), "hello"); err != nil {
		t.Errorf("a text without a check: %v", err)
	}
}

// A pause that the deadline leaves no time for is not begun.
func TestNoPauseBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	url, requests := server(t, sequence(http.Header{"Retry-After": {"20"}}, 429))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if _, err := newEmbedder(t, Config{Provider: "tei", URL: url}).EmbedQuery(ctx, "hello"); err == nil || ctx.Err() != nil || len(requests()) != 1 {
		t.Errorf("%v, context %v, %d requests", err, ctx.Err(), len(requests()))
	}
}

// A server that does not answer, or not to the end, is left when the deadline comes, or the attempt's own timeout.
func TestSlow(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"half an answer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `[[3,`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := server(t, slow)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := newEmbedder(t, Config{Provider: "tei", URL: url}).EmbedQuery(ctx, "hello"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("deadline: %v", err)
			}
			e := newEmbedder(t, Config{Provider: "tei", URL: url, Timeout: 50 * time.Millisecond})
			tries := 1 // a request may not get to the server in that time
			e.pause = func(context.Context, time.Duration) error { tries++; return nil }
			if _, err := e.EmbedQuery(t.Context(), "hello"); !errors.Is(err, context.DeadlineExceeded) || tries != attempts {
				t.Errorf("timeout: %v after %d attempts", err, tries)
			}
		})
	}
}

// A connection that ends before or in the middle of an answer is a failure that is worth another attempt.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"before the answer": "", "in a length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[[3,", "in a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n[[3,"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var at atomic.Int64
			url, requests := server(t, func(w http.ResponseWriter, _ *http.Request) {
				if at.Add(1) > 1 {
					_, _ = io.WriteString(w, `[[3,4]]`)
					return
				}
				connection, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(connection, part)
				if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
					t.Error(err)
				}
				_, _ = io.Copy(io.Discard, connection) // until the client has enough of it
				_ = connection.Close()
			})
			e := newEmbedder(t, Config{Provider: "tei", URL: url})
			e.pause = func(context.Context, time.Duration) error { return nil }
			if vector, err := e.EmbedQuery(t.Context(), "hello"); err != nil || !slices.Equal(vector, []float32{0.6, 0.8}) || len(requests()) != 2 {
				t.Errorf("%v, %v after %d requests", vector, err, len(requests()))
			}
		})
	}
}

func TestCircuitBreaker(t *testing.T) {
	t.Parallel()
	url, requests := server(t, write(500, ""))
	e := newEmbedder(t, Config{Provider: "tei", URL: url})
	e.pause = func(context.Context, time.Duration) error { return nil }
	for range 4 {
		if _, err := e.EmbedQuery(t.Context(), "hello"); err == nil {
			t.Fatal("no error")
		}
	}
	if n := len(requests()); n != tripAfter {
		t.Errorf("%d requests reached a server that always fails, want %d", n, tripAfter)
	}
	if _, err := e.EmbedQuery(t.Context(), "hello"); !errors.Is(err, gobreaker.ErrOpenState) {
		t.Errorf("open breaker: %v", err)
	}
	// What was withdrawn before the server had its text does not keep it closed.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.WriteHeader(500)
		}
	}))
	t.Cleanup(s.Close)
	e = newEmbedder(t, Config{Provider: "tei", URL: s.URL})
	e.pause = func(context.Context, time.Duration) error { return nil }
	hidden := endpoint.WithCheck(t.Context(), func(context.Context) (bool, error) { return false, nil })
	for range tripAfter {
		_, _ = e.EmbedQuery(t.Context(), "hello")
		_, _ = e.EmbedQuery(hidden, "hello")
	}
	if _, err := e.EmbedQuery(t.Context(), "hello"); !errors.Is(err, gobreaker.ErrOpenState) {
		t.Errorf("failures among withdrawn requests: %v", err)
	}
	// What the request is to blame for does not open it.
	url, requests = server(t, write(400, ""))
	e = newEmbedder(t, Config{Provider: "tei", URL: url})
	for range 2 * tripAfter {
		_, _ = e.EmbedQuery(t.Context(), "hello")
	}
	if n := len(requests()); n != 2*tripAfter {
		t.Errorf("%d of %d requests reached a server that refuses them", n, 2*tripAfter)
	}
}

// echo answers with one vector per text, by which the text can be told.
func echo(w http.ResponseWriter, r *http.Request) {
	var body struct{ Inputs []string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	vectors := make([][]float64, len(body.Inputs))
	for i, text := range body.Inputs {
		angle := float64(len(text)) / 100
		vectors[i] = []float64{math.Cos(angle), math.Sin(angle)}
	}
	_ = json.NewEncoder(w).Encode(vectors)
}

func TestBatches(t *testing.T) {
	t.Parallel()
	var busy, most atomic.Int64
	url, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		n := busy.Add(1)
		defer busy.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		echo(w, r)
	})
	e := newEmbedder(t, Config{Provider: "tei", URL: url, Concurrency: 2})
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = strings.Repeat("x", i)
	}
	vectors, err := e.EmbedDocuments(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, vector := range vectors {
		if got := math.Atan2(float64(vector[1]), float64(vector[0])) * 100; math.Abs(got-float64(i)) > 0.01 {
			t.Errorf("vector %d belongs to text %v", i, got)
		}
	}
	if n := len(requests()); n != 4 {
		t.Errorf("%d requests for 100 texts at 32 each", n)
	}
	if n := most.Load(); n > 2 {
		t.Errorf("%d requests at a time, want at most 2", n)
	}
	// Few large texts are as many requests as their bytes ask for.
	for i := range texts[:6] {
		texts[i] = strings.Repeat("y", 400_000)
	}
	before := len(requests())
	if _, err := e.EmbedDocuments(t.Context(), texts[:6]); err != nil || len(requests())-before != 3 {
		t.Errorf("%v, %d requests for 6 texts of 400 kB at 1 MiB each", err, len(requests())-before)
	}
	if vectors, err := e.EmbedDocuments(t.Context(), nil); err != nil || len(vectors) != 0 || len(requests())-before != 3 {
		t.Errorf("no texts: %v, %v", vectors, err)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	url, requests := server(t, write(200, `{"data":[{"index":0,"embedding":[3,4]}]}`))
	e := newEmbedder(t, Config{Provider: "openai", URL: url, MaxText: 7})
	if _, err := e.EmbedQuery(t.Context(), "ééééééé"); err != nil {
		t.Fatal(err)
	}
	if got := requests()[0].body["input"].([]any)[0]; got != "ééé" {
		t.Errorf("sent %q", got)
	}
}

// Some texts have a token for each byte or two. If the server refuses them, they are sent once more, within its limit for sure.
func TestTooManyTokens(t *testing.T) {
	t.Parallel()
	limit := 8192
	url, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input []string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		for _, text := range body.Input {
			if len(text) > limit {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[3,4]},{"index":1,"embedding":[3,4]}]}`)
	})
	e := newEmbedder(t, Config{Provider: "openai", URL: url})
	texts := []string{"short", strings.Repeat("日", 4000)}
	if _, err := e.EmbedDocuments(t.Context(), texts); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	got := requests()
	if len(got) != 2 {
		t.Fatalf("got %d requests, want 2", len(got))
	}
	if input := got[1].body["input"].([]any); input[0] != "short" || input[1] != strings.Repeat("日", 2666) {
		t.Errorf("got %.20q and %d bytes, want 7998 bytes of the second text", input[0], len(fmt.Sprint(input[1])))
	}
	limit = 0
	if _, err := e.EmbedDocuments(t.Context(), texts); err == nil || len(requests()) != 4 {
		t.Errorf("a server that refuses everything: got %v after %d requests, want an error after 2", err, len(requests())-2)
	}
	if _, err := e.EmbedDocuments(t.Context(), texts[:1]); err == nil || len(requests()) != 5 {
		t.Errorf("a short text: got %v after %d requests, want an error after 1", err, len(requests())-4)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{
		"unknown provider":      {Provider: "x", Model: "m", Dimensions: 1},
		"no model":              {Provider: "openai", Dimensions: 1},
		"no dimensions":         {Provider: "openai", Model: "m"},
		"tei has no service":    {Provider: "tei", Model: "m", Dimensions: 1},
		"not a URL":             {Provider: "tei", Model: "m", Dimensions: 1, URL: "localhost:80"},
		"another scheme":        {Provider: "tei", Model: "m", Dimensions: 1, URL: "ftp://localhost"},
		"password in the URL":   {Provider: "tei", Model: "m", Dimensions: 1, URL: "http://u:p@localhost"},
		"key in the open":       {Provider: "tei", Model: "m", Dimensions: 1, URL: "http://192.0.2.1", Key: "k"},
		"batch over the limit":  {Provider: "cohere", Model: "m", Dimensions: 1, Batch: 97},
		"tei shortens nothing":  {Provider: "tei", Model: "m", Dimensions: 1, URL: "http://localhost", Shorten: true},
		"dimensions below zero": {Provider: "openai", Model: "m", Dimensions: -1},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for url, local := range map[string]bool{"http://127.0.0.1:1": true, "http://[::1]:1": true, "http://localhost": true, "https://example.org": false, "http://10.0.0.1": false} {
		if e := newEmbedder(t, Config{Provider: "tei", URL: url}); e.Model().Local != local {
			t.Errorf("%s: local is %v", url, !local)
		}
	}
}

// TestPanicIsTheBatchs: the batches of a list are embedded beside each other, and one that panics fails the list alone.
func TestPanicIsTheBatchs(t *testing.T) {
	e := newEmbedder(t, Config{Provider: "openai", URL: "http://127.0.0.1:1"})
	e.provider.request = func(Config, kind, []string) any { panic("secret") }
	_, err := e.EmbedDocuments(t.Context(), []string{"a text"})
	var caught *panics.Error
	if !errors.As(err, &caught) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want a panic without its value", err)
	}
}

// Callers with little time say nothing about the server: others still reach it.
func TestHurriedCallers(t *testing.T) {
	t.Parallel()
	var patient atomic.Bool
	url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if !patient.Load() {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `[[3,4]]`)
	})
	e := newEmbedder(t, Config{Provider: "tei", URL: url})
	for i := range 2 * tripAfter {
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 0 {
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		} else {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		if _, err := e.EmbedQuery(ctx, "hello"); !errors.Is(err, ctx.Err()) {
			t.Errorf("got %v, want %v", err, ctx.Err())
		}
		cancel()
	}
	if counts := e.breaker.Counts(); counts.TotalFailures+counts.TotalSuccesses > 0 {
		t.Errorf("the circuit breaker has counted %+v, want no call", counts)
	}
	patient.Store(true)
	if _, err := e.EmbedQuery(t.Context(), "hello"); err != nil {
		t.Errorf("a caller with time: got %v", err)
	}
}
