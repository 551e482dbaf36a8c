package graph

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// endKey hashes a memory's id for the far end of a link. A link outlives its target and must not reveal the deleted
// id.
func endKey(memory uuid.UUID) int64 { return hash("memory " + string(memory[:])) }

// authorLink is a link of one memory.
type authorLink struct {
	Target   int64  `json:"to"` // an endKey
	Relation string `json:"as"`
}

// authorLinks returns a record's distinct links, sorted.
func authorLinks(r record.Record) []authorLink {
	var out []authorLink
	for _, l := range r.Links {
		if l.Target != r.ID {
			out = append(out, authorLink{endKey(l.Target), l.Relation})
		}
	}
	slices.SortFunc(out, func(a, b authorLink) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Relation, b.Relation))
	})
	return slices.Compact(out)
}
