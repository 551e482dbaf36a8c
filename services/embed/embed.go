// Package embed turns texts into vectors. Embedder is the seam for every kind of model. The kinds are in packages of
// their own, and embed/open makes one from what a user writes; Hashed, which needs no model, is here.
//
// An embedder embeds what it is given, and some send it to other hosts. That the text of a sensitive memory is never
// given to one of those is guaranteed by the callers: the dense leg leaves such memories out before it embeds, and
// endpoint.Guard keeps back those that turn sensitive before they are sent.
package embed

import (
	"cmp"
	"context"
	"fmt"
)

// Model identifies the space that vectors live in: vectors of different models cannot be compared.
type Model struct {
	Provider   string
	Name       string
	Dimensions int
	// DocumentPrefix and QueryPrefix are put before what is embedded, by whoever calls the embedder. They are part of the
	// space: the same model with other prefixes gives vectors that do not match.
	DocumentPrefix string
	QueryPrefix    string
	// QueryDimensions is how many of the first components a query may have; the others are 0 in queries. It is 0 for a
	// model whose queries have all. It is a property of the space, not what tells it from others.
	QueryDimensions int
	// Local says that the embedder sends texts to nobody outside this host. It is not part of the space.
	Local bool
}

// Queried returns how many of the first components queries have.
func (m Model) Queried() int { return cmp.Or(m.QueryDimensions, m.Dimensions) }

// String names the model for people.
func (m Model) String() string {
	text := fmt.Sprintf("%s/%s (%d dimensions", m.Provider, m.Name, m.Dimensions)
	if m.DocumentPrefix != "" || m.QueryPrefix != "" {
		text += fmt.Sprintf(", prefixes %q and %q", m.DocumentPrefix, m.QueryPrefix)
	}
	return text + ")"
}

// Embedder makes vectors of Model().Dimensions with length 1 (or 0, for a text it has nothing to say about).
// Documents and queries are told apart because many models prefix them differently. Safe for concurrent use.
type Embedder interface {
	Model() Model
	EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error)
	EmbedQuery(ctx context.Context, text string) ([]float32, error)
}
