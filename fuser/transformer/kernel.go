package transformer

import "math"

// rows and columns are the size of a tile: the part of a product that registers hold while it is computed.
const rows, columns = 6, 16

// The innermost loops are assembly on processors that have its instructions (kernel_amd64.go).
var (
	// tile computes a tile of a product, c = bias + a*b. Rows of a and c are lda and ldc apart. b is a panel: for each component of
	// a's rows the 16 numbers of b's columns. There are a multiple of 4 of these components.
	tile = plainTile
	// wideTile computes two tiles that lie side by side, of two panels that follow each other. It is nil where that is no faster.
	wideTile func(c, a, b, bias []float32, lda, ldc int)
	// byteTile computes the same two tiles of a product of bytes. a has what quantize wrote, and scales what it returned for each
	// row. b is two panels: for each four components of a's rows four numbers of each column. It is nil where that is no faster.
	byteTile func(c []float32, a []uint8, b []int8, scales []float32, about []byteColumns, lda, ldc int)
	// quantize writes 128 + x/scale, rounded, and returns the scale, by which the greatest |x| becomes 127. The scale of zeros is 0. That
	// of a row with a number that is none is none, so that it shows. The length of x is a multiple of columns. It is there if byteTile is.
	quantize func(to []uint8, x []float32) (scale float32)
	// exponentials replaces each x by exp(x - maximum), at least exp(-80), and returns the sum. The length is a multiple of 8.
	exponentials = plainExponentials
	// gelu replaces each x by x/2 (1 + erf(x/sqrt(2))). The length is a multiple of 8.
	gelu = plainGELU
)

// byteColumns is what turns the sums of a panel's columns into numbers: start + sum, times scale, plus bias. start takes away what
// the 128 of the components adds.
type byteColumns struct {
	start       [columns]int32
	scale, bias [columns]float32
}

func plainTile(c, a, b, bias []float32, lda, ldc int) {
	k := len(b) / columns
	for r := range rows {
		out, row := c[r*ldc:r*ldc+columns], a[r*lda:r*lda+k]
		for j := 0; j < columns; j += 4 {
			s0, s1, s2, s3 := bias[j], bias[j+1], bias[j+2], bias[j+3]
			at := j
			for _, x := range row {
				w := b[at : at+4 : at+4]
				s0 += x * w[0]
				s1 += x * w[1]
				s2 += x * w[2]
				s3 += x * w[3]
				at += columns
			}
			out[j], out[j+1], out[j+2], out[j+3] = s0, s1, s2, s3
		}
	}
}

// expConstants are the least exponent, log2(e), -ln(2) in two parts, and the coefficients of a polynomial that is exp(r) for
// |r| <= ln(2)/2, from the highest power to the first (the zeroth is 1 too).
var expConstants = [...]float32{
	-80, math.Log2E, -0.693359375, 2.12194440e-4,
	0.00138145, 0.00836878, 0.04166839, 0.1666652, 0.49999994, 1,
}

func plainExponentials(x []float32) (sum float32) {
	most := x[0]
	for _, v := range x {
		if v > most {
			most = v
		}
	}
	for i, v := range x {
		c := &expConstants
		v = max(v-most, c[0])
		n := float32(math.RoundToEven(float64(v * c[1])))
		r := v + n*c[2] + n*c[3]
		p := ((((c[4]*r+c[5])*r+c[6])*r+c[7])*r+c[8])*r + c[9]
		x[i] = (p*r + 1) * math.Float32frombits(uint32(int32(n)+127)<<23)
		sum += x[i]
	}
	return sum
}

// geluConstants are sqrt(1/2), the bounds of erf's argument, 1/2, and the coefficients of a quotient of polynomials in t² that is
// erf(t)/t, from the highest power.
var geluConstants = [...]float32{
	math.Sqrt2 / 2, 4, -4, 0.5,
	-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
	-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02,
}

func plainGELU(x []float32) {
	c := &geluConstants
	for i, v := range x {
		t := max(min(v*c[0], c[1]), c[2])
		s := t * t
		p := (((((c[4]*s+c[5])*s+c[6])*s+c[7])*s+c[8])*s+c[9])*s + c[10]
		q := (((c[11]*s+c[12])*s+c[13])*s+c[14])*s + c[15]
		v *= c[3]
		x[i] = v + v*t*p/q
	}
}
