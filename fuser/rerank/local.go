package rerank

import (
	"context"
	"fmt"
	"os"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/transformer"
)

// Local is a cross-encoder that runs in this process. It is safe for concurrent use.
type Local struct {
	model   *transformer.Model
	maxText int
}

var _ gateway.Reranker = (*Local)(nil)

// Load reads a cross-encoder from a folder of Hugging Face, such as cross-encoder/ms-marco-MiniLM-L6-v2. It reads at most maxText
// bytes of a text.
func Load(folder string, maxText int) (*Local, error) {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("transformer:%s is no folder with a model", folder)
	}
	if maxText < 1 {
		return nil, tooShort(maxText)
	}
	model, err := transformer.Load(os.DirFS(folder))
	if err == nil {
		err = model.CanScore()
	}
	if err != nil {
		return nil, fmt.Errorf("transformer:%s: %w", folder, err)
	}
	return &Local{model, maxText}, nil
}

// Rerank implements gateway.Reranker. The scores are the model's logits.
func (l *Local) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	short := slice.Map(texts, func(text string) string { return clip.Text(text, l.maxText) })
	return l.model.Score(ctx, clip.Text(query, l.maxText), short, 0)
}
