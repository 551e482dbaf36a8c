// Package embed turns texts into vectors. Embedder is the interface of every kind of embedder. The kinds live in packages
// of their own; Hashed, which needs no model, is here. Package embed/open makes an embedder from a command-line value.
//
// A text becomes a vector in these steps:
//
//  1. The dense leg puts the model's prefix for documents or for queries before the text.
//  2. A query passes embed/querypath, which caches vectors and keeps to the deadline. Documents skip this step.
//  3. The embedder splits the text into words or tokens and combines their vectors (static, Hashed, model2vec),
//     runs a transformer in this process (transformer), or asks a server (remote).
//  4. Normalize scales the vector to length 1, so that a dot product is a cosine.
//
// Some embedders send texts to other hosts. Callers must keep the texts of sensitive memories from those: the dense leg
// skips such memories, and endpoint.WithCheck stops requests for memories that become sensitive before they are sent.
package embed

import (
	"cmp"
	"context"
	"fmt"
	"math"
)

// Model identifies a vector space. Vectors of different models cannot be compared.
type Model struct {
	Provider   string `json:"provider"`
	Name       string `json:"name"`
	Dimensions int    `json:"dimensions"`
	// DocumentPrefix and QueryPrefix belong before each text. The caller of the embedder puts them there. They are part of
	// the space: the same model with other prefixes gives vectors that do not match.
	DocumentPrefix string `json:"document_prefix,omitempty"`
	QueryPrefix    string `json:"query_prefix,omitempty"`
	// QueryDimensions is the number of leading components that queries use; their other components are 0. The value 0
	// means all. It follows from the other fields and does not tell models apart.
	QueryDimensions int `json:"-"`
	// Local is true if the embedder sends no text outside this host. It is not part of the space.
	Local bool `json:"local"`
}

// Queried returns how many leading components of a query may differ from 0.
func (m Model) Queried() int { return cmp.Or(m.QueryDimensions, m.Dimensions) }

// String names the model for people.
func (m Model) String() string {
	text := fmt.Sprintf("%s/%s (%d dimensions", m.Provider, m.Name, m.Dimensions)
	if m.DocumentPrefix != "" || m.QueryPrefix != "" {
		text += fmt.Sprintf(", prefixes %q and %q", m.DocumentPrefix, m.QueryPrefix)
	}
	return text + ")"
}

// Embedder makes vectors of Model().Dimensions components and length 1. A text without words may get the zero vector.
// Documents and queries have methods of their own because many models treat them differently. EmbedDocuments returns one
// vector for each text, in the same order. An Embedder is safe for concurrent use.
type Embedder interface {
	Model() Model
	EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error)
	EmbedQuery(ctx context.Context, text string) ([]float32, error)
}

// Immediate reports whether an embedder computes documents in this process within microseconds, so that a write may wait for it.
// Such an embedder has a method Immediate that returns true.
func Immediate(e Embedder) bool {
	i, ok := e.(interface{ Immediate() bool })
	return ok && i.Immediate()
}

// Each embeds texts one after the other. Its only error is ctx's.
func Each(ctx context.Context, texts []string, embed func(text string) []float32) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = embed(text)
	}
	return vectors, nil
}

// Normalize scales a vector to length 1 in place. It leaves the zero vector as it is. If a component is NaN or infinite,
// Normalize returns false and changes nothing.
func Normalize(vector []float32) (finite bool) {
	var squares float64
	for _, x := range vector {
		squares += float64(x) * float64(x)
	}
	if math.IsNaN(squares) || math.IsInf(squares, 0) {
		return false
	}
	if squares > 0 {
		length := math.Sqrt(squares)
		for i, x := range vector {
			vector[i] = float32(float64(x) / length)
		}
	}
	return true
}

// Text is what is embedded of a memory: title and content. The title comes twice, because a page may be about somebody whom it names once.
// Keywords would blur the vector.
func Text(title, content string) string {
	if title == "" {
		return content
	}
	return title + "\n" + title + "\n" + content
}
