// Package rerank scores texts for a query with a cross-encoder: the one in the program (builtin.go), another one that runs in this
// process (local.go), or one behind an HTTP server. The server speaks the API of Cohere, of Jina (as llama.cpp and vLLM do), of Voyage, or of Hugging Face's
// text-embeddings-inference (TEI).
//
// The general process for a query is, with a server:
//
//  1. Cut the query and each text to MaxText bytes.
//  2. Post them in the provider's wire format (providers.go).
//  3. Check that the answer has one score for each text, and put the scores into the order of the texts.
//
// Queries and texts leave this process then. Callers guarantee that no text is of a sensitive memory. Errors are public: they
// contain no text, key or address, and nothing that the server wrote, because some servers quote their input.
package rerank

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/slice"
)

// Config says which server to ask and how. Provider is required. So is Model, except for TEI, which serves one only.
type Config struct {
	Provider string // "cohere", "jina", "voyage" or "tei"
	URL      string // of the server, without /v1, /v2 or /rerank; the provider's own if empty
	Model    string // the server's name of it
	Key      string // sent as a bearer token if not empty
	MaxText  int    // bytes of a text that are sent at most, 1 or more
	Idle     int    // idle connections that are kept open
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	config   Config
	provider provider
	server   *endpoint.Endpoint
}

var _ gateway.Reranker = (*Client)(nil)

// New checks the configuration. It sends nothing.
func New(config Config) (*Client, error) {
	provider, known := providers[config.Provider]
	if !known {
		return nil, fmt.Errorf("provider %q is unknown; it must be builtin, none, transformer, cohere, jina, voyage or tei", config.Provider)
	}
	config.URL = cmp.Or(config.URL, provider.url)
	server, err := endpoint.New(config.URL, config.Key, config.Idle)
	switch {
	case err != nil:
		return nil, err
	case config.Model == "" && config.Provider != "tei":
		return nil, fmt.Errorf("provider %s needs the name of a model", config.Provider)
	case config.MaxText < 1:
		return nil, tooShort(config.MaxText)
	}
	return &Client{config: config, provider: provider, server: server}, nil
}

// Rerank implements gateway.Reranker.
func (c *Client) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	short := slice.Map(texts, func(text string) string { return clip.Text(text, c.config.MaxText) })
	body, err := json.Marshal(c.provider.request(c.config.Model, clip.Text(query, c.config.MaxText), short))
	if err != nil {
		return nil, err
	}
	// Some servers repeat the texts, and escape each byte.
	limit := int64(6*len(body) + 1<<20)
	answer, _, err := c.server.Post(ctx, c.provider.path, body, limit)
	var status *endpoint.StatusError
	switch {
	case errors.As(err, &status):
		return nil, statusError(status.Code)
	case errors.Is(err, endpoint.ErrTooLong):
		return nil, fmt.Errorf("malformed answer: more than %d bytes", limit)
	case errors.Is(err, endpoint.ErrWithdrawn):
		return nil, fmt.Errorf("%w: a memory is gone or has turned sensitive", endpoint.ErrWithdrawn)
	case errors.Is(err, endpoint.ErrUnchecked):
		return nil, endpoint.ErrUnchecked
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errors.New("cannot be reached")
	}
	results, err := c.provider.results(answer)
	if err != nil {
		return nil, errors.New("malformed answer: not the provider's wire format")
	}
	return scores(results, len(texts))
}

func tooShort(maxText int) error {
	return fmt.Errorf("the maximum bytes of each text must be at least 1, not %d", maxText)
}

// statusError says whether the server found the request itself invalid.
func statusError(code int) error {
	switch code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: HTTP status %d", gateway.ErrRefused, code)
	}
	return fmt.Errorf("failed with HTTP status %d", code)
}

// scores returns the scores in the order of the texts. Each text must have exactly one. Numbers from JSON are finite.
func scores(results []result, texts int) ([]float64, error) {
	if len(results) != texts {
		return nil, fmt.Errorf("malformed answer: %d scores for %d texts", len(results), texts)
	}
	out, seen := make([]float64, texts), make([]bool, texts)
	for _, r := range results {
		score := cmp.Or(r.Score, r.Relevance)
		switch {
		case r.Index == nil || *r.Index < 0 || *r.Index >= texts:
			return nil, errors.New("malformed answer: a score for a text that was not sent")
		case seen[*r.Index]:
			return nil, errors.New("malformed answer: two scores for one text")
		case score == nil:
			return nil, errors.New("malformed answer: a text without a score")
		}
		seen[*r.Index], out[*r.Index] = true, *score
	}
	return out, nil
}
