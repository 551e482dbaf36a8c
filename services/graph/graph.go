// Package graph finds memories through the names they share: concepts taken from titles, tags, keywords and names in
// the text, linked when one memory mentions both. It needs no model, and abstains when a query names nothing known.
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
	// indexName is what the queue calls this index, model what it is made with.
	indexName = "graph"
	model     = "names"
	// coMention is the relation of two concepts that one memory mentions.
	coMention = "co-mention"
	// maxConcepts bounds the concepts of one memory, maxPaired those of them that are linked with each other.
	maxConcepts = 32
	maxPaired   = 12
	// maxMentions bounds the memories that one concept of the query brings in: those with the largest ids, which are the
	// newest.
	maxMentions = 1000
	// startDegree is how many times MaxDegree a concept of the query may be mentioned.
	startDegree = 4
	// precision is what scores are rounded to before they are compared, so that two orders of summation tie.
	precision = 1e12
)

// Config sets how far and how wide a search goes.
type Config struct {
	Hops  int     // from the query's concepts; 0 finds only memories that mention one
	Decay float64 // of a concept's weight with each hop, 0 to 1
	// MaxDegree is how many memories may mention a concept that is passed through. One with more of them is a hub: it is
	// reached, and brings in the newest so many of its memories, but it leads no further. A concept of the query may have
	// four times as many.
	MaxDegree int
	Frontier  int // concepts kept after each hop, heaviest first
	// Traversal is how searches go about it that do not say. On PostgreSQL PageRank falls back to hop decay in the tables
	// where the namespace's graph is not in memory; the settings above are those of hop decay, but for MaxDegree, which also bounds an author's links.
	Traversal triskelev1.Traversal
	// MaxArcs is how many mentions, facts and links are kept in memory, of all namespaces together. A million take about
	// 100 MB, and vectors count as what they take.
	MaxArcs int
	// Embedder makes vectors of concepts, facts and queries, so that a query links to what it names in other words. It
	// may be nil.
	Embedder embed.Embedder
}

// DefaultConfig returns the settings that are used unless an operator knows better.
func DefaultConfig() Config {
	return Config{
		Hops: 2, Decay: 0.5, MaxDegree: 32, Frontier: 32,
		Traversal: triskelev1.Traversal_TRAVERSAL_PAGERANK, MaxArcs: 5_000_000,
	}
}

// Flags are the settings for operators.
type Flags struct {
	Traversal string `name:"graph-traversal" help:"How the graph leg searches when a request doesn't say: pagerank or hop-decay." enum:"pagerank,hop-decay" default:"pagerank" env:"TRISKELE_GRAPH_TRAVERSAL"`
	MaxArcs   int    `name:"graph-max-arcs" help:"How many mentions, facts and links pagerank keeps in memory, of all namespaces together; a million take about 100 MB." default:"5000000" env:"TRISKELE_GRAPH_MAX_ARCS"`
}

// Config is the configuration with these settings.
func (f Flags) Config() Config {
	c := DefaultConfig()
	c.MaxArcs = f.MaxArcs
	if f.Traversal == "hop-decay" {
		c.Traversal = triskelev1.Traversal_TRAVERSAL_HOP_DECAY
	}
	return c
}

// specificity is how much a concept says that so many memories mention: 0.76 for one, 0.22 for a hundred.
func specificity(mentions int64) float64 { return 1 / math.Log(math.E+float64(mentions)) }

// conceptID is the id of a key: its hash, so that looking a concept up takes no look-up. 64 bits of SHA-256 make a
// collision within a namespace of a million concepts a matter of one in 40 million.
func conceptID(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// mention is a concept of one memory.
type mention struct {
	concept  int64
	salience float64
}

// edge links two concepts of one memory: a co-mention the smaller id first, an alias with what it stands for.
type edge struct {
	source, target int64
	relation       string
	weight         float64
}

// document is a record on its way into the index.
type document struct {
	record   record.Record
	concepts []Concept
	phrases  []phrase // in the text, to be resolved against the concepts there are
}

// documents prepares records by namespace, in the order of their ids and without duplicates, so that concurrent
// workers take locks in the same order.
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

// mentions returns the document's own concepts and the known ones its text names, the most salient first.
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

// edges links the most salient of a document's mentions with each other, and aliases with what they stand for. It is for
// the tables that are searched: in memory, concepts meet in the memories that mention both. The fewer
// the mentions are, the more each link says: the weights at one concept add up to at most 1.
func (d document) edges(mentions []mention) []edge {
	top := slices.DeleteFunc(slices.Clone(mentions), func(m mention) bool { return m.salience < salienceResolved }) // phrases say too little
	top = top[:min(len(top), maxPaired)]
	var out []edge
	for i, a := range top {
		for _, b := range top[i+1:] {
			out = append(out, edge{min(a.concept, b.concept), max(a.concept, b.concept), coMention, a.salience * b.salience / float64(len(top)-1)})
		}
	}
	return append(out, d.aliases(mentions)...)
}

// aliases links other names with what they stand for.
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

// validity is the time in which what a record says holds: until it is superseded, as far as anyone knows.
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

// Why a search abstained.
const (
	reasonNoWords   = "the query has no words to link"
	reasonNotLinked = "the query names and means nothing that the namespace knows something specific about"
	// Why a search by PageRank was answered by hop decay.
	reasonNotInMemory = "the namespace's graph is not in memory yet, or too large for it: searched by hop decay"
	// Why a search found nothing where only the graph in memory can be searched.
	reasonNotLoaded = "the namespace's graph is not in memory yet, or too large for it (--graph-max-arcs)"
)

// candidates is how many memories, best first, are checked against the filter: plenty where it only leaves out what has
// been superseded or has expired.
func candidates(q leg.Query) int {
	if q.Filter.Narrow() {
		return 5000
	}
	return max(8*q.Depth, 256)
}

// minScore is the least score asked for; scores are never negative.
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
