package client

import triskelev1 "github.com/triskele/triskele/proto/triskele/v1"

// Probabilities of relevance, on SCORE_SCALE_PROBABILITY. From Likely on a memory more likely answers than not. From Maybe on it
// is worth saying unasked: at most one in twenty prompts that a terse store does not answer has a memory above it. Below
// Possible it is noise, also to somebody who asked.
const (
	Likely   = 0.5
	Maybe    = 0.08
	Possible = 0.02
)

// Relevance names a probability of relevance: likely, maybe or unlikely.
func Relevance(probability float64) string {
	switch {
	case probability >= Likely:
		return "likely"
	case probability >= Maybe:
		return "maybe"
	}
	return "unlikely"
}

// Relevant is the MinScore of a recall that leaves out noise. It has no effect on scores of another scale.
func Relevant() *triskelev1.MinScore {
	return &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY, Value: Possible}
}

// Reread has a model in the gateway's process read the best memories again, if it has one and no policy says otherwise.
func Reread() *triskelev1.Rerank { return &triskelev1.Rerank{IfLocal: true} }
