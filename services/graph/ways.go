package graph

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
)

// viaTogether relates two co-mentioned concepts.
const viaTogether = "mentioned with"

// way is a step of a hop-decay walk, from a concept or memory to a concept or memory. A nil memory means
// a concept.
type way struct {
	concept, fromConcept int64
	memory, fromMemory   uuid.UUID
	relation             string
	back                 bool    // against the relation's direction
	share                float64 // contribution to the target's score or weight
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

// routes returns each memory's path with the largest contributions, from a concept of the query. Unreached memories
// have none.
func routes(ways []way, memories []uuid.UUID) [][]waypoint {
	concepts, mentioned, reached := map[int64]way{}, map[uuid.UUID]way{}, map[uuid.UUID]way{}
	for _, w := range ways {
		if w.memory == uuid.Nil {
			keep(concepts, w.concept, w)
			continue
		}
		if w.fromMemory == uuid.Nil {
			keep(mentioned, w.memory, w)
		}
		keep(reached, w.memory, w)
	}
	out := make([][]waypoint, len(memories))
	for i, memory := range memories {
		last, found := reached[memory]
		if !found {
			continue
		}
		path := []waypoint{{relation: last.via(), memory: memory}}
		if from := last.fromMemory; from != uuid.Nil {
			last = mentioned[from]
			path = append(path, waypoint{relation: last.via(), memory: from})
		}
		for at, more := last.fromConcept, true; more; at = last.fromConcept {
			last, more = concepts[at]
			path = append(path, waypoint{relation: last.via(), concept: at})
		}
		slices.Reverse(path)
		out[i] = path
	}
	return out
}

// idsOf returns the hits' ids.
func idsOf(hits []leg.Hit) []uuid.UUID {
	ids := make([]uuid.UUID, len(hits))
	for i, h := range hits {
		ids[i] = h.ID
	}
	return ids
}

// keep stores the best way to a place.
func keep[K comparable](best map[K]way, to K, w way) {
	if known, ok := best[to]; !ok || w.better(known) {
		best[to] = w
	}
}
