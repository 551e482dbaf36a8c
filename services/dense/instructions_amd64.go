package dense

// estimateAVX2 is estimator.estimate of some groups. columns is a multiple of 4.
//
//go:noescape
func estimateAVX2(codes *byte, groups, columns int, tables *byte, all int32, bound float32, spans, estimates *float32, above *uint32)

// productsAVX2 is scalarProduct of the first four vectors. It takes little longer than one: each waits for its own sums. It fetches the
// other four ahead, which the next call is for.
//
//go:noescape
func productsAVX2(query *float32, vectors *[8]*byte, packs int, out *[4]float32)

// inStepsAVX2 rounds packs of components to steps. The squared numbers of steps are added up in eight parts, which have room for maxDimensions.
//
//go:noescape
func inStepsAVX2(halves *uint16, packs int, perStep float32, steps *int16, squares *[packed / 2]uint32)

// largestAVX2 returns the largest sizes of packs of components, of those in each place of a pack.
//
//go:noescape
func largestAVX2(halves *uint16, packs int, out *[packed]uint16)
