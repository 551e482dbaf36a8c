package lexical

import "math"

// idf returns the inverse document frequency of a term that df of n documents have: ln(1 + (n - df + 0.5) / (df + 0.5)). It is
// positive for any df up to n.
func idf(n, df int64) float64 {
	return math.Log1p((float64(n-df) + 0.5) / (float64(df) + 0.5))
}

// saturation computes BM25's factor for a term's frequency in a document, without the idf: (k1 + 1) tf / (tf + k1 (1 - b + b
// length / average)). S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section
// 3.4. Frequencies and lengths are in tenths. It grows with the frequency and shrinks with the length.
type saturation struct {
	scale, constant, perLength float64
}

// newSaturation is for memories whose lengths have this average.
func newSaturation(k1, b, averageLength float64) saturation {
	sat := saturation{scale: k1 + 1, constant: 10 * k1 * (1 - b)}
	if averageLength > 0 {
		sat.perLength = 10 * k1 * b / averageLength
	}
	return sat
}

// of has conversions that forbid fused operations, so that all processors compute the same score.
func (s saturation) of(tf int, length uint16) float64 {
	f := float64(tf)
	return s.scale * f / (f + s.constant + float64(s.perLength*float64(length)))
}
