package graph

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// samples are unrelated short statements.
var samples = []string{
	"Maria Lindqvist founded the bakery", "The database listens on port 5432", "Oslo is the capital of Norway",
	"Vitamin D is made in the skin", "The meeting was moved to Thursday", "His brother plays the cello",
}

// scale calibrates a model's cosines: 0.4 means similar in one model and unrelated in another. Queries are embedded
// differently from documents, so even the same text may be far from 1.
type scale struct {
	unlike float64 // mean cosine of unrelated texts
	same   float64 // mean cosine of a text and itself
}

// at converts a share, 0 unlike to 1 same, to a cosine.
func (s scale) at(share float64) float64 { return s.unlike + share*(s.same-s.unlike) }

// share is the inverse of at.
func (s scale) share(cosine float64) float64 {
	if s.same == s.unlike {
		return 0
	}
	return (cosine - s.unlike) / (s.same - s.unlike)
}

// calibration measures an embedder's scale once, on first use.
type calibration struct {
	mu    sync.Mutex
	done  bool
	found scale
}

// scale returns the embedder's scale.
func (s *searcher) scale(ctx context.Context) (scale, error) {
	c := s.calibration
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return c.found, nil
	}
	asked, told, err := s.bothWays(ctx, samples)
	if err != nil {
		return scale{}, err
	}
	n := float64(len(samples))
	for i := range asked {
		for j := range told {
			if i == j {
				c.found.same += cosine(asked[i], told[j]) / n
			} else {
				c.found.unlike += cosine(asked[i], told[j]) / (n * (n - 1))
			}
		}
	}
	c.done = true
	return c.found, nil
}

// bothWays embeds texts as queries and as documents.
func (s *searcher) bothWays(ctx context.Context, texts []string) (asked, told []code, err error) {
	model := s.config.Embedder.Model()
	prefixed := make([]string, len(texts))
	for i, text := range texts {
		vector, err := s.config.Embedder.EmbedQuery(ctx, model.QueryPrefix+text)
		if err != nil {
			return nil, nil, fmt.Errorf("embed a name: %w", err)
		}
		asked = append(asked, encode(vector))
		prefixed[i] = model.DocumentPrefix + text
	}
	told, err = s.embedTexts(ctx, prefixed)
	return asked, told, err
}

// cosine is 0 if a vector is empty or the dimensions differ.
func cosine(a, b code) float64 {
	if len(a) != len(b) || len(a) == 0 {
		return 0
	}
	return float64(dot(a, b)) / math.Sqrt(float64(dot(a, a))*float64(dot(b, b)))
}
