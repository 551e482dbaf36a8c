package dense

import "math"

// estimator is a query quantized to 0, 1, 3, 5 or 7 steps per component, with signs. Its inner product with a code is the sum of
// all steps less twice those of components whose signs differ. These are looked up for a few components at a time.
type estimator struct {
	columns int // of first bits
	// tables have, for each half of each column, the steps that differ for each number of four bits.
	tables []byte
	bytes  [][256]uint16 // the same for each column; only if there are no instructions for tables
	all    int32         // the sum for a code with equal signs
	step   float32       // the step's size for a query of length 1
}

// steps are the candidates for steps per root mean square of the query's components. The one with the least error is
// taken: many for even components, few for a few large ones.
var steps = [...]float64{2.8, 1.8, 0.9}

// newEstimator quantizes a prepared query.
func newEstimator(query []float32) estimator {
	var squares float64
	counted := 0
	for _, x := range query {
		if x != 0 {
			squares += float64(x) * float64(x)
			counted++
		}
	}
	size, least := math.Sqrt(squares/float64(counted)), math.Inf(1)
	var step float32
	for _, n := range steps {
		perStep, failed := float32(n/size), float32(0)
		for _, x := range query {
			inSteps := max(x, -x) * perStep
			missing := float32(rounded(inSteps)) - inSteps
			failed += missing * missing
		}
		if of := float64(failed) / (n * n); of < least {
			step, least = float32(size/n), of
		}
	}
	columns := codeColumns(len(query))
	e := estimator{columns: columns, tables: make([]byte, 32*columns), step: step}
	for i, x := range query {
		n, positive := rounded(max(x, -x)/step), !math.Signbit(float64(x))
		table := e.tables[i/4*16:][:16]
		for bits := range table {
			if (bits>>(i%4)&1 == 1) != positive {
				table[bits] += byte(n)
			}
		}
		e.all += n
	}
	if !hasAVX2.Load() {
		e.bytes = make([][256]uint16, columns)
		for i := range e.bytes {
			for bits := range e.bytes[i] {
				e.bytes[i][bits] = uint16(e.tables[32*i+bits&15]) + uint16(e.tables[32*i+16+bits>>4])
			}
		}
	}
	return e
}

// rounded quantizes a number of steps.
func rounded(steps float32) int32 {
	switch {
	case steps < 0.5:
		return 0
	case steps >= 6:
		return 7
	default:
		return int32(steps)&^1 + 1
	}
}

// estimate estimates the inner products of consecutive groups of codes with the query, in steps. There are len(above) groups, one at
// least. A bit of above says which rows of a group are not below a bound.
func (e *estimator) estimate(codes []byte, spans, estimates []float32, bound float32, above []uint32) {
	_, _ = codes[len(above)*2*groupRows*e.columns-1], estimates[len(above)*groupRows-1] // bounds check for the assembly
	_ = spans[len(above)*groupRows-1]
	if e.bytes == nil {
		estimateAVX2(&codes[0], len(above), e.columns, &e.tables[0], e.all, bound, &spans[0], &estimates[0], &above[0])
		return
	}
	for i := range above {
		var signs, sizes [groupRows]uint16 // missed steps
		for column := range e.bytes {
			of := &e.bytes[column]
			bits := codes[(i*e.columns+column)*2*groupRows:][:2*groupRows]
			for row := range signs {
				signs[row] += of[bits[row]]
				sizes[row] += of[bits[groupRows+row]]
			}
		}
		above[i] = 0
		for row := range signs {
			at := i*groupRows + row
			bySigns, bySizes := float32(e.all-2*int32(signs[row]))*spans[at], float32(e.all-2*int32(sizes[row]))*spans[at]
			if estimates[at] = bySigns + bySizes/2; estimates[at] >= bound {
				above[i] |= 1 << row
			}
		}
	}
}
