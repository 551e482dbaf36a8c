// Package rerank asks a cross-encoder behind an HTTP server how well texts answer a query: any server that speaks the shape
// of Cohere, of Jina (llama.cpp and vLLM do), of Voyage, or of Hugging Face's text-embeddings-inference (TEI).
//
// What is reranked leaves this process. Callers guarantee that no text is of a sensitive memory. Errors, and so logs and
// answers, say what went wrong, and never have a text, a key, an address, or what the server wrote: some servers quote
// their input.
package rerank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/endpoint"
)

// Config says which server to ask and how. Provider is required, and Model but for TEI, which serves one.
type Config struct {
	Provider string // "cohere", "jina", "voyage" or "tei"
	URL      string // of the server, up to but without /v1, /v2 or /rerank; the provider's own if empty
	Model    string // as the server calls it
	Key      string // sent as a bearer token if not empty
	MaxText  int    // bytes of a text that are sent, 1 or more
	Idle     int    // connections kept open for the next request
}

// Client asks one server. It may be used concurrently.
type Client struct {
	config Config
	shape  shape
	server *endpoint.Endpoint
}

var _ gateway.Reranker = (*Client)(nil)

// New checks the configuration. It sends nothing.
func New(config Config) (*Client, error) {
	shape, known := shapes[config.Provider]
	if !known {
		return nil, fmt.Errorf("%q is unknown: there are cohere, jina, voyage and tei", config.Provider)
	}
	if config.URL == "" {
		config.URL = shape.url
	}
	server, err := endpoint.New(config.URL, config.Key, config.Idle)
	switch {
	case err != nil:
		return nil, err
	case config.Model == "" && config.Provider != "tei":
		return nil, fmt.Errorf("%s needs the name of a model", config.Provider)
	case config.MaxText < 1:
		return nil, fmt.Errorf("at least 1 byte of a text must be sent, not %d", config.MaxText)
	}
	return &Client{config: config, shape: shape, server: server}, nil
}

// Rerank implements gateway.Reranker.
func (c *Client) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	cut := make([]string, len(texts))
	for i, text := range texts {
		cut[i] = c.cut(text)
	}
	body, err := json.Marshal(c.shape.request(c.config.Model, c.cut(query), cut))
	if err != nil {
		return nil, err
	}
	// Some servers repeat the texts, each byte of which may be escaped.
	limit := int64(6*len(body) + 1<<20)
	answer, _, err := c.server.Post(ctx, c.shape.path, body, limit)
	var status *endpoint.StatusError
	switch {
	case errors.As(err, &status):
		return nil, statusError(status.Code)
	case errors.Is(err, endpoint.ErrTooLong):
		return nil, fmt.Errorf("malformed answer: it has more than %d bytes", limit)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errors.New("cannot be reached")
	}
	results, err := c.shape.results(answer)
	if err != nil {
		return nil, errors.New("malformed answer: it is not of the expected form")
	}
	return scores(results, len(texts))
}

// cut shortens a text to what is sent of it.
func (c *Client) cut(text string) string {
	if end := c.config.MaxText; len(text) > end {
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		return text[:end]
	}
	return text
}

func statusError(code int) error {
	switch code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: HTTP status %d", gateway.ErrRefused, code)
	}
	return fmt.Errorf("failed with HTTP status %d", code)
}

// scores puts the results into the order of the texts. Each text must have one, and a finite number has come out of JSON.
func scores(results []result, texts int) ([]float64, error) {
	if len(results) != texts {
		return nil, fmt.Errorf("malformed answer: %d scores for %d texts", len(results), texts)
	}
	out, seen := make([]float64, texts), make([]bool, texts)
	for _, r := range results {
		switch {
		case r.Index == nil || *r.Index < 0 || *r.Index >= texts:
			return nil, errors.New("malformed answer: a score of a text that was not sent")
		case seen[*r.Index]:
			return nil, errors.New("malformed answer: two scores of one text")
		case r.Score == nil:
			return nil, errors.New("malformed answer: a text without a score")
		}
		seen[*r.Index], out[*r.Index] = true, *r.Score
	}
	return out, nil
}
