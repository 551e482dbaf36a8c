package rerank

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"math"
	"math/bits"
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
	lead, stride = 20, 20
	// firstWord is the first word of BERT's vocabulary, after signs and letters: "the".
	firstWord = 1996
	// batch is the number of tokens that are scored at once: enough to keep all processors busy.
	batch = 384
	// A call reads perText tokens for each text that it gets, and least at least: ten turns of a conversation, or five notes of a
	// hundred words.
	perText, least = 77, 768
)

// Builtin is the cross-encoder in the program. It is loaded when it is first asked, and safe for concurrent use.
type Builtin struct {
	once    sync.Once
	loaded  chan struct{} // closed when model or broken is there
	model   *transformer.Model
	broken  error
	maxText int
	pace    atomic.Int64 // nanoseconds that a token took lately; 0 before the first
}

var _ gateway.Reranker = (*Builtin)(nil)

// NewBuiltin returns the model, which reads at most maxText bytes of a text.
func NewBuiltin(maxText int) *Builtin { return &Builtin{maxText: maxText, loaded: make(chan struct{})} }

// load returns the model. It does not wait for it longer than ctx lasts.
func (b *Builtin) load(ctx context.Context) (*transformer.Model, error) {
	b.once.Do(func() {
		go func() {
			defer close(b.loaded)
			folder, err := fs.Sub(files, "model")
			if err == nil {
				b.model, err = transformer.Load(folder)
			}
			b.broken = err
		}()
	})
	select {
	case <-b.loaded:
		return b.model, b.broken
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Rerank implements gateway.Reranker. The scores are the model's logits. It scores the first texts: as many as their number of tokens
// allows, and the time until ctx's deadline.
func (b *Builtin) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	model, err := b.load(ctx)
	if err != nil {
		return nil, err
	}
	question := model.Words(clip.Text(query, b.maxText))
	question = question[:min(len(question), questionTokens)]
	var parts [][]int
	for left := max(least, perText*len(texts)); len(parts) < len(texts); {
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
		b.learn(time.Since(start), tokens, err)
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

// learn remembers how long a token took, or takes at least if there was not time enough.
func (b *Builtin) learn(spent time.Duration, tokens int, err error) {
	took, old := spent/time.Duration(tokens), time.Duration(b.pace.Load())
	switch {
	case errors.Is(err, context.Canceled):
		return
	case err != nil:
		took = max(old, 2*took)
	case old > 0:
		took = (3*old + took) / 4
	}
	b.pace.Store(int64(took))
}

// next returns how many of the texts can be scored at once before ctx ends, and the tokens of these, or of the first one if there is
// not time enough for any.
func (b *Builtin) next(ctx context.Context, question int, texts [][]int) (n, tokens int) {
	most := batch
	if deadline, ok := ctx.Deadline(); ok {
		most = 0 // before anything is known: one text
		if pace := b.pace.Load(); pace > 0 {
			most = min(batch, int(4*int64(time.Until(deadline))/5/pace)) // some batches take longer
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
	// One bit for each token of the question, which are fewer than 64.
	asked, found := map[int]uint64{}, make([]uint64, len(text))
	for i, id := range question {
		asked[id] = 1 << i
	}
	for i, id := range text {
		found[i] = asked[id]
	}
	best, at, last := -1.0, 0, 0
	for start := 0; start < len(text)-textTokens/2; start += stride {
		end := start + textTokens - lead
		if start == 0 {
			end = textTokens
		}
		var shared uint64
		for _, bit := range found[start:min(end, len(text))] {
			shared |= bit
		}
		var worth float64
		for ; shared != 0; shared &= shared - 1 {
			worth += rarity(question[bits.TrailingZeros64(shared)])
		}
		switch {
		case worth > best+1e-9:
			best, at, last = worth, start, start
		case worth > best-1e-9 && start == last+stride:
			last = start
		}
	}
	// What matches lies in all of the parts from at to last: the middle one has most of what stands around it. But if the beginning
	// is among the best, then it is best: it says what the text is about.
	if at > 0 {
		at += (last - at) / 2
	}
	if at < lead {
		return text[:textTokens]
	}
	return append(append(make([]int, 0, textTokens), text[:lead]...), text[at:min(at+textTokens-lead, len(text))]...)
}

// rarity is the greater, the rarer a token is in English: words, from the id firstWord on, have the order of their frequency.
func rarity(id int) float64 { return math.Log(float64(max(id-firstWord, 0) + 2)) }
