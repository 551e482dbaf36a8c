// Package graph finds memories through shared concepts: titles, tags, keywords and names in the text.
//
// Index extracts a memory's concepts (extract.go), resolves its text against the known ones, and writes mentions, edges
// and authors' links. Facts come from imports and from a language model (facts.go, extraction.go).
//
// The general process for a PageRank search is:
//  1. Load the namespace's graph into memory, or apply its changes (replica.go, network.go).
//  2. Link the query to concepts: by name, then by similar spelling, else by similar vectors (link.go, fuzzy.go).
//  3. Compute personalised PageRank from these concepts and the seeds of the request (pagerank.go).
//  4. Check the best memories against the filter in the database (search.go).
//
// A search by hop decay spreads weights over a fixed number of hops instead: in memory on SQLite, in SQL on PostgreSQL.
// A search abstains if nothing in the query links.
package graph

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

const (
	// indexName names the index in the queue, model the model in its status.
	indexName = "graph"
	model     = "names"
	// coMention relates two concepts of one memory.
	coMention = "co-mention"
	// maxConcepts bounds the concepts of a memory, maxPaired the co-mentioned ones.
	maxConcepts = 32
	maxPaired   = 12
	// maxMentions bounds the memories per concept of the query. The largest ids are kept, which are the
	// newest.
	maxMentions = 1000
	// startDegree multiplies MaxDegree for concepts of the query.
	startDegree = 4
	// precision is the factor for rounding scores, so that summation order does not break ties.
	precision = 1e12
)

// Config bounds the depth and width of searches.
type Config struct {
	Hops  int     // from the query's concepts; 0 means no hops
	Decay float64 // weight factor per hop, 0 to 1
	// MaxDegree is the largest number of mentions of a concept that passes weight on. A concept with more is a hub: it
	// only contributes its newest MaxDegree memories. Concepts of the query may have four times as many.
	// It also bounds an author's links.
	MaxDegree int
	Frontier  int // concepts kept after each hop, by weight
	// Traversal is the default of searches. On PostgreSQL, PageRank falls back to hop decay in SQL if the namespace's graph
	// is not in memory. The settings above apply to hop decay, except that MaxDegree bounds links for both.
	Traversal triskelev1.Traversal
	// MaxArcs bounds the mentions, facts and links in memory over all namespaces. A million take about 100 MB. Vectors
	// count by their size.
	MaxArcs int
	// Embedder makes vectors of concepts, facts and queries, so that a query also links by meaning. It
	// may be nil.
	Embedder embed.Embedder
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	return Config{
		Hops: 2, Decay: 0.5, MaxDegree: 32, Frontier: 32,
		Traversal: triskelev1.Traversal_TRAVERSAL_PAGERANK, MaxArcs: 5_000_000,
	}
}

// Flags are settings for operators.
type Flags struct {
	Traversal string `name:"graph-traversal" help:"How the graph leg searches when a request doesn't say: pagerank or hop-decay." enum:"pagerank,hop-decay" default:"pagerank" env:"TRISKELE_GRAPH_TRAVERSAL"`
	MaxArcs   int    `name:"graph-max-arcs" help:"How many mentions, facts and links pagerank keeps in memory, of all namespaces together; a million take about 100 MB." default:"5000000" env:"TRISKELE_GRAPH_MAX_ARCS"`
}

// Config returns the defaults with these settings.
func (f Flags) Config() Config {
	c := DefaultConfig()
	c.MaxArcs = f.MaxArcs
	if f.Traversal == "hop-decay" {
		c.Traversal = triskelev1.Traversal_TRAVERSAL_HOP_DECAY
	}
	return c
}

// specificity weighs a concept by its mentions: 0.76 for one, 0.22 for a hundred.
func specificity(mentions int64) float64 { return 1 / math.Log(math.E+float64(mentions)) }

// conceptID hashes a key to its id, so no look-up is needed. With 64 bits of SHA-256, a collision among a million
// concepts has a probability of about one in 40 million.
func conceptID(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// mention is a concept of one memory.
type mention struct {
	concept  int64
	salience float64
}

// edge links two concepts of a memory. A co-mention has the smaller id first, an alias its source.
type edge struct {
	source, target int64
	relation       string
	weight         float64
}

// document is a record to be indexed.
type document struct {
	record   record.Record
	concepts []Concept
	phrases  []phrase // in the text, to be resolved against known concepts
}

// documents prepares records by namespace, sorted by id and deduplicated, so that concurrent workers take locks in
// the same order.
func documents(records []record.Record) (namespaces []string, byNamespace map[string][]document) {
	sorted := slices.Clone(records)
	slices.SortFunc(sorted, func(a, b record.Record) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), slices.Compare(a.ID[:], b.ID[:]), cmp.Compare(b.Revision, a.Revision))
	})
	sorted = slices.CompactFunc(sorted, func(a, b record.Record) bool { return a.Namespace == b.Namespace && a.ID == b.ID })
	byNamespace = map[string][]document{}
	for _, r := range sorted {
		if r.Sensitive {
			continue
		}
		if byNamespace[r.Namespace] == nil {
			namespaces = append(namespaces, r.Namespace)
		}
		byNamespace[r.Namespace] = append(byNamespace[r.Namespace], document{r, Extract(r), phrases(words(r.Title+"\n"+r.Content, maxDocumentWords), maxResolvedWords)})
	}
	return namespaces, byNamespace
}

// mentions returns the document's concepts and the known ones in its text, most salient first.
func (d document) mentions(known map[int64]int64) []mention {
	var out []mention
	seen := map[int64]bool{}
	add := func(id int64, salience float64) {
		if !seen[id] && len(out) < maxConcepts {
			seen[id] = true
			out = append(out, mention{id, salience})
		}
	}
	for _, c := range d.concepts {
		add(conceptID(c.Key), c.Salience)
	}
	for _, p := range longest(d.phrases, known) {
		add(p.concept, salienceResolved)
	}
	return out
}

// edges pairs the document's most salient mentions, and aliases with their concepts. Only the SQL search uses the
// pairs: in memory, concepts meet in shared memories. The weights at one concept add up to at
// most 1.
func (d document) edges(mentions []mention) []edge {
	top := slices.DeleteFunc(slices.Clone(mentions), func(m mention) bool { return m.salience < salienceResolved }) // phrases are too weak
	top = top[:min(len(top), maxPaired)]
	var out []edge
	for i, a := range top {
		for _, b := range top[i+1:] {
			out = append(out, edge{min(a.concept, b.concept), max(a.concept, b.concept), coMention, a.salience * b.salience / float64(len(top)-1)})
		}
	}
	return append(out, d.aliases(mentions)...)
}

// aliases links aliases with their concepts.
func (d document) aliases(mentions []mention) (out []edge) {
	mentioned := func(id int64) bool {
		return slices.ContainsFunc(mentions, func(m mention) bool { return m.concept == id })
	}
	for _, c := range d.concepts {
		if alias, of := conceptID(c.Key), conceptID(c.AliasOf); c.AliasOf != "" && mentioned(alias) && mentioned(of) {
			out = append(out, edge{alias, of, AliasRelation, 1})
		}
	}
	return out
}

// validity returns when a record's content is valid. A zero end means until now.
func validity(r record.Record) (from, to time.Time) {
	from = r.OccurredAt
	if from.IsZero() {
		from = r.CreatedAt
	}
	if r.SupersededBy != uuid.Nil {
		to = r.UpdatedAt
	}
	return from, to
}

// Reasons to abstain.
const (
	reasonNoWords   = "the query has no words to link"
	reasonNotLinked = "the query names and means nothing that the namespace knows something specific about"
	// Reason of a PageRank search that used hop decay.
	reasonNotInMemory = "the namespace's graph is not in memory yet, or too large for it: searched by hop decay"
	// Reason of a search that needs the graph in memory.
	reasonNotLoaded = "the namespace's graph is not in memory yet, or too large for it (--graph-max-arcs)"
)

// candidates bounds the memories checked against the filter. It is ample for a filter that only drops superseded and
// expired ones.
func candidates(q leg.Query) int {
	if q.Filter.Narrow() {
		return 5000
	}
	return max(8*q.Depth, 256)
}

// minScore is the query's minimum score; 0 by default.
func minScore(q leg.Query) float64 {
	if q.MinScore == nil {
		return 0
	}
	return *q.MinScore
}

func scoreKind(t triskelev1.Traversal) triskelev1.ScoreKind {
	if t == triskelev1.Traversal_TRAVERSAL_PAGERANK {
		return triskelev1.ScoreKind_SCORE_KIND_PAGERANK
	}
	return triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY
}

func found(hits []leg.Hit) leg.Result {
	return leg.Result{Hits: hits, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY}
}

func abstained(reason string, t triskelev1.Traversal) leg.Result {
	return leg.Result{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Reason: reason, ScoreKind: scoreKind(t)}
}

func status(indexed, excluded int64, q queue.Status) leg.Status {
	return leg.Status{Indexed: indexed, Excluded: excluded, Pending: q.Pending, Dead: q.Dead, Lag: q.Lag, Model: model}
}
