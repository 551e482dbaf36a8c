package graph

import (
	"cmp"
	"slices"
)

const (
	// maxQueryWords is how much of a query is linked, maxNameWords how long a concept's name can be.
	maxQueryWords = 256
	maxNameWords  = 8
	// maxStarts is how many concepts a search starts from, the most specific ones.
	maxStarts = 16
	// hubFloor is how many memories may mention a concept before it can be a hub, and hubShare the part of the
	// namespace's memories, one in so many, that makes it one. Counting stops at hubCount memories.
	hubFloor = 50
	hubShare = 5
	hubCount = hubShare * maxMentions
)

// start is a concept of the query.
type start struct {
	concept  int64
	mentions int64
}

// queryPhrases returns the runs of words of a query that may name a concept.
func queryPhrases(text string) []phrase { return phrases(words(text, maxQueryWords), maxNameWords) }

func conceptIDs(ps []phrase) []int64 {
	ids := make([]int64, len(ps))
	for i, p := range ps {
		ids[i] = p.concept
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// link picks the concepts to start from among the known ones, given as mentions by id. A concept that more than a fifth
// of the namespace's memories mention says little; it links only if nothing else does. memories counts the namespace's
// memories, up to hubCount; it is called only if a concept might be such a hub.
func link(ps []phrase, known map[int64]int64, memories func() (int64, error)) ([]start, error) {
	var starts []start
	suspect := false
	for _, p := range longest(ps, known) {
		starts = append(starts, start{p.concept, known[p.concept]})
		suspect = suspect || known[p.concept] > hubFloor
	}
	if suspect {
		n, err := memories()
		if err != nil {
			return nil, err
		}
		limit := max(hubFloor, n/hubShare)
		if specific := slices.DeleteFunc(slices.Clone(starts), func(s start) bool { return s.mentions > limit }); len(specific) > 0 {
			starts = specific
		}
	}
	slices.SortFunc(starts, func(a, b start) int {
		return cmp.Or(cmp.Compare(a.mentions, b.mentions), cmp.Compare(a.concept, b.concept))
	})
	return starts[:min(len(starts), maxStarts)], nil
}
