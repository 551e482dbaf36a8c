package transformer

import (
	"context"
	"math"
)

// block is how many rows of a sequence attend at once: a multiple of rows, small enough for the processor's cache.
const block = 8 * rows

// attention is the memory for one head of one sequence.
type attention struct {
	keys, values           []float32 // panels
	query, weights, merged []float32 // of a block
}

// attend lets the tokens of each sequence attend to each other, head by head. It reads queries, keys and values from
// s.attending and writes to s.attended. starts are the first rows of the sequences, and the row after the last.
func (m *Model) attend(ctx context.Context, s *scratch, starts []int) error {
	heads, products := m.config.Heads, 0
	for i, start := range starts[1:] {
		products += (start - starts[i]) * (start - starts[i]) * 2 * m.head * heads
	}
	return spread(ctx, (len(starts)-1)*heads, products, func(task int) {
		a, _ := m.attentions.Get().(*attention)
		if a == nil {
			a = new(attention)
		}
		defer m.attentions.Put(a)
		start, end := starts[task/heads], starts[task/heads+1]
		at := task % heads * m.head
		a.run(s.attending[start*3*heads*m.head+at:], s.attended[start*heads*m.head+at:], end-start, m.head, heads*m.head,
			float32(1/math.Sqrt(float64(m.config.Hidden/heads))))
	})
}

// run computes one head of a sequence of n tokens. from has rows of 3*all numbers, in which queries, keys and values are all
// numbers apart; to has rows of all numbers.
func (a *attention) run(from, to []float32, n, head, all int, scale float32) {
	wide := up(n, columns)
	a.pack(from, n, head, all)
	a.query, a.merged = grow(a.query, block*head), grow(a.merged, block*head)
	a.weights = grow(a.weights, block*wide)
	var sums [block]float32
	for start := 0; start < n; start += block {
		here := min(block, n-start)
		for r := range here {
			for k, x := range from[(start+r)*3*all:][:head] {
				a.query[r*head+k] = x * scale
			}
		}
		product(a.weights, a.query, a.keys, nil, up(here, rows), head, wide, wide)
		for r := range here {
			row := a.weights[r*wide : (r+1)*wide]
			for k := n; k < wide; k++ {
				row[k] = float32(math.Inf(-1))
			}
			sums[r] = exponentials(row)
		}
		product(a.merged, a.weights, a.values, nil, up(here, rows), wide, head, head)
		for r := range here {
			out := to[(start+r)*all:][:head]
			for k, x := range a.merged[r*head : (r+1)*head] {
				out[k] = x / sums[r]
			}
		}
	}
}

// pack puts keys and values into panels. What is beyond the last token is 0.
func (a *attention) pack(from []float32, n, head, all int) {
	wide := up(n, columns)
	a.keys, a.values = grow(a.keys, wide*head), grow(a.values, wide*head)
	clear(a.keys[(wide-columns)*head:])
	for token := range n {
		row := from[token*3*all:]
		panel := a.keys[token/columns*columns*head+token%columns:]
		for k, x := range row[all:][:head] {
			panel[k*columns] = x
		}
		for p := 0; p < head; p += columns {
			copy(a.values[p*wide+token*columns:][:columns], row[2*all+p:])
		}
	}
	for p := 0; p < head; p += columns {
		clear(a.values[p*wide+n*columns : (p+columns)*wide])
	}
}

// grow returns a slice of n numbers, in the memory of x if that suffices.
func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
