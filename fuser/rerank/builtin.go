package rerank

import (
	"context"
	"embed"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/transformer"
)

// files is the model, as docs/reranker describes it.
//
//go:embed model
var files embed.FS

const (
	// BuiltinName is the model's name.
	BuiltinName = "builtin/cross-en-v1"
	// questionTokens and textTokens are how much of a question and of a text the model reads.
	questionTokens, textTokens = 48, 160
	// Of a longer text it reads the first lead tokens, which often say what it is about, and the part that shares most with the
	// question. Parts begin stride tokens apart.
	lead, stride = 20, 40
	// batch is the number of tokens that are scored at once: enough to keep all processors busy. most bounds those of a call: ten
	// turns of a conversation, or five notes of a hundred words.
	batch, most = 384, 768
)

// Builtin is the cross-encoder in the program. It is loaded when it is first asked, and safe for concurrent use.
type Builtin struct {
	load    func() (*transformer.Model, error)
	maxText int
	pace    atomic.Int64 // nanoseconds that a token took lately; 0 before the first
}

var _ gateway.Reranker = (*Builtin)(nil)

// NewBuiltin returns the model, which reads at most maxText bytes of a text.
func NewBuiltin(maxText int) *Builtin {
	return &Builtin{maxText: maxText, load: sync.OnceValues(func() (*transformer.Model, error) {
		folder, err := fs.Sub(files, "model")
		if err != nil {
			return nil, err
		}
		return transformer.Load(folder)
	})}
}

// Rerank implements gateway.Reranker. The scores are the model's logits. It scores the first texts: as many as have 768 tokens with the
// question, and as the time until ctx's deadline allows.
func (b *Builtin) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	model, err := b.load()
	if err != nil {
		return nil, err
	}
	question := model.Words(clip.Text(query, b.maxText))
	question = question[:min(len(question), questionTokens)]
	var parts [][]int
	for left := most; len(parts) < len(texts); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := passage(question, model.Words(clip.Text(texts[len(parts)], b.maxText)))
		if left -= len(question) + len(part) + 3; left < 0 && len(parts) > 0 {
			break
		}
		parts = append(parts, part)
	}
	scores := make([]float64, 0, len(parts))
	for len(scores) < len(parts) {
		n, tokens := b.next(ctx, len(question), parts[len(scores):])
		if n == 0 && len(scores) > 0 {
			break
		}
		start := time.Now()
		more, err := model.ScoreTokens(ctx, question, parts[len(scores):][:max(n, 1)], 0)
		took := time.Since(start) / time.Duration(tokens)
		if old := time.Duration(b.pace.Load()); old > 0 && err == nil {
			took = (3*old + took) / 4
		}
		b.pace.Store(int64(took))
		if err != nil {
			if ctx.Err() != nil && len(scores) > 0 {
				break
			}
			return nil, err
		}
		scores = append(scores, more...)
	}
	return scores, nil
}

// next returns how many of the texts can be scored at once before ctx ends, and the tokens of these, or of the first one if there is
// not time enough for any.
func (b *Builtin) next(ctx context.Context, question int, texts [][]int) (n, tokens int) {
	most := batch
	if deadline, ok := ctx.Deadline(); ok {
		most = 2 * textTokens // before anything is known
		if pace := b.pace.Load(); pace > 0 {
			most = min(batch, int(int64(time.Until(deadline))/pace))
		}
	}
	for n < len(texts) && tokens+question+len(texts[n])+3 <= most {
		tokens += question + len(texts[n]) + 3
		n++
	}
	if n == 0 {
		tokens = question + len(texts[0]) + 3
	}
	return n, tokens
}

// passage returns what the model reads of a text: all of it if it is short.
func passage(question, text []int) []int {
	if len(text) <= textTokens {
		return text
	}
	// A token of the question counts the less, the more places of the text have it.
	asked, places := map[int]bool{}, map[int]int{}
	for _, id := range question {
		asked[id] = true
	}
	for start := 0; start < len(text); start += stride {
		for id := range among(asked, text[start:min(start+stride, len(text))]) {
			places[id]++
		}
	}
	best, at := -1.0, 0
	for start := 0; start < len(text)-textTokens/2; start += stride {
		var worth float64
		for id := range among(asked, text[start:min(start+textTokens, len(text))]) {
			worth += 1 / float64(places[id])
		}
		if worth > best+1e-9 {
			best, at = worth, start
		}
	}
	if at == 0 {
		return text[:textTokens]
	}
	return append(append(make([]int, 0, textTokens), text[:lead]...), text[at:min(at+textTokens-lead, len(text))]...)
}

// among returns which of the ids that are asked for a text has.
func among(asked map[int]bool, text []int) map[int]bool {
	found := map[int]bool{}
	for _, id := range text {
		if asked[id] {
			found[id] = true
		}
	}
	return found
}
