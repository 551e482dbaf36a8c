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
// in order.
type linear struct {
	in, out int // multiples of columns
	panels  []float32
	bias    []float32
}

// set puts weights, a row for each output, where from says for their inputs and to for their outputs. It reserves their memory, which
// a configuration without such weights may not.
func (l *linear) set(weight, bias []float32, from, to []int) {
	if l.panels == nil {
		l.panels, l.bias = make([]float32, l.in*l.out), make([]float32, l.out)
	}
	for o, place := range to {
		panel := l.panels[place/columns*columns*l.in:]
		for i, x := range weight[o*len(from) : (o+1)*len(from)] {
			panel[from[i]*columns+place%columns] = x
		}
		l.bias[place] = bias[o]
	}
}

// apply computes y for n rows of x, n a multiple of rows. activate changes numbers of y in place, if it is not nil.
func (l *linear) apply(ctx context.Context, y, x []float32, n int, activate func([]float32)) error {
	f, panels := tile, 1 // of a task
	if wideTile != nil && l.out%(2*columns) == 0 {
		f, panels = wideTile, 2
	}
	return spread(ctx, l.out/columns/panels, n*l.in*l.out, func(task int) {
		first := task * panels * columns
		weights := l.panels[first*l.in:][:panels*columns*l.in]
		product(f, y[first:], x, weights, l.bias[first:], n, l.in, l.out)
		if activate != nil {
			for r := range n {
				activate(y[r*l.out+first:][:panels*columns])
			}
		}
	})
}

// product computes as many columns of c = bias + a*b as f has, for n rows, a multiple of rows.
func product(f func(c, a, b, bias []float32, lda, ldc int), c, a, b, bias []float32, n, lda, ldc int) {
	for r := 0; r < n; r += rows {
		f(c[r*ldc:], a[r*lda:], b, bias, lda, ldc)
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
