//go:build !amd64

package transformer

func tile(c, a, b, bias []float32, lda, ldc int) { plainTile(c, a, b, bias, lda, ldc) }

func exponentials(x []float32) (sum float32) { return plainExponentials(x) }

func gelu(x []float32) { plainGELU(x) }
