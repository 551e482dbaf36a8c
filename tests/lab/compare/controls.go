package compare

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/tokens"
)

// Noise is a control: each text gets a random vector that depends on nothing but its characters. What a claim reaches
// with it, it would reach without any embedder.
type Noise struct{}

var _ embed.Embedder = Noise{}

// noiseDimensions are as many as the built-in model has.
const noiseDimensions = 384

// Model implements embed.Embedder.
func (Noise) Model() embed.Model {
	return embed.Model{Provider: "control", Name: "noise", Dimensions: noiseDimensions, Local: true}
}

// EmbedQuery implements embed.Embedder.
func (Noise) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	random := rand.New(rand.NewPCG(tokens.HashWord([]byte(text)), 1))
	vector := make([]float32, noiseDimensions)
	var squares float64
	for i := range vector {
		vector[i] = float32(random.NormFloat64())
		squares += float64(vector[i]) * float64(vector[i])
	}
	for i := range vector {
		vector[i] /= float32(math.Sqrt(squares))
	}
	return vector, nil
}

// EmbedDocuments implements embed.Embedder.
func (n Noise) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i], _ = n.EmbedQuery(ctx, text)
	}
	return vectors, nil
}
