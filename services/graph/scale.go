package graph

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/triskele/triskele/fuser/platform/panics"
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
func (s scale) share(cosine float64) float64 { return (cosine - s.unlike) / (s.same - s.unlike) }

// calibrationTime bounds the requests to an embedder that measure its scale.
const calibrationTime = 10 * time.Second

// scale returns the embedder's scale. It is measured on first use, and again while that fails. A search waits no longer than ctx for the
// first one's requests.
func (l *Leg) scale(ctx context.Context) (scale, error) {
	if found := l.measured.Load(); found != nil {
		return *found, nil
	}
	done := l.measuring.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), calibrationTime)
		defer cancel()
		return nil, panics.Catch(ctx, nil, "measure an embedder's scale", func() error { return l.measure(ctx) })
	})
	select {
	case <-ctx.Done():
		return scale{}, ctx.Err()
	case result := <-done:
		if result.Err != nil {
			return scale{}, result.Err
		}
		return *l.measured.Load(), nil
	}
}

func (l *Leg) measure(ctx context.Context) error {
	asked, told, err := l.bothWays(ctx, samples)
	if err != nil {
		return err
	}
	n := float64(len(samples))
	var found scale
	for i := range asked {
		for j := range told {
			if i == j {
				found.same += cosine(asked[i], told[j]) / n
			} else {
				found.unlike += cosine(asked[i], told[j]) / (n * (n - 1))
			}
		}
	}
	l.measured.Store(&found)
	return nil
}

// bothWays embeds texts as queries and as documents.
func (l *Leg) bothWays(ctx context.Context, texts []string) (asked, told []code, err error) {
	model := l.config.Embedder.Model()
	for _, text := range texts {
		vector, err := l.config.Embedder.EmbedQuery(ctx, model.QueryPrefix+text)
		if err != nil {
			return nil, nil, fmt.Errorf("embed a name: %w", err)
		}
		asked = append(asked, encode(vector))
	}
	told, err = l.embedTexts(ctx, texts)
	return asked, told, err
}

// cosine is 0 if a vector is empty or the dimensions differ.
func cosine(a, b code) float64 {
	if len(a) != len(b) || len(a) == 0 {
		return 0
	}
	return float64(dot(a, b)) / math.Sqrt(float64(dot(a, a))*float64(dot(b, b)))
}
