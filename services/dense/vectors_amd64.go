package dense

import "golang.org/x/sys/cpu"

// avx2 says whether the processor has the instructions of vectorSum, as all since about 2015 have.
var avx2 = cpu.X86.HasAVX2

// vectorSum is estimator.sum for rows codes of so many words: a third of the time of wordSum.
//
//go:noescape
func vectorSum(codes *uint64, rows, words int, planes *uint64, all int32, sums *int32)

// vectorDot is wordDot of n components, which must be whole lanes: an eighth of its time.
//
//go:noescape
func vectorDot(query *float32, halves *uint16, n int) float32
