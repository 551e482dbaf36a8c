package graph

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
)

// viaTogether relates two co-mentioned concepts.
const viaTogether = "mentioned with"

// way is a step of a hop-decay walk, from a concept or memory to a concept or memory. A nil memory means a concept.
type way struct {
	concept, fromConcept int64
	key                  string // of fromConcept
	memory, fromMemory   uuid.UUID
	relation             string
	back                 bool    // against the relation's direction
	share                float64 // contribution to the target's score or weight; 0 in keys of a map that has it
}

// via names the step.
func (w way) via() string {
	switch {
	case w.fromMemory != uuid.Nil && w.back:
		return viaLinked
	case w.relation == coMention:
		return viaTogether
	case w.back:
		return inverse(w.relation)
	}
	return w.relation
}

// better orders ways by their contribution.
func (w way) better(other way) bool {
	return cmp.Or(cmp.Compare(rounded(other.share), rounded(w.share)), cmp.Compare(w.fromConcept, other.fromConcept),
		compareIDs(w.fromMemory, other.fromMemory), cmp.Compare(w.via(), other.via())) < 0
}

// routes returns the path to each hit with the largest contributions, from a concept of the query, with the keys of concepts.
func routes(ways map[way]float64, hits []leg.Hit) [][]leg.Step {
	concepts, mentioned, reached := map[int64]way{}, map[uuid.UUID]way{}, map[uuid.UUID]way{}
	for w, share := range ways {
		w.share = share
		if w.memory == uuid.Nil {
			keep(concepts, w.concept, w)
			continue
		}
		if w.fromMemory == uuid.Nil {
			keep(mentioned, w.memory, w)
		}
		keep(reached, w.memory, w)
	}
	out := make([][]leg.Step, len(hits))
	for i, hit := range hits {
		last, found := reached[hit.ID]
		if !found {
			continue
		}
		path := []leg.Step{{Relation: last.via(), Memory: hit.ID}}
		if from := last.fromMemory; from != uuid.Nil {
			last = mentioned[from]
			path = append(path, leg.Step{Relation: last.via(), Memory: from})
		}
		for more := true; more; {
			step := leg.Step{Concept: last.key}
			last, more = concepts[last.fromConcept]
			step.Relation = last.via()
			path = append(path, step)
		}
		slices.Reverse(path)
		out[i] = path
	}
	return out
}

// keep stores the best way to a place.
func keep[K comparable](best map[K]way, to K, w way) {
	if known, ok := best[to]; !ok || w.better(known) {
		best[to] = w
	}
}
