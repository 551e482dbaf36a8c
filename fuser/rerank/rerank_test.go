package rerank_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/rerank"
	"github.com/triskele/triskele/fuser/transformer/modeltest"
)

// asked is a request as the server saw it.
type asked struct {
	path, key string
	body      map[string]any
}

// serve answers one request, and returns the server's address and what it was asked.
func serve(t *testing.T, answer http.HandlerFunc) (url string, seen *asked) {
	t.Helper()
	seen = &asked{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &seen.body)
		}
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("a request that is not a POST of JSON: %v", err)
		}
		seen.path, seen.key = r.URL.Path, r.Header.Get("Authorization")
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func open(t *testing.T, provider, url string) *rerank.Client {
	t.Helper()
	client, err := rerank.New(rerank.Config{Provider: provider, URL: url, Model: "m", Key: "secret-key", MaxText: 20})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestShapes asks each kind of server for the scores of three texts, and reads an answer as such a server writes it.
func TestShapes(t *testing.T) {
	t.Parallel()
	texts := []string{"first", "second", "a third that is long, and cut"}
	list := []any{"first", "second", "a third that is long"}
	for provider, x := range map[string]struct {
		path, answer string
		body         map[string]any
	}{
		"cohere": {
			"/v2/rerank",
			`{"id":"07734bd2","results":[{"index":2,"relevance_score":0.999071},{"index":0,"relevance_score":0.7867867},{"index":1,"relevance_score":0.32713068}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}`,
			map[string]any{"model": "m", "query": "q", "documents": list, "top_n": 3.},
		},
		"jina": {
			"/v1/rerank",
			`{"model":"m","object":"list","usage":{"total_tokens":815},"results":[{"index":2,"document":{"text":"a third that is long"},"relevance_score":0.999071},{"index":0,"relevance_score":0.7867867},{"index":1,"relevance_score":0.32713068}]}`,
			map[string]any{"model": "m", "query": "q", "documents": list, "top_n": 3., "return_documents": false},
		},
		"voyage": {
			"/v1/rerank",
			`{"object":"list","data":[{"relevance_score":0.999071,"index":2},{"relevance_score":0.7867867,"index":0},{"relevance_score":0.32713068,"index":1}],"model":"m","usage":{"total_tokens":26}}`,
			map[string]any{"model": "m", "query": "q", "documents": list, "top_k": 3., "truncation": true},
		},
		"tei": {
			"/rerank",
			`[{"index":2,"score":0.999071},{"index":0,"score":0.7867867},{"index":1,"score":0.32713068}]`,
			map[string]any{"query": "q", "texts": list, "truncate": true},
		},
	} {
		url, seen := serve(t, says(x.answer))
		scores, err := open(t, provider, url).Rerank(t.Context(), "q", texts)
		if err != nil || !slices.Equal(scores, []float64{.7867867, .32713068, .999071}) {
			t.Errorf("%s: %v, %v", provider, scores, err)
		}
		if want := (asked{x.path, "Bearer secret-key", x.body}); !reflect.DeepEqual(*seen, want) {
			t.Errorf("%s was asked %+v, want %+v", provider, *seen, want)
		}
	}
	// Scores of llama.cpp are not between 0 and 1.
	url, _ := serve(t, says(`{"results":[{"index":0,"relevance_score":-7.5},{"index":1,"relevance_score":3}]}`))
	if scores, err := open(t, "jina", url).Rerank(t.Context(), "q", texts[:2]); err != nil || !slices.Equal(scores, []float64{-7.5, 3}) {
		t.Errorf("logits: %v, %v", scores, err)
	}
}

// TestAnswersThatAreNoOrder: each is an error in the package's own words, never what the server said.
func TestAnswersThatAreNoOrder(t *testing.T) {
	t.Parallel()
	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	for name, x := range map[string]struct {
		answer  http.HandlerFunc
		want    string
		refused bool
	}{
		"index out of range":   {answer: says(`[{"index":0,"score":1},{"index":2,"score":2}]`), want: "malformed answer: a score for a text that was not sent"},
		"index below zero":     {answer: says(`[{"index":0,"score":1},{"index":-1,"score":2}]`), want: "malformed answer: a score for a text that was not sent"},
		"no index":             {answer: says(`[{"index":0,"score":1},{"score":2}]`), want: "malformed answer: a score for a text that was not sent"},
		"the same twice":       {answer: says(`[{"index":0,"score":1},{"index":0,"score":2}]`), want: "malformed answer: two scores for one text"},
		"no score":             {answer: says(`[{"index":0,"score":1},{"index":1}]`), want: "malformed answer: a text without a score"},
		"null":                 {answer: says(`[{"index":0,"score":1},{"index":1,"score":null}]`), want: "malformed answer: a text without a score"},
		"not a number":         {answer: says(`[{"index":0,"score":1},{"index":1,"score":NaN}]`), want: "malformed answer: not the provider's wire format"},
		"beyond all numbers":   {answer: says(`[{"index":0,"score":1},{"index":1,"score":1e999}]`), want: "malformed answer: not the provider's wire format"},
		"one is missing":       {answer: says(`[{"index":0,"score":1}]`), want: "malformed answer: 1 scores for 2 texts"},
		"one too many":         {answer: says(`[{"index":0,"score":1},{"index":1,"score":1},{"index":1,"score":1}]`), want: "malformed answer: 3 scores for 2 texts"},
		"another form":         {answer: says(`{"results":[]}`), want: "malformed answer: not the provider's wire format"},
		"no JSON":              {answer: says(`echo: the text that was sent`), want: "malformed answer: not the provider's wire format"},
		"nothing":              {answer: says(``), want: "malformed answer: not the provider's wire format"},
		"a huge body":          {answer: says(`[` + strings.Repeat(" ", 2<<20)), want: "malformed answer: more than 1048"},
		"overloaded":           {answer: status(503, "echo: the text that was sent"), want: "failed with HTTP status 503"},
		"too many requests":    {answer: status(429, ""), want: "failed with HTTP status 429"},
		"wrong key":            {answer: status(401, "echo: secret-key"), want: "failed with HTTP status 401"},
		"a request it refuses": {answer: status(422, "echo: the text that was sent"), want: "refused the request: HTTP status 422", refused: true},
		"elsewhere": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusTemporaryRedirect)
		}, want: "failed with HTTP status 307"},
		"cut off": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "[")
		}, want: "cannot be reached"},
	} {
		url, _ := serve(t, x.answer)
		scores, err := open(t, "tei", url).Rerank(t.Context(), "q", []string{"the text that was sent", "b"})
		if err == nil || !strings.HasPrefix(err.Error(), x.want) || strings.Contains(err.Error(), "echo") || scores != nil {
			t.Errorf("%s: %v, %v; want %s", name, scores, err, x.want)
		}
		if errors.Is(err, gateway.ErrRefused) != x.refused {
			t.Errorf("%s: refused %v", name, !x.refused)
		}
	}
	url, _ := serve(t, says(""))
	client := open(t, "tei", url)
	gone := httptest.NewServer(nil)
	gone.Close()
	if _, err := open(t, "tei", gone.URL).Rerank(t.Context(), "q", []string{"a", "b"}); err == nil || err.Error() != "cannot be reached" {
		t.Errorf("a server that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Rerank(ctx, "q", []string{"a", "b"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A server that says nothing, or never ends, is left at the deadline.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drips": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
			}
		},
	} {
		url, _ := serve(t, answer)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := open(t, "tei", url).Rerank(ctx, "q", []string{"a", "b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("canary-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tiny := modeltest.Tiny(t)
	variables := map[string]string{"VOYAGE_API_KEY": "canary-variable"}
	for _, x := range []struct {
		flags rerank.Flags
		model string // "" for an error
	}{
		{rerank.Flags{Server: "cohere:rerank-v3.5", KeyFile: file}, "cohere/rerank-v3.5"},
		{rerank.Flags{Server: "cohere:rerank-v3.5"}, ""},
		{rerank.Flags{Server: "jina:http://127.0.0.1:8012#bge-reranker"}, "jina/bge-reranker"},
		{rerank.Flags{Server: "tei:http://127.0.0.1:8080"}, "tei"},
		{rerank.Flags{Server: "voyage:https://example.org#rerank-2.5"}, "voyage/rerank-2.5"},
		// With a key, plain HTTP to another host is refused: that shows whether there was one.
		{rerank.Flags{Server: "tei:http://192.0.2.1"}, "tei"},
		{rerank.Flags{Server: "tei:http://192.0.2.1", KeyFile: file}, ""},
		{rerank.Flags{Server: "voyage:http://192.0.2.1#m"}, ""},
		{rerank.Flags{Server: "tei:http://127.0.0.1", KeyFile: file + ".absent"}, ""},
		{rerank.Flags{Server: "tei:"}, ""},
		{rerank.Flags{Server: "jina:http://127.0.0.1#"}, ""},
		{rerank.Flags{Server: "voyage:http://127.0.0.1"}, ""}, // else Voyage would get the texts, with the key for it
		{rerank.Flags{Server: "cohere"}, ""},
		{rerank.Flags{Server: "tei:http://user:canary@127.0.0.1"}, ""},
		{rerank.Flags{Server: "voyage://canary:1"}, ""},
		{rerank.Flags{Server: "psychic:m"}, ""},
		{rerank.Flags{Server: "psychic:http://x"}, ""},
		{rerank.Flags{Server: "builtin"}, "builtin/cross-en-v1"},
		{rerank.Flags{Server: "transformer:" + tiny}, "transformer/tiny"},
		{rerank.Flags{Server: "transformer:" + filepath.Dir(tiny)}, ""},
		{rerank.Flags{Server: "transformer:" + tiny + ".absent"}, ""},
		{rerank.Flags{Server: "transformer:"}, ""},
	} {
		x.flags.MaxText, x.flags.Top, x.flags.Limit, x.flags.Min = 100, 30, 8, time.Millisecond
		config, err := x.flags.Open(func(name string) string { return variables[name] })
		if (err == nil) != (x.model != "") || config.Model != x.model {
			t.Errorf("%+v: %+v, %v", x.flags, config, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("the error shows the key: %v", err)
		}
		if x.flags.Server == "cohere:rerank-v3.5" && err != nil && !strings.Contains(err.Error(), "CO_API_KEY") {
			t.Errorf("no key: %v", err)
		}
		if strings.HasPrefix(x.flags.Server, "psychic:") && !strings.Contains(err.Error(), "must be builtin, none, transformer, cohere,") {
			t.Errorf("an unknown kind: %v", err)
		}
		if inside := strings.HasPrefix(config.Model, "builtin/"); config.Local != (inside || strings.HasPrefix(config.Model, "transformer/")) || config.Answers != inside {
			t.Errorf("%+v: local is %v, answers is %v", x.flags, config.Local, config.Answers)
		}
		if want := (budget.Leg{Min: time.Millisecond, Share: 1}); err == nil && (config.Budget != want || config.Top != 30 || config.Limit != 8) {
			t.Errorf("%+v: %+v", x.flags, config)
		}
	}
	for _, server := range []string{"", "none"} {
		if config, err := (rerank.Flags{Server: server}).Open(os.Getenv); err != nil || config.Reranker != nil {
			t.Errorf("%q: %+v, %v", server, config, err)
		}
	}
	if _, err := (rerank.Flags{Server: "builtin"}).Open(os.Getenv); err == nil {
		t.Error("a reranker may read no byte of a text")
	}
}

// TestDefault: programs without flags have what the flags default to.
func TestDefault(t *testing.T) {
	t.Parallel()
	var flags rerank.Flags
	parser, err := kong.New(&flags)
	if err == nil {
		_, err = parser.Parse(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := flags.Open(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	got := rerank.Default()
	want.Reranker, got.Reranker = nil, nil
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLocal reads the pairs whose scores another program has written beside the model. Longer texts are cut.
func TestLocal(t *testing.T) {
	t.Parallel()
	folder := modeltest.Tiny(t)
	var oracle struct {
		Pairs []struct {
			Query, Text string
			Limit       int // the model's positions are the most
			Score       float64
		}
	}
	const positions = 40
	file, err := os.ReadFile(filepath.Join(folder, "oracle.json"))
	if err == nil {
		err = json.Unmarshal(file, &oracle)
	}
	if err != nil || len(oracle.Pairs) == 0 {
		t.Fatalf("%d pairs, %v", len(oracle.Pairs), err)
	}
	model, err := rerank.Load(folder, 8192)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range oracle.Pairs {
		if pair.Limit < positions {
			continue
		}
		scores, err := model.Rerank(t.Context(), pair.Query, []string{pair.Text})
		if err != nil || len(scores) != 1 || math.Abs(scores[0]-pair.Score) > 1e-4 {
			t.Errorf("%q and %q: got %v, %v, want %v", pair.Query, pair.Text, scores, err, pair.Score)
		}
	}
	short, err := rerank.Load(folder, 5)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := short.Rerank(t.Context(), "query", []string{"abcd efgh", "abcd ijkl"})
	if err != nil || scores[0] != scores[1] {
		t.Errorf("texts that are alike in their first 5 bytes have %v, %v, want one score", scores, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if scores, err := model.Rerank(ended, "query", []string{"text"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v, %v", scores, err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(`[{"index":1,"score":1},{"index":0,"score":2}]`)
	f.Add(`[{"index":1,"score":1e308},{"index":1,"score":-0}]`)
	var answer string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, answer) }))
	f.Cleanup(s.Close)
	client, err := rerank.New(rerank.Config{Provider: "tei", URL: s.URL, MaxText: 10})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		answer = text
		scores, err := client.Rerank(t.Context(), "q", []string{"a", "b"})
		if (err == nil) != (len(scores) == 2) {
			t.Errorf("%q gave %v, %v", text, scores, err)
		}
	})
}
