package dense

// estimateAVX2 is estimator.estimate of some groups. columns is a multiple of 4.
//
//go:noescape
func estimateAVX2(codes *byte, groups, columns int, tables *byte, all int32, bound float32, spans, estimates *float32, above *uint32)

// dotsAVX2 is scalarDot of n components of the first four vectors, a multiple of dotLanes. It takes little longer than one: each waits
// for its own sums. It fetches the other four ahead, which the next call is for.
//
//go:noescape
func dotsAVX2(query *float32, halves *[8]*uint16, n int, dots *[4]float32)
