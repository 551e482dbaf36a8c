// Package remote embeds by asking a server over HTTP: any that speaks the shape of OpenAI's API (OpenAI, Ollama,
// llama.cpp, vLLM), Voyage, Cohere, or Hugging Face's text-embeddings-inference (TEI).
//
// What is embedded leaves this process. Callers guarantee that the text of a sensitive memory is never given to an
// Embedder. Errors, and so logs, name the server and what went wrong, never a text, a key, or what the server wrote: some
// servers quote the input.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sony/gobreaker/v2"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/embed"
)

const (
	attempts   = 3
	firstPause = 200 * time.Millisecond // before the second attempt; doubled for each further one
	maxPause   = 30 * time.Second       // also of what a server may ask for
	tripAfter  = 5                      // failures in a row open the circuit breaker
	coolDown   = 10 * time.Second       // until it lets one request through to try
)

// Config says which server to ask and how. Provider, Model and Dimensions are required; zero elsewhere means the
// default.
type Config struct {
	Provider   string // "openai", "voyage", "cohere" or "tei"
	URL        string // of the server, up to but without /v1, /v2 or /embed; the provider's own if empty
	Model      string // as the server calls it
	Dimensions int    // of its vectors, 1 or more
	// Shorten asks the server for Dimensions dimensions of a model that has more.
	Shorten                     bool
	DocumentPrefix, QueryPrefix string        // part of the model; whoever calls the embedder puts them before the texts
	Key                         string        // sent as a bearer token if not empty
	Batch                       int           // texts per request, at most the provider's limit, which is the default
	MaxText                     int           // bytes of a text that are sent; by default all if the server can cut, else 24,000
	Concurrency                 int           // requests at a time; 4 by default
	Timeout                     time.Duration // of one attempt; 30 s by default. The context's deadline holds as well
}

// Embedder asks one server for one model's vectors. It may be used concurrently.
type Embedder struct {
	config  Config
	shape   shape
	server  *endpoint.Endpoint
	model   embed.Model
	slots   chan struct{}
	breaker *gobreaker.CircuitBreaker[embedded]
	counted counters
	pause   func(ctx context.Context, d time.Duration) error
}

var _ embed.Embedder = (*Embedder)(nil)

// New checks the configuration. It sends nothing.
func New(config Config) (*Embedder, error) {
	shape, known := shapes[config.Provider]
	if !known {
		return nil, fmt.Errorf("embedding provider %q is unknown: there are openai, voyage, cohere and tei", config.Provider)
	}
	if config.URL == "" {
		config.URL = shape.url
	}
	server, err := endpoint.New(config.URL, config.Key, 0)
	if err != nil {
		return nil, fmt.Errorf("embedding with %s: %w", config.Provider, err)
	}
	switch {
	case config.Model == "":
		return nil, fmt.Errorf("%s needs the name of a model", config.Provider)
	case config.Dimensions < 1:
		return nil, fmt.Errorf("%s/%s: the number of dimensions must be given and positive", config.Provider, config.Model)
	case config.Shorten && !shape.shortens:
		return nil, fmt.Errorf("%s cannot shorten vectors", config.Provider)
	case config.Batch < 0 || config.Batch > shape.texts:
		return nil, fmt.Errorf("a request to %s has 1 to %d texts, not %d", config.Provider, shape.texts, config.Batch)
	}
	if config.Batch == 0 {
		config.Batch = shape.texts
	}
	if config.MaxText == 0 {
		config.MaxText = shape.maxText
	}
	if config.Concurrency == 0 {
		config.Concurrency = 4
	}
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	e := &Embedder{
		config: config, shape: shape, server: server,
		model: embed.Model{
			Provider: config.Provider, Name: config.Model, Dimensions: config.Dimensions,
			DocumentPrefix: config.DocumentPrefix, QueryPrefix: config.QueryPrefix, Local: server.Local(),
		},
		slots: make(chan struct{}, config.Concurrency), counted: uncounted,
		pause: pause,
	}
	e.breaker = gobreaker.NewCircuitBreaker[embedded](gobreaker.Settings{
		Name: config.Provider, Timeout: coolDown,
		ReadyToTrip:  func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return !broken(err) },
	})
	return e, nil
}

// Model implements embed.Embedder.
func (e *Embedder) Model() embed.Model { return e.model }

// EmbedQuery implements embed.Embedder.
func (e *Embedder) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vectors, err := e.request(ctx, query, []string{e.cut(text)})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// EmbedDocuments implements embed.Embedder. It sends batches concurrently, and fails as a whole if one fails.
func (e *Embedder) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	cut := make([]string, len(texts))
	for i, text := range texts {
		cut[i] = e.cut(text)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	vectors := make([][]float32, len(texts))
	var wg sync.WaitGroup
	for next := 0; next < len(cut); {
		from, to := next, e.batch(cut, next)
		wg.Go(func() {
			if err := panics.Catch(ctx, nil, "embed a batch", func() error {
				got, err := e.request(ctx, document, cut[from:to])
				copy(vectors[from:to], got)
				return err
			}); err != nil {
				cancel(err)
			}
		})
		next = to
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return vectors, nil
}

// batch returns the end of the batch that begins at from: as many texts as one request may have.
func (e *Embedder) batch(texts []string, from int) int {
	size := 0
	for to := from; to < len(texts); to++ {
		size += len(texts[to])
		if to > from && (to-from == e.config.Batch || size > e.shape.bytes) {
			return to
		}
	}
	return len(texts)
}

// cut shortens a text that the server would refuse.
func (e *Embedder) cut(text string) string {
	if end := e.config.MaxText; end > 0 && len(text) > end {
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return text
}

// again says whether the same request may succeed later.
func again(err error) bool {
	var status *endpoint.StatusError
	if errors.As(err, &status) {
		return status.Code == http.StatusTooManyRequests || status.Code == http.StatusRequestTimeout || status.Code >= 500
	}
	var malformed *malformedError
	return !errors.As(err, &malformed) && !errors.Is(err, context.Canceled) && !errors.Is(err, endpoint.ErrWithdrawn)
}

// broken says whether an error speaks against the server: a refusal that our request caused does not, nor does a caller
// who gave up.
func broken(err error) bool {
	var malformed *malformedError
	return err != nil && (again(err) || errors.As(err, &malformed))
}

// request asks for the vectors of one batch, and tells telemetry about it.
func (e *Embedder) request(ctx context.Context, kind kind, texts []string) ([][]float32, error) {
	ctx, end := e.observe(ctx, len(texts))
	answer, err := e.ask(ctx, kind, texts)
	end(answer.tokens, err)
	return answer.vectors, err
}

// ask asks for the vectors of one batch, if need be several times, within the deadline of ctx.
func (e *Embedder) ask(ctx context.Context, kind kind, texts []string) (embedded, error) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return embedded{}, context.Cause(ctx)
	}
	body, err := json.Marshal(e.shape.request(e.config, kind, texts))
	if err != nil {
		return embedded{}, err
	}
	for attempt := 1; ; attempt++ {
		answer, err := e.breaker.Execute(func() (embedded, error) { return e.attempt(ctx, body, len(texts)) })
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return embedded{}, context.Cause(ctx)
		}
		err = fmt.Errorf("embedding server %s: %w", e.server.URL.Host, err)
		if attempt == attempts || !again(err) || errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
			return embedded{}, err
		}
		wait := firstPause << (attempt - 1)
		wait = wait/2 + rand.N(wait/2+1) // so that clients that failed together do not return together
		var status *endpoint.StatusError
		if errors.As(err, &status) && status.After > 0 {
			wait = status.After
		}
		if deadline, ok := ctx.Deadline(); wait > maxPause || ok && time.Until(deadline) <= wait {
			return embedded{}, err // there is no time for another attempt
		}
		if e.pause(ctx, wait) != nil {
			return embedded{}, context.Cause(ctx)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt sends one request.
func (e *Embedder) attempt(ctx context.Context, body []byte, texts int) (embedded, error) {
	ctx, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	// A number takes up to 25 characters.
	limit := int64(texts*e.config.Dimensions*32 + 1<<20)
	answer, header, err := e.server.Post(ctx, e.shape.path, body, limit)
	switch {
	case errors.Is(err, endpoint.ErrTooLong):
		return embedded{}, malformed("the answer has more than %d bytes", limit)
	case err != nil:
		return embedded{}, err
	}
	read, err := e.shape.read(answer, texts)
	if err != nil {
		return embedded{}, err
	}
	if tokens, err := strconv.Atoi(header.Get("X-Compute-Tokens")); err == nil && read.tokens == 0 {
		read.tokens = max(tokens, 0)
	}
	return read, e.check(read.vectors, texts)
}

// check refuses vectors that are not those of the model, and gives the others length 1.
func (e *Embedder) check(vectors [][]float32, texts int) error {
	if len(vectors) != texts {
		return malformed("%d vectors for %d texts", len(vectors), texts)
	}
	for _, vector := range vectors {
		if len(vector) != e.config.Dimensions {
			return malformed("a vector of %d dimensions, and %s is configured with %d", len(vector), e.config.Model, e.config.Dimensions)
		}
		var squares float64
		for _, x := range vector {
			squares += float64(x) * float64(x)
		}
		if math.IsNaN(squares) || math.IsInf(squares, 0) {
			return malformed("a vector with components that are not finite")
		}
		if squares == 0 {
			continue
		}
		length := math.Sqrt(squares)
		for i := range vector {
			vector[i] = float32(float64(vector[i]) / length)
		}
	}
	return nil
}
