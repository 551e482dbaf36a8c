package dense

import "golang.org/x/sys/cpu"

func available() instructions {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPOPCNTDQ: // servers since about 2020
		return avx512
	case cpu.X86.HasAVX2: // nearly all since 2015
		return avx2
	}
	return scalar
}

// estimateAVX2 is estimator.estimate of rows codes with words words.
//
//go:noescape
func estimateAVX2(codes *uint64, rows, words int, planes *uint64, all int32, spans, products *float32)

// estimateAVX512 is estimateAVX2 with a popcount instruction.
//
//go:noescape
func estimateAVX512(codes *uint64, rows, words int, planes *uint64, all int32, spans, products *float32)

// dotAVX2 is scalarDot of n components, a multiple of dotLanes.
//
//go:noescape
func dotAVX2(query *float32, halves *uint16, n int) float32
