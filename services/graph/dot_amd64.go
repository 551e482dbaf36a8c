package graph

import "golang.org/x/sys/cpu"

// hasDot reports whether the processor has the instructions of dotAVX2.
var hasDot = cpu.X86.HasAVX2

// dotAVX2 is an inner product of n components, a multiple of 16.
//
//go:noescape
func dotAVX2(a, b *byte, n int) int32
