package train

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	blasgonum "gonum.org/v1/gonum/blas/gonum"

	"github.com/triskele/triskele/services/embed/static"
)

// side is one of the two texts of an example: words with how much each counts.
type side struct {
	words []int32
	times []float32
	key   uint64 // of the text: sides with the same key say the same
}

// table is what is trained: a vector per word, of which the first ones change.
type table struct {
	columns int
	vectors []float32 // a row per word
	trained int       // rows that change
	squares []float32 // Adagrad's sums of squared gradients of those
}

// newTable gives each word with a row its start, weighted as in Arora, Liang and Ma, "A Simple but Tough-to-Beat Baseline
// for Sentence Embeddings", ICLR 2017, and each word its spelling. As vectors are trained with their weights in them, the
// weights are trained too.
func newTable(v *vocabulary, options Options, start [][]float32) *table {
	t := &table{
		columns: options.Columns, trained: v.rows,
		vectors: make([]float32, len(v.words)*options.Columns), squares: make([]float32, v.rows*options.Columns),
	}
	parallel(len(v.words), func(from, to int) {
		var grams []uint64
		for i := from; i < to; i++ {
			vector, word := t.vector(int32(i)), []byte(v.words[i])
			if i >= v.rows {
				grams = static.Spell(vector, word, float32(options.Unknown), grams)
				continue
			}
			grams = static.Spell(vector, word, float32(options.Spelling), grams)
			weight := float32(options.SIF / (options.SIF + float64(v.counts[i])/float64(v.total)))
			for k, x := range start[i] {
				vector[k] = weight * (vector[k] + x)
			}
		}
	})
	return t
}

func (t *table) vector(i int32) []float32 {
	return t.vectors[int(i)*t.columns : (int(i)+1)*t.columns]
}

// embed writes the vectors of texts to out, row by row, and returns the lengths by which they were divided: those of the
// sums of their words' vectors with one more component, constant.
func (t *table) embed(out []float32, sides []side, constant float32) []float32 {
	lengths := make([]float32, len(sides))
	parallel(len(sides), func(from, to int) {
		for i := from; i < to; i++ {
			row := out[i*t.columns : (i+1)*t.columns]
			clear(row)
			for n, word := range sides[i].words {
				times := sides[i].times[n]
				for d, x := range t.vector(word) {
					row[d] += times * x
				}
			}
			squares := constant * constant
			for _, x := range row {
				squares += x * x
			}
			lengths[i] = max(float32(math.Sqrt(float64(squares))), 1e-6)
			for d := range row {
				row[d] /= lengths[i]
			}
		}
	})
	return lengths
}

// contrast is the training and its memory.
type contrast struct {
	*table
	batch                       int
	temperature, rate, constant float32
	a, b, da, db                []float32 // batch × columns
	scores                      []float32 // batch × batch
	byRow, byColumn             []float64
	uses                        []use
}

// use is an occurrence of a row in a batch.
type use struct {
	word int32
	at   int32   // side a of example at, or side b of example at-batch
	by   float32 // how much it counts there
}

func newContrast(t *table, o Options) *contrast {
	n := o.Batch * t.columns
	return &contrast{
		table: t, batch: o.Batch, temperature: float32(o.Temperature), rate: float32(o.Rate), constant: float32(o.Constant),
		a: make([]float32, n), b: make([]float32, n), da: make([]float32, n), db: make([]float32, n),
		scores: make([]float32, o.Batch*o.Batch), byRow: make([]float64, o.Batch), byColumn: make([]float64, o.Batch),
	}
}

// step lowers the loss that asks to tell each text's partner from the other texts of the batch, in both directions:
// InfoNCE (van den Oord et al. 2018) over cosines divided by the temperature. It returns the mean loss before the step,
// in nats. Rows change by Adagrad (Duchi et al. 2011).
func (c *contrast) step(a, b []side) float64 {
	n, d := c.batch, c.columns
	lengthsA, lengthsB := c.embed(c.a, a, 0), c.embed(c.b, b, c.constant)
	var dot blasgonum.Implementation
	dot.Sgemm(blas.NoTrans, blas.Trans, n, n, d, 1/c.temperature, c.a, d, c.b, d, 0, c.scores, n)
	// Cosines are bounded, and so their exponentials are: no maximum has to be subtracted first.
	diagonal := make([]float64, n)
	parallel(n, func(from, to int) {
		for i := from; i < to; i++ {
			row := c.scores[i*n : (i+1)*n]
			diagonal[i] = float64(row[i])
			var sum float64
			for j := range row {
				if j != i && (a[i].key == a[j].key || b[i].key == b[j].key) {
					row[j] = 0 // as right as the partner: not a mistake
					continue
				}
				row[j] = float32(math.Exp(float64(row[j])))
				sum += float64(row[j])
			}
			c.byRow[i] = sum
		}
	})
	parallel(n, func(from, to int) {
		clear(c.byColumn[from:to])
		for i := range n {
			for j := from; j < to; j++ {
				c.byColumn[j] += float64(c.scores[i*n+j])
			}
		}
	})
	var loss float64
	for i := range n {
		loss += (math.Log(c.byRow[i])+math.Log(c.byColumn[i]))/2 - diagonal[i]
	}
	scale := 1 / (c.temperature * float32(n))
	parallel(n, func(from, to int) {
		for i := from; i < to; i++ {
			row := c.scores[i*n : (i+1)*n]
			one := 0.5 / c.byRow[i]
			for j := range row {
				row[j] *= scale * float32(one+0.5/c.byColumn[j])
			}
			row[i] -= scale
		}
	})
	dot.Sgemm(blas.NoTrans, blas.NoTrans, n, d, n, 1, c.scores, n, c.b, d, 0, c.da, d)
	dot.Sgemm(blas.Trans, blas.NoTrans, n, d, n, 1, c.scores, n, c.a, d, 0, c.db, d)
	c.throughLength(c.da, c.a, lengthsA)
	c.throughLength(c.db, c.b, lengthsB)
	c.update(a, b)
	return loss / float64(n)
}

// throughLength turns gradients of unit vectors into gradients of the sums that were scaled to them.
func (c *contrast) throughLength(gradients, units, lengths []float32) {
	d := c.columns
	parallel(c.batch, func(from, to int) {
		for i := from; i < to; i++ {
			g, u := gradients[i*d:(i+1)*d], units[i*d:(i+1)*d]
			var along float32
			for k := range g {
				along += g[k] * u[k]
			}
			for k := range g {
				g[k] = (g[k] - along*u[k]) / lengths[i]
			}
		}
	})
}

// update changes the rows of the batch's words. A row's gradients are added in the order of the examples, whatever the
// number of processors.
func (c *contrast) update(a, b []side) {
	c.uses = c.uses[:0]
	for at, s := range slices.Concat(a, b) {
		for n, word := range s.words {
			if int(word) < c.trained {
				c.uses = append(c.uses, use{word, int32(at), s.times[n]})
			}
		}
	}
	slices.SortStableFunc(c.uses, func(x, y use) int { return cmp.Compare(x.word, y.word) })
	var starts []int
	for i := range c.uses {
		if i == 0 || c.uses[i].word != c.uses[i-1].word {
			starts = append(starts, i)
		}
	}
	starts = append(starts, len(c.uses))
	d := c.columns
	parallel(len(starts)-1, func(from, to int) {
		sum := make([]float32, d)
		for s := from; s < to; s++ {
			clear(sum)
			for _, u := range c.uses[starts[s]:starts[s+1]] {
				gradients, at := c.da, int(u.at)
				if at >= c.batch {
					gradients, at = c.db, at-c.batch
				}
				for k, g := range gradients[at*d : (at+1)*d] {
					sum[k] += u.by * g
				}
			}
			word := int(c.uses[starts[s]].word)
			vector, squares := c.vector(int32(word)), c.squares[word*d:(word+1)*d]
			for k, g := range sum {
				squares[k] += g * g
				if squares[k] > 0 {
					vector[k] -= c.rate * g / float32(math.Sqrt(float64(squares[k])))
				}
			}
		}
	})
}
