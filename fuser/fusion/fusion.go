// Package fusion merges the ranked lists of several legs into one order. It is pure computation: no I/O, no clock, and
// the same lists always give the same order.
package fusion

import (
	"cmp"
	"slices"
	"strings"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// The defaults of the source design: rank constant, and the prior of a memory with importance 0 and 1.
const (
	DefaultK     = 60
	priorBase    = 0.7
	priorPerUnit = 0.3
)

// Hit is one entry of a leg's list.
type Hit struct {
	ID         string
	Score      float64 // raw, finite
	Importance float64 // 0 to 1
	CreatedAt  time.Time
}

// List is what one leg found in one namespace, best first, no id twice.
type List struct {
	Leg       string
	Namespace string
	Weight    float64 // multiplier, 0 or more
	Kind      triskelev1.ScoreKind
	Hits      []Hit
}

// Options say how to merge.
type Options struct {
	Method triskelev1.FusionMethod // RRF if unspecified
	K      float64                 // RRF's rank constant, 0 or more
	Alpha  *float64                // convex: weight of cosine scores, text scores get 1 - alpha; nil keeps the lists' weights
	Sort   triskelev1.SortBy       // relevance if unspecified
	Limit  int                     // keep this many, 1 or more
}

// Contribution is one list's share of a fused score.
type Contribution struct {
	Leg        string
	Rank       int // from 1
	Raw        float64
	Kind       triskelev1.ScoreKind
	Normalized float64 // 0 to 1; 0 with RRF
	Weight     float64
	Value      float64 // with the prior applied; a hit's values add up to its score
}

// Fused is one memory of the merged order.
type Fused struct {
	Namespace     string
	ID            string
	Importance    float64
	CreatedAt     time.Time
	Score         float64
	Prior         float64
	Contributions []Contribution // in the order of the lists
}

type key struct{ namespace, id string }

// Fuse merges lists. A document that a list lacks gets exactly 0 from it. Equal scores are ordered by importance, then
// newest first, then by id, so that the order is total.
//
// RRF is Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
// Methods", SIGIR 2009, with a weight per list. The convex combination and its normalisers are section 3 of Bruch, Gai
// and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 42(1), 2023.
func Fuse(lists []List, options Options) []Fused {
	convex := options.Method == triskelev1.FusionMethod_FUSION_METHOD_CONVEX
	entries := 0
	for _, list := range lists {
		entries += len(list.Hits)
	}
	// Contributions are chained through next while the number per document is unknown, and gathered only for the
	// documents that are returned.
	type link struct {
		Contribution
		next int32
	}
	type document struct {
		Fused
		first, last int32
	}
	links := make([]link, 0, entries)
	documents := make([]document, 0, entries)
	index := make(map[key]int32, entries)
	for _, list := range lists {
		weight := list.Weight
		var normalize func(i int) float64
		if convex {
			normalize = normalizer(list)
			weight = convexWeight(list, options.Alpha)
		}
		for i, hit := range list.Hits {
			k := key{list.Namespace, hit.ID}
			at, ok := index[k]
			if !ok {
				at = int32(len(documents))
				index[k] = at
				documents = append(documents, document{first: -1, Fused: Fused{
					Namespace: list.Namespace, ID: hit.ID, Importance: hit.Importance, CreatedAt: hit.CreatedAt,
					Prior: prior(hit.Importance, options.Sort),
				}})
			}
			d := &documents[at]
			c := Contribution{Leg: list.Leg, Rank: i + 1, Raw: hit.Score, Kind: list.Kind, Weight: weight}
			if convex {
				c.Normalized = normalize(i)
				c.Value = d.Prior * weight * c.Normalized
			} else {
				c.Value = d.Prior * weight / (options.K + float64(c.Rank))
			}
			d.Score += c.Value
			links = append(links, link{c, -1})
			this := int32(len(links) - 1)
			if d.first < 0 {
				d.first = this
			} else {
				links[d.last].next = this
			}
			d.last = this
		}
	}
	order := make([]int32, len(documents))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return compare(&documents[a].Fused, &documents[b].Fused, options.Sort) })
	order = order[:min(len(order), options.Limit)]
	fused := make([]Fused, len(order))
	for i, at := range order {
		d := &documents[at]
		fused[i] = d.Fused
		for l := d.first; l >= 0; l = links[l].next {
			fused[i].Contributions = append(fused[i].Contributions, links[l].Contribution)
		}
	}
	return fused
}

func prior(importance float64, sort triskelev1.SortBy) float64 {
	switch sort {
	case triskelev1.SortBy_SORT_BY_IMPORTANCE, triskelev1.SortBy_SORT_BY_RECENCY:
		return 1
	}
	return priorBase + priorPerUnit*importance
}

func compare(a, b *Fused, sort triskelev1.SortBy) int {
	byScore, byTime := cmp.Compare(b.Score, a.Score), b.CreatedAt.Compare(a.CreatedAt)
	if sort == triskelev1.SortBy_SORT_BY_RECENCY {
		byScore, byTime = byTime, byScore
	}
	return cmp.Or(byScore, cmp.Compare(b.Importance, a.Importance), byTime, strings.Compare(a.ID, b.ID), strings.Compare(a.Namespace, b.Namespace))
}

// convexWeight is the list's own weight, or its part of alpha if that is given.
func convexWeight(list List, alpha *float64) float64 {
	if alpha == nil {
		return list.Weight
	}
	switch list.Kind {
	case triskelev1.ScoreKind_SCORE_KIND_COSINE:
		return *alpha
	case triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_TS_RANK:
		return 1 - *alpha
	}
	return list.Weight
}

// normalizer maps a list's entries to 0..1 in the way that suits its kind of score.
func normalizer(list List) func(i int) float64 {
	n := len(list.Hits)
	if n == 0 {
		return nil
	}
	low, high := list.Hits[0].Score, list.Hits[0].Score
	for _, hit := range list.Hits {
		low, high = min(low, hit.Score), max(high, hit.Score)
	}
	switch list.Kind {
	case triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_TS_RANK:
		// The least possible score is known: a document that doesn't match scores 0.
		return func(i int) float64 {
			if high <= 0 {
				return 0
			}
			return max(list.Hits[i].Score, 0) / high
		}
	case triskelev1.ScoreKind_SCORE_KIND_COSINE:
		return func(i int) float64 {
			if high == low {
				return 1
			}
			return (list.Hits[i].Score - low) / (high - low)
		}
	}
	// Sums over paths span orders of magnitude: only their order says something.
	return func(i int) float64 { return 1 - float64(i)/float64(n) }
}
