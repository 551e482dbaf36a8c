// Package transformer runs models of the BERT architecture: it makes vectors for the tokens of texts, and scores pairs of texts
// (cross-encoders). Everything is Go, with assembly for x86-64 processors that have AVX2; other processors run the same model several
// times slower. The general process for a call is:
//
//  1. The tokenizer (package wordpiece) turns each text into the ids of its tokens, between [CLS] and [SEP].
//  2. Sequences are taken in groups of about 512 tokens, which bounds the memory of a call. A group's tokens are the rows of one
//     matrix, one sequence after the other, so that nothing is padded.
//  3. A row begins as the sum of the embeddings of the token, its position and its segment.
//  4. Each layer multiplies all rows by its weights (linear.go), and lets the rows of each sequence attend to each other
//     (attention.go). The innermost loops are in kernel.go and kernel_amd64.s.
//  5. The rows of a sequence are its hidden states. A cross-encoder makes one number of the first (score.go).
//
// A row's numbers do not depend on the other sequences of a call. A call ends soon after its context: between two layers.
package transformer

import (
	"context"
	"math"
	"sync"

	"github.com/triskele/triskele/fuser/transformer/wordpiece"
)

// group is the number of tokens that sequences are taken together for. A longer sequence is a group of its own.
const group = 512

// Model is a loaded model. It is safe for concurrent use.
type Model struct {
	config     config
	tokenizer  *wordpiece.Tokenizer
	start, end int // ids of [CLS] and [SEP]

	// Rows of width numbers are hidden_size rounded up to columns, and heads are rounded up too. The numbers between are 0.
	width, head         int
	words               table
	positions, segments []float32
	norm                norm
	layers              []layer

	pooler     linear
	classifier []float32
	bias       float32
	scores     error // why the model cannot score, or nil

	scratches, attentions sync.Pool
}

// layer has the weights of one layer.
type layer struct {
	attend        linear // queries, keys and values, each of all heads
	merge         linear
	merged        norm
	widen, narrow linear
	narrowed      norm
}

// scratch is memory for a group.
type scratch struct {
	states, attending, attended, changed, wide []float32
	quantized                                  quantized
}

// Dimensions returns the number of components of a hidden state.
func (m *Model) Dimensions() int { return m.config.Hidden }

// Positions returns how many tokens a sequence may have.
func (m *Model) Positions() int { return m.config.Positions }

// Tokens returns the ids of a text's tokens between [CLS] and [SEP], cut to limit tokens. Limits below 3 or above Positions mean
// Positions.
func (m *Model) Tokens(text string, limit int) []int {
	return m.enclose(m.tokenizer.IDs(text), m.limit(limit)-2)
}

func (m *Model) limit(limit int) int {
	if limit < 3 || limit > m.config.Positions {
		return m.config.Positions
	}
	return limit
}

func (m *Model) enclose(ids []int, most int) []int {
	ids = ids[:min(len(ids), most)]
	return append(append(append(make([]int, 0, len(ids)+2), m.start), ids...), m.end)
}

// Sequence is what the model reads at once.
type Sequence struct {
	IDs []int
	// Second is how many of the last tokens are of the second segment.
	Second int
}

// Hidden calls visit with the hidden states of each sequence in turn: Dimensions numbers for each token, which are valid during the
// call of visit only. The ids of sequences are those of Tokens. Its only error is ctx's.
func (m *Model) Hidden(ctx context.Context, sequences []Sequence, visit func(i int, states []float32)) error {
	s, _ := m.scratches.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	defer m.scratches.Put(s)
	for begin := 0; begin < len(sequences); {
		starts, end := []int{0}, begin
		for n := 0; end < len(sequences) && (n == 0 || n+len(sequences[end].IDs) <= group); end++ {
			n += len(sequences[end].IDs)
			starts = append(starts, n)
		}
		if err := m.forward(ctx, s, sequences[begin:end], starts); err != nil {
			return err
		}
		for i, start := range starts[:len(starts)-1] {
			visit(begin+i, m.compact(s.states[start*m.width:starts[i+1]*m.width]))
		}
		begin = end
	}
	return nil
}

// forward makes the states of a group of sequences.
func (m *Model) forward(ctx context.Context, s *scratch, sequences []Sequence, starts []int) error {
	n := up(starts[len(starts)-1], rows) // what the last rows have does not matter
	all := m.config.Heads * m.head
	s.states, s.changed = grow(s.states, n*m.width), grow(s.changed, n*m.width)
	s.attending, s.attended = grow(s.attending, n*3*all), grow(s.attended, n*all)
	s.wide = grow(s.wide, n*m.layers[0].widen.out)
	m.embed(s.states, sequences)
	activate := gelu
	if m.config.Activation == "relu" {
		activate = relu
	}
	for i := range m.layers {
		l := &m.layers[i]
		for _, step := range [...]func() error{
			func() error { return l.attend.apply(ctx, &s.quantized, s.attending, s.states, n, nil) },
			func() error { return m.attend(ctx, s, starts) },
			func() error { return l.merge.apply(ctx, &s.quantized, s.changed, s.attended, n, nil) },
			func() error { return l.merged.add(ctx, s.states, s.changed, n, m.width) },
			func() error { return l.widen.apply(ctx, &s.quantized, s.wide, s.states, n, activate) },
			func() error { return l.narrow.apply(ctx, &s.quantized, s.changed, s.wide, n, nil) },
			func() error { return l.narrowed.add(ctx, s.states, s.changed, n, m.width) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// embed sets the rows to the embeddings of their tokens.
func (m *Model) embed(states []float32, sequences []Sequence) {
	h, at := m.config.Hidden, 0
	for _, s := range sequences {
		for i, id := range s.IDs {
			segment := m.segments[:h]
			if i >= len(s.IDs)-s.Second {
				segment = m.segments[h : 2*h]
			}
			row := states[at : at+m.width]
			clear(row[h:])
			m.words.read(row[:h], id)
			position := m.positions[i*h:][:h]
			for k := range h {
				row[k] += segment[k] + position[k]
			}
			m.norm.apply(row[:h])
			at += m.width
		}
	}
}

// compact removes what is between rows of width numbers.
func (m *Model) compact(states []float32) []float32 {
	h, n := m.config.Hidden, len(states)/m.width
	for i := range n {
		copy(states[i*h:], states[i*m.width:][:h])
	}
	return states[:n*h]
}

// table has rows of numbers: floats, or bytes that a number of each row multiplies.
type table struct {
	width  int
	floats []float32
	bytes  []byte // of int8
	scales []float32
}

func (t *table) rows() int { return (len(t.floats) + len(t.bytes)) / t.width }

// read copies row i.
func (t *table) read(row []float32, i int) {
	if t.floats != nil {
		copy(row, t.floats[i*t.width:][:t.width])
		return
	}
	scale := t.scales[i]
	for k, b := range t.bytes[i*t.width:][:t.width] {
		row[k] = scale * float32(int8(b))
	}
}

// norm is a layer that normalises rows.
type norm struct {
	weight, bias []float32
	epsilon      float64
}

// add sets the n rows of x to the norm of x + y.
func (l *norm) add(ctx context.Context, x, y []float32, n, width int) error {
	return spread(ctx, n/rows, 10*n*width, func(task int) {
		for at := task * rows * width; at < (task+1)*rows*width; at += width {
			row, other := x[at:][:len(l.weight)], y[at:][:len(l.weight)]
			for k, v := range other {
				row[k] += v
			}
			l.apply(row)
		}
	})
}

func (l *norm) apply(row []float32) {
	var sum, squares float32
	for _, v := range row {
		sum += v
	}
	mean := sum / float32(len(row))
	for _, v := range row {
		squares += (v - mean) * (v - mean)
	}
	scale := float32(1 / math.Sqrt(float64(squares)/float64(len(row))+l.epsilon))
	for k, v := range row {
		row[k] = (v-mean)*scale*l.weight[k] + l.bias[k]
	}
}

func relu(x []float32) {
	for i, v := range x {
		x[i] = max(v, 0)
	}
}
