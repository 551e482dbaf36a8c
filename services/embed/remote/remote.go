// Package remote embeds by asking a server over HTTP. It speaks four provider APIs: OpenAI's (also Ollama, llama.cpp and
// vLLM), Voyage's, Cohere's, and that of Hugging Face's text-embeddings-inference (TEI). The process for a list of texts is:
//
//  1. Texts above a length in bytes are cut, and the list is divided into batches within the provider's limits.
//  2. Batches are sent concurrently, up to a concurrency limit.
//  3. A request passes a circuit breaker. Failures that may be temporary are retried with backoff, within the deadline. A server
//     that refuses texts with too many tokens for it is asked once more, with shorter ones.
//  4. The answer must have one finite vector of the right dimensions for each text. Vectors are scaled to length 1.
//
// Texts leave this process, so callers must not pass texts of sensitive memories. Errors and logs name the server and the
// failure. They never contain a text, a key or the server's answer, because some servers quote their input.
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/resilience"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/embed"
)

const (
	attempts   = 3                      // of one request
	firstPause = 200 * time.Millisecond // before the second attempt; doubles for each further one
	maxPause   = 30 * time.Second       // bound on a pause, also on one that the server asks for
	tripAfter  = 5                      // consecutive failures that open the circuit breaker
	coolDown   = 10 * time.Second       // time until the open circuit breaker lets one request through
)

// Config names the server and how to ask it. Provider, Model and Dimensions are required. A zero in another field means its
// default.
type Config struct {
	Provider   string // "openai", "voyage", "cohere" or "tei"
	URL        string // the server's, without /v1, /v2 or /embed; by default the provider's own
	Model      string // the server's name for it
	Dimensions int    // of its vectors, 1 or more
	// Shorten asks the server for vectors of Dimensions dimensions from a model with more.
	Shorten                     bool
	DocumentPrefix, QueryPrefix string        // part of the model; the caller puts them before the texts
	Key                         string        // bearer token; none if empty
	Batch                       int           // texts per request; by default the provider's limit, which is also the maximum
	MaxText                     int           // bytes; longer texts are cut. By default 24,000 for openai, and no bound for the others
	Concurrency                 int           // concurrent requests; 4 by default
	Timeout                     time.Duration // of one attempt; 30 s by default. The context's deadline applies too
}

// Embedder asks one server for the vectors of one model. It may be used concurrently.
type Embedder struct {
	config    Config
	provider  provider
	server    *endpoint.Endpoint
	model     embed.Model
	semaphore chan struct{} // the concurrency limit
	breaker   *gobreaker.CircuitBreaker[response]
	requests  metric.Int64Counter
	tokens    metric.Int64Counter
	pause     func(ctx context.Context, d time.Duration) error
}

var _ embed.Embedder = (*Embedder)(nil)

// New checks the configuration. It sends nothing.
func New(config Config) (*Embedder, error) {
	provider, known := providers[config.Provider]
	if !known {
		return nil, fmt.Errorf("embedding provider %q is unknown: there are openai, voyage, cohere and tei", config.Provider)
	}
	config.URL = cmp.Or(config.URL, provider.url)
	server, err := endpoint.New(config.URL, config.Key, 0)
	if err != nil {
		return nil, fmt.Errorf("embedding with %s: %w", config.Provider, err)
	}
	switch {
	case config.Model == "":
		return nil, fmt.Errorf("%s needs the name of a model", config.Provider)
	case config.Dimensions < 1:
		return nil, fmt.Errorf("%s/%s needs the number of dimensions, 1 or more", config.Provider, config.Model)
	case config.Shorten && !provider.shortens:
		return nil, fmt.Errorf("%s cannot shorten vectors: leave shorten out", config.Provider)
	case config.Batch < 0 || config.Batch > provider.texts:
		return nil, fmt.Errorf("a batch for %s must have 1 to %d texts, not %d", config.Provider, provider.texts, config.Batch)
	}
	config.Batch = cmp.Or(config.Batch, provider.texts)
	if config.MaxText = cmp.Or(config.MaxText, provider.maxText); config.MaxText <= 0 {
		config.MaxText = math.MaxInt // no bound
	}
	config.Concurrency = cmp.Or(config.Concurrency, 4)
	config.Timeout = cmp.Or(config.Timeout, 30*time.Second)
	e := &Embedder{
		config: config, provider: provider, server: server,
		model: embed.Model{
			Provider: config.Provider, Name: config.Model, Dimensions: config.Dimensions,
			DocumentPrefix: config.DocumentPrefix, QueryPrefix: config.QueryPrefix, Local: server.Local(),
		},
		semaphore: make(chan struct{}, config.Concurrency), pause: pause,
	}
	e.Measure(noop.Meter{})
	e.breaker = gobreaker.NewCircuitBreaker[response](gobreaker.Settings{
		Name: config.Provider, Timeout: coolDown,
		ReadyToTrip:  func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return !serverFailed(err) },
		// A server that was sent no text is neither well nor ill.
		IsExcluded: func(err error) bool {
			return errors.Is(err, resilience.ErrIgnored) || endpoint.NotSent(err)
		},
	})
	return e, nil
}

// Model implements embed.Embedder.
func (e *Embedder) Model() embed.Model { return e.model }

// EmbedQuery implements embed.Embedder.
func (e *Embedder) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vectors, err := e.request(ctx, query, []string{clip.Text(text, e.config.MaxText)})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// EmbedDocuments implements embed.Embedder. It sends batches concurrently. If one fails, the others are cancelled.
func (e *Embedder) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	bounded := slice.Map(texts, func(text string) string { return clip.Text(text, e.config.MaxText) })
	vectors := make([][]float32, len(texts))
	batches, ctx := errgroup.WithContext(ctx)
	for next := 0; next < len(bounded); {
		from, to := next, e.batch(bounded, next)
		batches.Go(func() error {
			return panics.Catch(ctx, nil, "embed a batch", func() error {
				got, err := e.request(ctx, document, bounded[from:to])
				copy(vectors[from:to], got)
				return err
			})
		})
		next = to
	}
	if err := batches.Wait(); err != nil {
		return nil, err
	}
	return vectors, nil
}

// batch returns the end of the largest batch that begins at from.
func (e *Embedder) batch(texts []string, from int) int {
	size := 0
	for to := from; to < len(texts); to++ {
		size += len(texts[to])
		if to > from && (to-from == e.config.Batch || size > e.provider.bytes) {
			return to
		}
	}
	return len(texts)
}

// retryable reports whether the same request may succeed later.
func retryable(err error) bool {
	if status, ok := errors.AsType[*endpoint.StatusError](err); ok {
		return status.Code == http.StatusTooManyRequests || status.Code == http.StatusRequestTimeout || status.Code >= 500
	}
	var malformed *malformedError
	return !errors.As(err, &malformed) && !errors.Is(err, context.Canceled) && !endpoint.NotSent(err)
}

// serverFailed reports whether an error counts as a failure of the server for the circuit breaker. Refusals of a wrong
// request do not count.
func serverFailed(err error) bool {
	var malformed *malformedError
	return err != nil && (retryable(err) || errors.As(err, &malformed))
}

// shorter returns texts that are within the provider's limit in tokens for sure, if the error may be due to longer ones.
func (e *Embedder) shorter(texts []string, err error) []string {
	var status *endpoint.StatusError
	most := e.provider.tokens
	if most == 0 || !errors.As(err, &status) || status.Code != http.StatusBadRequest ||
		!slices.ContainsFunc(texts, func(text string) bool { return len(text) > most }) {
		return nil
	}
	return slice.Map(texts, func(text string) string { return clip.Text(text, most) })
}

// request asks for the vectors of one batch, and records a span and metrics.
func (e *Embedder) request(ctx context.Context, kind kind, texts []string) ([][]float32, error) {
	ctx, end := e.observe(ctx, len(texts))
	answer, err := e.ask(ctx, kind, texts)
	if shorter := e.shorter(texts, err); shorter != nil {
		answer, err = e.ask(ctx, kind, shorter)
	}
	end(answer.tokens, err)
	return answer.vectors, err
}

// ask asks for the vectors of one batch. It retries with backoff, within ctx's deadline.
func (e *Embedder) ask(ctx context.Context, kind kind, texts []string) (response, error) {
	select {
	case e.semaphore <- struct{}{}:
		defer func() { <-e.semaphore }()
	case <-ctx.Done():
		return response{}, context.Cause(ctx)
	}
	body, err := json.Marshal(e.provider.request(e.config, kind, texts))
	if err != nil {
		return response{}, err
	}
	for attempt := 1; ; attempt++ {
		answer, err := e.breaker.Execute(func() (response, error) {
			answer, err := e.attempt(ctx, body, len(texts))
			if err != nil && ctx.Err() != nil { // a caller in a hurry says nothing about the server
				err = resilience.ErrIgnored
			}
			return answer, err
		})
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return response{}, context.Cause(ctx)
		}
		err = fmt.Errorf("embedding server %s: %w", e.server.URL.Host, err)
		if attempt == attempts || !retryable(err) || errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
			return response{}, err
		}
		wait := firstPause << (attempt - 1)
		wait = wait/2 + rand.N(wait/2+1) // jitter, so that clients that failed together do not retry together
		if status, ok := errors.AsType[*endpoint.StatusError](err); ok && status.After > 0 {
			wait = status.After
		}
		if deadline, ok := ctx.Deadline(); wait > maxPause || ok && time.Until(deadline) <= wait {
			return response{}, err // another attempt would come too late
		}
		if e.pause(ctx, wait) != nil {
			return response{}, context.Cause(ctx)
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
func (e *Embedder) attempt(ctx context.Context, body []byte, texts int) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	limit := int64(texts*e.config.Dimensions*32 + 1<<20) // a number takes up to 25 characters
	answer, header, err := e.server.Post(ctx, e.provider.path, body, limit)
	switch {
	case errors.Is(err, endpoint.ErrTooLong):
		return response{}, malformed("the answer has more than %d bytes", limit)
	case err != nil:
		return response{}, err
	}
	read, err := e.provider.read(answer)
	if err != nil {
		return response{}, notJSON(err)
	}
	if tokens, err := strconv.Atoi(header.Get("X-Compute-Tokens")); err == nil && read.tokens == 0 {
		read.tokens = max(tokens, 0)
	}
	return read, e.check(read.vectors, texts)
}

// check returns an error if the vectors cannot be the model's, and scales them to length 1.
func (e *Embedder) check(vectors [][]float32, texts int) error {
	if len(vectors) != texts {
		return malformed("the answer has %d vectors for %d texts", len(vectors), texts)
	}
	for _, vector := range vectors {
		if len(vector) != e.config.Dimensions {
			return malformed("a vector has %d dimensions, and %s is configured with %d", len(vector), e.config.Model, e.config.Dimensions)
		}
		if !embed.Normalize(vector) {
			return malformed("a vector has components that are not finite")
		}
	}
	return nil
}
