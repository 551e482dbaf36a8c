package transformer

import (
	"cmp"
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/panics"
)

// linear is a layer y = x*weight + bias. The weights are packed into panels of 16 columns, so that the innermost loop reads them
// in order. They are floats, or bytes if they were and the processor multiplies bytes faster.
type linear struct {
	in, out int // multiples of columns
	panels  []float32
	bias    []float32

	bytes []int8
	about []byteColumns // of the panels of bytes
}

// set puts weights, a row for each output, where from says for their inputs and to for their outputs. It reserves their memory, which
// a configuration without such weights may not. Bytes stay bytes if that is faster, and the sums of their rows fit 32 bits.
func (l *linear) set(weights table, bias []float32, from, to []int) {
	bytes := weights.bytes != nil && byteTile != nil && l.out%(2*columns) == 0 && l.in <= 1<<16 && l.panels == nil
	switch {
	case bytes && l.bytes == nil:
		l.bytes, l.about = make([]int8, l.in*l.out), make([]byteColumns, l.out/columns)
	case !bytes && l.panels == nil:
		l.panels, l.bias = make([]float32, l.in*l.out), make([]float32, l.out)
	}
	row := make([]float32, len(from))
	for o, place := range to {
		start, column := place/columns*columns*l.in, place%columns
		if bytes {
			panel, about := l.bytes[start:], &l.about[place/columns]
			for i, b := range weights.bytes[o*len(from):][:len(from)] {
				panel[from[i]/4*4*columns+4*column+from[i]%4] = int8(b)
				about.start[column] -= 128 * int32(int8(b))
			}
			about.scale[column], about.bias[column] = weights.scales[o], bias[o]
			continue
		}
		weights.read(row, o)
		panel := l.panels[start:]
		for i, x := range row {
			panel[from[i]*columns+column] = x
		}
		l.bias[place] = bias[o]
	}
}

// quantized is a matrix of bytes, with the number that each row is multiplied by.
type quantized struct {
	bytes  []uint8
	scales []float32
}

// set takes n rows of width numbers, n a multiple of rows.
func (q *quantized) set(ctx context.Context, x []float32, n, width int) error {
	q.bytes, q.scales = grow(q.bytes, n*width), grow(q.scales, n)
	return spread(ctx, n/rows, 2*n*width, func(task int) {
		for r := task * rows; r < (task+1)*rows; r++ {
			q.scales[r] = quantize(q.bytes[r*width:], x[r*width:][:width])
		}
	})
}

// apply computes y for n rows of x, n a multiple of rows. activate changes numbers of y in place, if it is not nil. q is memory.
func (l *linear) apply(ctx context.Context, q *quantized, y, x []float32, n int, activate func([]float32)) error {
	products := n * l.in * l.out
	if l.bytes != nil {
		if err := q.set(ctx, x, n, l.in); err != nil {
			return err
		}
		products /= 4
	}
	return spread(ctx, (l.out/columns+1)/2, products, func(task int) { // two panels, or one
		first := task * 2 * columns
		width := min(2*columns, l.out-first)
		if l.bytes != nil {
			weights, about := l.bytes[first*l.in:][:width*l.in], l.about[first/columns:]
			for r := 0; r < n; r += rows {
				byteTile(y[r*l.out+first:], q.bytes[r*l.in:], weights, q.scales[r:], about, l.in, l.out)
			}
		} else {
			product(y[first:], x, l.panels[first*l.in:], l.bias[first:], n, l.in, width, l.out)
		}
		if activate != nil {
			for r := range n {
				activate(y[r*l.out+first:][:width])
			}
		}
	})
}

// zeros is the bias of products that have none.
var zeros [2 * columns]float32

// product computes c = bias + a*b for n rows, a multiple of rows. b has panels of k components for width columns. Rows of a are k
// apart, and those of c ldc. A bias that is nil is 0.
func product(c, a, b, bias []float32, n, k, width, ldc int) {
	for p := 0; p < width; {
		f, next, start := tile, p+columns, zeros[:]
		if wideTile != nil && p+2*columns <= width {
			f, next = wideTile, p+2*columns
		}
		if bias != nil {
			start = bias[p:]
		}
		for r := 0; r < n; r += rows {
			f(c[r*ldc+p:], a[r*k:], b[p*k:next*k], start, k, ldc)
		}
		p = next
	}
}

// least is the number of products that is worth another goroutine: some 30 µs.
const least = 1 << 20

// spread does tasks 0 to n-1, which take about products multiplications together, on as many processors as they are worth. It ends
// between two tasks when ctx does: within about a millisecond.
func spread(ctx context.Context, n, products int, task func(i int)) error {
	var next atomic.Int64
	work := func() error {
		return panics.Catch(ctx, nil, "transformer", func() error {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := ctx.Err(); err != nil {
					return err
				}
				task(int(i - 1))
			}
			return nil
		})
	}
	var others errgroup.Group
	for range min(runtime.GOMAXPROCS(0), n, 1+products/least) - 1 {
		others.Go(work)
	}
	return cmp.Or(work(), others.Wait())
}
