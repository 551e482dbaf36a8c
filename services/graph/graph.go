// Package graph finds memories through shared concepts: titles, tags, keywords and names in the text.
//
// Index extracts a memory's concepts (extract.go), resolves its text against the known ones, and writes mentions, aliases
// and authors' links (index.go). The statements run on either engine (tables.go). Facts come from imports and from a language
// model (facts.go, extraction.go).
//
// The general process for a search is:
//  1. Take the namespace's image in memory, which follows the database (package replica). The graph is a part of it
//     (part.go, network.go).
//  2. Link the query to concepts: by name, then by similar spelling, else by similar vectors (link.go, fuzzy.go).
//  3. Compute personalised PageRank from these concepts (pagerank.go), or spread weights over a fixed number of hops (hops.go).
//  4. Return the best memories that pass the filter (search.go).
//
// If the image is not in memory, PostgreSQL searches by hop decay in SQL (walk.go). A search abstains if nothing in the
// query links.
package graph

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
)

const (
	// indexName names the index in the queue, model the model in its status.
	indexName = "graph"
	model     = "names"
	// coMention relates two concepts of one memory in paths. It is not stored.
	coMention = "co-mention"
	// maxConcepts bounds the concepts of a memory, maxPaired the co-mentioned ones.
	maxConcepts = 32
	maxPaired   = 12
	// maxMentions bounds the memories per concept of the query. The largest ids are kept, which are the newest.
	maxMentions = 1000
	// maxHops is how far hop decay goes from the query's concepts. Each hop passes on the share hopDecay of the weight. maxFrontier
	// bounds the concepts that are kept after each hop, by weight.
	maxHops     = 2
	hopDecay    = 0.5
	maxFrontier = 32
	// maxDegree is the largest number of mentions of a concept that passes weight on. A concept with more is a hub: it only contributes
	// its newest maxDegree memories. Concepts of the query may have startDegree times as many. It also bounds an author's links.
	maxDegree   = 32
	startDegree = 4
	// precision is the factor for rounding scores, so that summation order does not break ties.
	precision = 1e12
)

// Config is what the leg searches by, as flags. Without a traversal it is PageRank, which becomes hop decay in SQL on PostgreSQL while the
// namespace's graph is not in memory.
type Config struct {
	Traversal string `name:"graph-traversal" help:"How the graph leg searches when a request doesn't say: pagerank or hop-decay." enum:"pagerank,hop-decay" default:"pagerank" env:"TRISKELE_GRAPH_TRAVERSAL"`
	// Embedder makes vectors of concepts, facts and queries, so that a query also links by meaning. It may be nil.
	Embedder embed.Embedder `kong:"-"`
}

// specificity weighs a concept by its mentions: 0.76 for one, 0.22 for a hundred.
func specificity(mentions int64) float64 { return 1 / math.Log(math.E+float64(mentions)) }

// conceptID hashes a key to its id, so no look-up is needed.
func conceptID[T string | []byte](key T) int64 { return hash(key) }

// hash is 64 bits of SHA-256: a collision among a million texts has a probability of about one in 40 million.
func hash[T string | []byte](text T) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// Reasons to abstain.
const (
	reasonNoWords   = "the query has no words to link"
	reasonNotLinked = "the query matches no specific concept of the namespace"
	// Added to the reason why the graph is not in memory.
	searchedInSQL = ": searched by hop decay in SQL"
)

// candidates bounds the memories that hop decay checks: ample for a filter that only drops superseded and expired ones.
func candidates(q leg.Query) int {
	if q.Filter.Narrow() {
		return 5000
	}
	return max(8*q.Depth, 256)
}

func scoreKind(t triskelev1.Traversal) triskelev1.ScoreKind {
	if t == triskelev1.Traversal_TRAVERSAL_PAGERANK {
		return triskelev1.ScoreKind_SCORE_KIND_PAGERANK
	}
	return triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY
}
