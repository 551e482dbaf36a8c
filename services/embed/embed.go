// Package embed turns texts into vectors. Embedder is the seam for every kind of model; Hashed is the built-in one.
package embed

import "context"

// Model identifies the space that vectors live in: vectors of different models cannot be compared.
type Model struct {
	Provider   string
	Name       string
	Dimensions int
}

// Embedder makes vectors of Model().Dimensions with length 1 (or 0, for a text it has nothing to say about).
// Documents and queries are told apart because many models prefix them differently. Safe for concurrent use.
type Embedder interface {
	Model() Model
	EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error)
	EmbedQuery(ctx context.Context, text string) ([]float32, error)
}
