package transformer

import (
	"context"
	"fmt"
	"math"
)

// CanScore returns nil if the model is a cross-encoder, else what it lacks.
func (m *Model) CanScore() error { return m.scores }

// Score returns a number for each text: how relevant it is for the query. It is the model's logit, from minus to plus infinity. The
// model reads [CLS] query [SEP] text [SEP]. If these are more than limit tokens, the longer of the two is cut until they fit or
// both are equally long, and then both are, as Hugging Face's longest_first does. Limits below 3 or above Positions mean Positions.
func (m *Model) Score(ctx context.Context, query string, texts []string, limit int) ([]float64, error) {
	question, parts := m.tokenizer.IDs(query), make([][]int, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		parts[i] = m.tokenizer.IDs(text)
	}
	return m.ScoreTokens(ctx, question, parts, limit)
}

// Words returns the ids of a text's tokens, for ScoreTokens.
func (m *Model) Words(text string) []int { return m.tokenizer.IDs(text) }

// ScoreTokens is Score for what Words returned.
func (m *Model) ScoreTokens(ctx context.Context, question []int, texts [][]int, limit int) ([]float64, error) {
	if m.scores != nil {
		return nil, m.scores
	}
	if len(texts) == 0 {
		return nil, ctx.Err()
	}
	pairs := make([]Sequence, len(texts))
	for i, text := range texts {
		pairs[i] = m.pair(question, text, m.limit(limit)-3)
	}
	n := up(len(texts), rows)
	firsts, pooled := make([]float32, n*m.width), make([]float32, n*m.width)
	err := m.Hidden(ctx, pairs, func(i int, states []float32) {
		copy(firsts[i*m.width:], states[:m.config.Hidden])
	})
	if err != nil {
		return nil, err
	}
	if err := m.pooler.apply(ctx, new(quantized), pooled, firsts, n, nil); err != nil {
		return nil, err
	}
	scores := make([]float64, len(texts))
	for i := range scores {
		scores[i] = float64(m.bias)
		for k, w := range m.classifier {
			scores[i] += float64(w) * math.Tanh(float64(pooled[i*m.width+k]))
		}
		if math.IsNaN(scores[i]) || math.IsInf(scores[i], 0) {
			return nil, fmt.Errorf("the score of text %d is not finite: the model is broken", i)
		}
	}
	return scores, nil
}

// pair joins a query and a text that may have most tokens together.
func (m *Model) pair(query, text []int, most int) Sequence {
	q, t := len(query), len(text)
	switch {
	case q+t <= most:
	case q <= t:
		q = min(q, most/2)
		t = most - q
	default:
		t = min(t, most/2)
		q = most - t
	}
	ids := append(m.enclose(query, q), text[:t]...)
	return Sequence{IDs: append(ids, m.end), Second: t + 1}
}
