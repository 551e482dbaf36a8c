package embed

import (
	"context"
	"fmt"
	"math"
)

// Folded is Hashed with fewer dimensions: the components of each vector that share an index modulo the number of
// dimensions are added up. That is what hashing into so few would give, so it is a model of its own and not a part of
// Hashed's. Vectors take less room and tell texts apart less well.
type Folded struct{ dimensions int }

var _ Embedder = Folded{}

// NewFolded returns the embedder. The number of dimensions must be a power of two from 16 to 256.
func NewFolded(dims int) (Folded, error) {
	if dims < 16 || dims > dimensions || dimensions%dims != 0 {
		return Folded{}, fmt.Errorf("%d dimensions: must be 16, 32, 64, 128 or 256", dims)
	}
	return Folded{dims}, nil
}

// Model implements Embedder.
func (f Folded) Model() Model {
	m := Hashed{}.Model()
	m.Dimensions = f.dimensions
	return m
}

// EmbedDocuments implements Embedder. Its only error is ctx's.
func (f Folded) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := Hashed{}.EmbedDocuments(ctx, texts)
	for i, vector := range vectors {
		vectors[i] = f.fold(vector)
	}
	return vectors, err
}

// EmbedQuery implements Embedder. It has no error.
func (f Folded) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return f.fold(embed(text)), nil
}

func (f Folded) fold(vector []float32) []float32 {
	folded := make([]float32, f.dimensions)
	for i, x := range vector {
		folded[i%f.dimensions] += x
	}
	var squares float64
	for _, x := range folded {
		squares += float64(x) * float64(x)
	}
	if squares > 0 {
		length := math.Sqrt(squares)
		for i, x := range folded {
			folded[i] = float32(float64(x) / length)
		}
	}
	return folded
}
