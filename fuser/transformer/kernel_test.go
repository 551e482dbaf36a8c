package transformer

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/triskele/triskele/fuser/transformer/modeltest"
	"github.com/triskele/triskele/fuser/transformer/safetensors"
)

func random(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// distance is the largest difference of two slices, NaN if there is one.
func distance(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// TestTile compares the assembly and plain Go with sums of float64. It also checks that no number beside the tile is written.
func TestTile(t *testing.T) {
	t.Parallel()
	for name, f := range tiles() {
		r := rand.New(rand.NewPCG(1, 2))
		for _, k := range []int{4, 16, 48, 400} {
			panels := 1
			if name == "wide" {
				panels = 2
			}
			lda, ldc := k+r.IntN(5), panels*columns+r.IntN(40)
			a, b, bias := random(r, (rows-1)*lda+k, 1), random(r, panels*k*columns, 1), random(r, panels*columns, 1)
			want := random(r, rows*ldc, 1)
			c := slices.Clone(want)
			for i := range rows {
				for j := range panels * columns {
					sum := float64(bias[j])
					for l := range k {
						sum += float64(a[i*lda+l]) * float64(b[j/columns*k*columns+l*columns+j%columns])
					}
					want[i*ldc+j] = float32(sum)
				}
			}
			f(c, a, b, bias, lda, ldc)
			if d := distance(c, want); !(d < 1e-4) {
				t.Errorf("k=%d: the %s tile is off by %g", k, name, d)
			}
		}
	}
}

// tiles are the kernels of this processor.
func tiles() map[string]func(c, a, b, bias []float32, lda, ldc int) {
	out := map[string]func(c, a, b, bias []float32, lda, ldc int){"assembly": tile, "plain": plainTile}
	if wideTile != nil {
		out["wide"] = wideTile
	}
	return out
}

// TestBytes compares the product of bytes with sums of integers, which it has to be exactly but for the rounding of floats. It also
// checks that no number beside the tile is written.
func TestBytes(t *testing.T) {
	t.Parallel()
	if byteTile == nil {
		t.Skip("this processor has no instruction for it")
	}
	r := rand.New(rand.NewPCG(7, 8))
	for _, k := range []int{16, 48, 400, 1536} {
		lda, ldc := k+r.IntN(40), 2*columns+r.IntN(40)
		x, a, scales := make([]float32, rows*lda), make([]uint8, rows*lda), make([]float32, rows)
		for i := range rows {
			row := random(r, k, math.Exp(r.NormFloat64()*5))
			copy(x[i*lda:], row)
			scales[i] = quantize(a[i*lda:], row)
			most := slices.MaxFunc(row, func(a, b float32) int { return cmp.Compare(math.Abs(float64(a)), math.Abs(float64(b))) })
			for j, v := range row {
				want := 128 + math.RoundToEven(float64(v*(127/float32(math.Abs(float64(most))))))
				if got := a[i*lda+j]; float64(got) != want {
					t.Fatalf("%g of at most %g is %d, want %g", v, most, got, want)
				}
			}
			if want := float32(math.Abs(float64(most))) / 127; scales[i] != want {
				t.Errorf("the scale is %g, want %g", scales[i], want)
			}
		}
		l := linear{in: k, out: 2 * columns}
		weight, of, bias := make([]byte, k*l.out), random(r, l.out, 1), random(r, l.out, 1)
		for i := range weight {
			weight[i] = byte(r.IntN(256))
		}
		l.set(table{width: k, bytes: weight, scales: of}, bias, places(k, k, 0), places(l.out, l.out, 0))
		want := random(r, rows*ldc, 1)
		c := slices.Clone(want)
		for i := range rows {
			for j := range l.out {
				sum := 0
				for m := range k {
					sum += (int(a[i*lda+m]) - 128) * int(int8(weight[j*k+m]))
				}
				want[i*ldc+j] = float32(float64(sum)*float64(scales[i])*float64(of[j]) + float64(bias[j]))
			}
		}
		byteTile(c, a, l.bytes, scales, l.about, lda, ldc)
		for i := range c {
			if d := math.Abs(float64(c[i]) - float64(want[i])); !(d <= 1e-6*max(1, math.Abs(float64(want[i])))) {
				t.Fatalf("k=%d: number %d is %g, want %g", k, i, c[i], want[i])
			}
		}
	}
	for _, broken := range []float64{math.NaN(), math.Inf(1)} {
		row := make([]float32, 2*columns)
		row[1], row[3], row[columns+3] = 1, float32(broken), 2
		if scale := quantize(make([]uint8, len(row)), row); scale-scale == 0 {
			t.Errorf("the scale of a row with %g is %g", broken, scale)
		}
	}
	zeros := make([]uint8, columns)
	if scale := quantize(zeros, make([]float32, columns)); scale != 0 {
		t.Errorf("the scale of zeros is %g", scale)
	}
}

// TestBytesStayBytes: weights of bytes are not made floats where bytes are multiplied faster.
func TestBytesStayBytes(t *testing.T) {
	t.Parallel()
	shape := modeltest.Shape{Words: 9, Hidden: 64, Layers: 1, Heads: 2, Intermediate: 33, Positions: 9, Segments: 2, Labels: 1}
	tensors := shape.Tensors()
	modeltest.Random(tensors, rand.New(rand.NewPCG(1, 1)))
	folder := modeltest.Write(t, map[string]any{
		"config.json": shape.Config(), "vocab.txt": modeltest.Vocabulary(shape.Words, "[PAD]", "[UNK]", "[CLS]", "[SEP]"), "model.safetensors": modeltest.Safetensors(tensors, "I8"),
	})
	m, err := Load(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	l := m.layers[0]
	if bytes := byteTile != nil; (l.attend.bytes != nil) != bytes || (l.attend.panels == nil) != bytes || l.widen.bytes != nil {
		t.Errorf("the weights that attend are bytes: %v, floats: %v; those of 33 columns are bytes: %v", l.attend.bytes != nil, l.attend.panels != nil, l.widen.bytes != nil)
	}
}

// TestBytesBesideFloats: queries, keys and values are multiplied at once, so that none may be lost if one of them has another type.
func TestBytesBesideFloats(t *testing.T) {
	t.Parallel()
	shape := modeltest.Shape{Words: 9, Hidden: 64, Layers: 1, Heads: 2, Intermediate: 64, Positions: 9, Segments: 2}
	read := func(kind string) map[string]safetensors.Tensor {
		file := modeltest.Safetensors(shape.Tensors(), kind)
		tensors, err := safetensors.Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		return tensors
	}
	const self, scale = "encoder.layer.0.attention.self.", "encoder.layer.0.attention.self.query.weight.scale"
	for _, c := range []struct {
		query, others string
		refused       bool
	}{{"I8", "F32", byteTile != nil}, {"F32", "I8", false}} {
		r, queries := &reader{tensors: read(c.others)}, read(c.query)
		r.tensors[self+"query.weight"], r.tensors[scale] = queries[self+"query.weight"], queries[scale]
		l := linear{in: 64, out: 3 * 64}
		for part, kind := range []string{"query", "key", "value"} {
			to := places(64, 64, 0)
			for i := range to {
				to[i] += part * 64
			}
			r.linear(self+kind, &l, places(64, 64, 0), to)
		}
		if (r.err != nil) != c.refused || r.err == nil && l.panels == nil {
			t.Errorf("queries of %s beside %s: bytes %v, floats %v, %v", c.query, c.others, l.bytes != nil, l.panels != nil, r.err)
		}
	}
}

func TestExponentials(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for name, f := range map[string]func([]float32) float32{"assembly": exponentials, "plain": plainExponentials} {
		for _, n := range []int{8, 16, 80, 8000} {
			x := random(r, n, 20)
			x[n/2] = float32(math.Inf(-1))
			most, want, total := slices.Max(x), make([]float32, n), 0.0
			for i, v := range x {
				want[i] = float32(math.Exp(max(float64(v-most), -80)))
				total += float64(want[i])
			}
			sum := f(x)
			for i := range x {
				if d := math.Abs(float64(x[i]-want[i])) / float64(want[i]); !(d < 1e-6) {
					t.Fatalf("%s: number %d is %g, want %g", name, i, x[i], want[i])
				}
			}
			if math.Abs(float64(sum)-total) > 1e-5*total {
				t.Errorf("%s: the sum is %v, want %v", name, sum, total)
			}
		}
	}
}

func TestGELU(t *testing.T) {
	t.Parallel()
	var x []float32
	for v := -20.0; v < 20; v += 1.0 / 256 {
		x = append(x, float32(v))
	}
	want := make([]float32, len(x))
	for i, v := range x {
		want[i] = float32(float64(v) / 2 * (1 + math.Erf(float64(v)/math.Sqrt2)))
	}
	plain := slices.Clone(x)
	gelu(x)
	plainGELU(plain)
	if d := distance(x, want); !(d < 1e-6) {
		t.Errorf("gelu is off by %g", d)
	}
	if d := distance(plain, want); !(d < 1e-6) {
		t.Errorf("plainGELU is off by %g", d)
	}
	broken := slices.Repeat([]float32{float32(math.NaN())}, 8)
	if gelu(broken); broken[0] == broken[0] {
		t.Errorf("gelu hides that a number is none: %v", broken[0])
	}
}

func BenchmarkTile(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const k = 384
	a, w, bias, c := random(r, rows*k, 1), random(r, 2*k*columns, 1), random(r, 2*columns, 1), make([]float32, 2*rows*columns)
	for name, f := range tiles() {
		panels := 1
		if name == "wide" {
			panels = 2
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f(c, a, w[:panels*k*columns], bias, k, 2*columns)
			}
			b.ReportMetric(float64(2*rows*panels*columns*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}

func BenchmarkBytes(b *testing.B) {
	if byteTile == nil {
		b.Skip("this processor has no instruction for it")
	}
	const k = 384
	a, w, c := make([]uint8, rows*k), make([]int8, 2*k*columns), make([]float32, 2*rows*columns)
	scales, about := make([]float32, rows), make([]byteColumns, 2)
	for b.Loop() {
		byteTile(c, a, w, scales, about, k, 2*columns)
	}
	b.ReportMetric(float64(2*rows*2*columns*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "Gop/s")
}

func BenchmarkExponentials(b *testing.B) {
	x := random(rand.New(rand.NewPCG(1, 2)), 512, 3)
	for b.Loop() {
		exponentials(x)
	}
}

func BenchmarkGELU(b *testing.B) {
	x := random(rand.New(rand.NewPCG(1, 2)), 512, 3)
	for b.Loop() {
		gelu(x)
	}
}
