package graph

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// endKey hashes a memory's id for the far end of a link. A link outlives its target and must not reveal the deleted
// id.
func endKey(memory uuid.UUID) int64 {
	sum := sha256.Sum256(append([]byte("memory "), memory[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// authorLink is a link of one memory.
type authorLink struct {
	target   int64 // an endKey
	relation string
}

// authorLinks returns a record's distinct links.
func authorLinks(r record.Record) []authorLink {
	var out []authorLink
	seen := map[authorLink]bool{}
	for _, l := range r.Links {
		link := authorLink{endKey(l.Target), l.Relation}
		if l.Target != r.ID && !seen[link] {
			seen[link] = true
			out = append(out, link)
		}
	}
	return out
}
