package transformer

import "golang.org/x/sys/cpu"

func init() {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return
	}
	tile = func(c, a, b, bias []float32, lda, ldc int) {
		k := len(b) / columns
		_, _, _ = c[(rows-1)*ldc+columns-1], a[(rows-1)*lda+k-1], bias[columns-1]
		tileAVX2(&c[0], &a[0], &b[0], &bias[0], k, lda, ldc)
	}
	if cpu.X86.HasAVX512F {
		wideTile = func(c, a, b, bias []float32, lda, ldc int) {
			k := len(b) / (2 * columns)
			_, _, _ = c[(rows-1)*ldc+2*columns-1], a[(rows-1)*lda+k-1], bias[2*columns-1]
			tileAVX512(&c[0], &a[0], &b[0], &bias[0], k, lda, ldc)
		}
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512VNNI {
		byteTile = func(c []float32, a []uint8, b []int8, scales []float32, about []byteColumns, lda, ldc int) {
			k := len(b) / (2 * columns)
			_, _, _, _ = c[(rows-1)*ldc+2*columns-1], a[(rows-1)*lda+k-1], scales[rows-1], about[1]
			tileVNNI(&c[0], &a[0], &b[0], &scales[0], &about[0], k, lda, ldc)
		}
		quantize = func(to []uint8, x []float32) float32 {
			_ = to[len(x)-1]
			return quantizeAVX512(&to[0], &x[0], len(x))
		}
	}
	exponentials = func(x []float32) (sum float32) { return expAVX2(&x[0], len(x), &expConstants[0]) }
	gelu = func(x []float32) { geluAVX2(&x[0], len(x), &geluConstants[0]) }
}

// tileAVX2 needs k to be a multiple of 4.
//
//go:noescape
func tileAVX2(c, a, b, bias *float32, k, lda, ldc int)

// tileAVX512 needs k to be a multiple of 4.
//
//go:noescape
func tileAVX512(c, a, b, bias *float32, k, lda, ldc int)

// tileVNNI needs k to be a multiple of 16.
//
//go:noescape
func tileVNNI(c *float32, a *uint8, b *int8, scales *float32, about *byteColumns, k, lda, ldc int)

//go:noescape
func quantizeAVX512(to *uint8, x *float32, n int) float32

//go:noescape
func expAVX2(x *float32, n int, constants *float32) float32

//go:noescape
func geluAVX2(x *float32, n int, constants *float32)
