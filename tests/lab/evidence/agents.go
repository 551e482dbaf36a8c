package evidence

import (
	"slices"

	"github.com/triskele/triskele/fuser/shingles"
	"github.com/triskele/triskele/services/eval"
)

const (
	// shown is how many hits an agent is taken to read.
	shown = 10
	// alike is the resemblance from which a hit says what another has said.
	alike = 0.8
)

// waste is how many of the hits that an agent reads are of no use to it, whatever their relevance: means per query.
type waste struct {
	duplicates float64 // say what one before them says
	stale      float64 // have been replaced by another document, as the set's judges say
}

// reader judges hits of one set as an agent would that reads them.
type reader struct {
	set      *eval.Set
	sketches map[string]shingles.Sketch // by document
}

func newReader(set *eval.Set) *reader {
	r := &reader{set: set, sketches: make(map[string]shingles.Sketch, len(set.Memories))}
	for _, m := range set.Memories {
		r.sketches[set.Documents[m.GetId()]] = shingles.Of(m.GetTitle() + " " + m.GetContent())
	}
	return r
}

// read goes through the first hits of every query.
func (r *reader) read(rankings [][]string) waste {
	var w waste
	for i, q := range r.set.Queries {
		first := rankings[i][:min(shown, len(rankings[i]))]
		for at, id := range first {
			if slices.ContainsFunc(first[:at], func(before string) bool { return r.sketches[id].Similarity(r.sketches[before]) >= alike }) {
				w.duplicates++
			}
			if slices.Contains(q.Stale, id) {
				w.stale++
			}
		}
	}
	n := float64(max(len(r.set.Queries), 1))
	return waste{w.duplicates / n, w.stale / n}
}
