// Package fusion merges the ranked lists of several legs into one order. It is pure computation: no I/O, no clock, and
// the same lists, in any order, always give the same answer.
//
// fusion.go adds up what each list gives a memory, scale.go makes scores of different kinds comparable, trust.go lets a leg
// that has understood the query count more, prior.go has what a memory brings along whatever the query, and quota.go
// reserves places for a leg.
package fusion

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// DefaultK is the rank constant that docs/evidence found best: what leads one list counts far more than what lies deep in
// all of them. The paper that brought rank fusion in has 60 (Cormack et al. 2009).
const DefaultK = 2

// Hit is one entry of a leg's list.
type Hit struct {
	ID         string
	Score      float64 // raw, finite
	Importance float64 // 0 to 1
	CreatedAt  time.Time
	Exact      bool // its title or content is the query, or a quoted phrase in it
	Entities   int  // of the query that the memory mentions, as far as the leg knows
}

// List is what one leg found in one namespace, best first, no id twice.
type List struct {
	Leg       string
	Namespace string
	Weight    float64 // multiplier, 0 or more
	// Trust, 0 or more, says how much more the list counts against others that agree: its contributions are multiplied by
	// 1 + Trust, but none comes to more than the namespace's other lists could give a memory together. It needs two of these.
	Trust float64
	Kind  triskelev1.ScoreKind
	Hits  []Hit
	// Others are scores of memories that are not among the hits, asked for afterwards. Only the convex combination uses
	// them, and only for memories that another list has.
	Others []Scored
	// Complete says that a memory that is neither among the hits nor the others has no score at all, instead of one that
	// nobody asked for.
	Complete bool
}

// Scored is the score that a leg gives a memory, on its raw scale.
type Scored struct {
	ID    string
	Score float64
}

// Options say how to merge.
type Options struct {
	Method  triskelev1.FusionMethod // RRF if unspecified
	K       float64                 // RRF's rank constant, 0 or more
	Alpha   *float64                // convex: weight of cosine scores, text scores get 1 - alpha; nil keeps the lists' weights
	Sort    triskelev1.SortBy       // relevance if unspecified
	Recency Recency                 // part of the prior
	// ExactBonus raises a memory that a list has as Exact: its score is multiplied by 1 + ExactBonus, 0 or more.
	ExactBonus float64
	Boost      EntityBoost
	Quotas     []Quota
	Limit      int // keep this many, 1 or more
	Spare      int // and this many of the next best, apart
}

// Contribution is one list's share of a fused score.
type Contribution struct {
	Leg        string
	Rank       int // from 1; 0 if the list lacks the memory, and its score was asked for
	Raw        float64
	Kind       triskelev1.ScoreKind
	Normalized float64 // 0 to 1; 0 with RRF
	Weight     float64 // the list's, with what trust made of it
	Value      float64 // with prior and boost applied; a hit's values add up to its score
}

// Fused is one memory of the merged order.
type Fused struct {
	Namespace     string
	ID            string
	Importance    float64
	CreatedAt     time.Time
	Score         float64
	Prior         float64        // what the sum over the lists was multiplied by
	Exact         bool           // a list has it so
	Entities      int            // of the query that the memory mentions
	Boost         float64        // for them; 1 is none
	Contributions []Contribution // by leg
}

// Result is the merged order, those that come after it, and how each list's scores were normalised: as the lists, empty
// with RRF.
type Result struct {
	Hits, Spare []Fused
	Scales      []Scale
}

// Fuse merges lists. A document that a list lacks gets exactly 0 from it. Equal scores are ordered by importance, then
// newest first, then by id, so that the order is total.
//
// RRF is Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
// Methods", SIGIR 2009, with a weight per list. The convex combination is section 3 of Bruch, Gai and Ingber, "An
// Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 42(1), 2023. DBSF, distribution-based score fusion, is
// Mazzeschi's of 2023: scores at their place between three standard deviations below the mean and three above.
func Fuse(lists []List, options Options) Result {
	m := merges.Get().(*merge)
	defer m.release()
	m.lists, m.options = lists, options
	m.collect()
	var result Result
	if options.Method != triskelev1.FusionMethod_FUSION_METHOD_RRF && options.Method != triskelev1.FusionMethod_FUSION_METHOD_UNSPECIFIED {
		result.Scales = make([]Scale, len(lists))
		for i, list := range lists {
			result.Scales[i] = scaleOf(list, options.Method)
		}
	}
	m.add(result.Scales)
	m.rank()
	result.Hits = m.hits(m.top)
	if options.Spare > 0 {
		result.Spare = m.hits(m.spare())
	}
	return result
}

// merge is the working memory of one fusion. It is kept for the next: most of it would else be garbage at once.
type merge struct {
	lists     []List
	options   Options
	order     []int // of the lists: by leg and namespace, so that sums do not depend on who answered first
	index     map[key]int32
	documents []document
	at        []int32 // document of each hit of each list, in the order of the lists
	links     []link
	top       []int32 // documents, best first
}

type key struct{ namespace, id string }

// document is one memory that some list has.
type document struct {
	list, hit   int32 // where it is
	score       float64
	prior       float64
	exact       bool
	entities    int
	boost       float64
	top         bool  // it is among the best; only set when there are to be spare ones
	first, last int32 // its contributions, chained, while their number is unknown
}

type link struct {
	list, rank, next       int32
	raw, normalized, value float64
	weight                 float64
}

var merges = sync.Pool{New: func() any { return &merge{index: map[key]int32{}} }}

func (m *merge) release() {
	clear(m.index)
	clear(m.documents)
	*m = merge{
		order: m.order[:0], index: m.index, documents: m.documents[:0], at: m.at[:0], links: m.links[:0], top: m.top[:0],
	}
	merges.Put(m)
}

// collect finds the distinct memories of all lists.
func (m *merge) collect() {
	for i := range m.lists {
		m.order = append(m.order, i)
	}
	slices.SortStableFunc(m.order, func(a, b int) int {
		return cmp.Or(strings.Compare(m.lists[a].Leg, m.lists[b].Leg), strings.Compare(m.lists[a].Namespace, m.lists[b].Namespace))
	})
	for _, l := range m.order {
		list := &m.lists[l]
		for h := range list.Hits {
			k := key{list.Namespace, list.Hits[h].ID}
			d, ok := m.index[k]
			if !ok {
				d = int32(len(m.documents))
				m.index[k] = d
				m.documents = append(m.documents, document{
					list: int32(l), hit: int32(h), first: -1, prior: m.options.prior(&list.Hits[h]),
				})
			}
			if list.Hits[h].Exact && !m.documents[d].exact {
				m.documents[d].exact = true
				m.documents[d].prior *= 1 + m.options.ExactBonus
			}
			m.at = append(m.at, d)
			m.documents[d].entities = max(m.documents[d].entities, list.Hits[h].Entities)
		}
	}
	for d := range m.documents {
		m.documents[d].boost = m.options.Boost.of(m.documents[d].entities)
	}
}

// add gives every memory what each list has for it. Without scales the ranks count.
func (m *merge) add(scales []Scale) {
	at := m.at
	for _, l := range m.order {
		list := &m.lists[l]
		weight := list.Weight
		if m.options.Method == triskelev1.FusionMethod_FUSION_METHOD_CONVEX {
			weight = convexWeight(list, m.options.Alpha)
		}
		trust, bound := 0., 0.
		if Trusted(m.lists, l) {
			trust, bound = list.Trust, m.bound(list)
		}
		for h := range list.Hits {
			c := link{list: int32(l), rank: int32(h + 1), raw: list.Hits[h].Score, weight: weight}
			if scales == nil {
				c.value = weight / (m.options.K + float64(c.rank))
			} else {
				c.normalized = scales[l].of(c.raw, h, len(list.Hits))
				c.value = weight * c.normalized
			}
			c.raise(trust, bound)
			m.give(at[h], c)
		}
		at = at[len(list.Hits):]
		if m.options.Method != triskelev1.FusionMethod_FUSION_METHOD_CONVEX || scales[l].ByRank || len(list.Hits) == 0 {
			continue
		}
		for _, other := range list.Others {
			if d, ok := m.index[key{list.Namespace, other.ID}]; ok {
				c := link{list: int32(l), raw: other.Score, weight: weight, normalized: scales[l].of(other.Score, 0, 0)}
				c.value = weight * c.normalized
				c.raise(trust, bound)
				m.give(d, c)
			}
		}
	}
}

func (m *merge) give(to int32, c link) {
	d := &m.documents[to]
	c.value *= d.prior * d.boost
	c.next = -1
	d.score += c.value
	this := int32(len(m.links))
	m.links = append(m.links, c)
	if d.first < 0 {
		d.first = this
	} else {
		m.links[d.last].next = this
	}
	d.last = this
}

// rank selects the best documents, in order. Few of many are wanted, so each is held against the worst so far.
func (m *merge) rank() {
	limit := m.options.Limit
	for d := range int32(len(m.documents)) {
		if len(m.top) == limit && m.compare(d, m.top[limit-1]) > 0 {
			continue
		}
		place, _ := slices.BinarySearchFunc(m.top, d, m.compare)
		if len(m.top) == limit {
			m.top = m.top[:limit-1]
		}
		m.top = slices.Insert(m.top, place, d)
	}
	for _, quota := range m.options.Quotas {
		m.fill(quota)
	}
}

// spare selects the best of those that are not among the best, in order.
func (m *merge) spare() []int32 {
	for _, d := range m.top {
		m.documents[d].top = true
	}
	rest := make([]int32, 0, len(m.documents)-len(m.top))
	for d := range int32(len(m.documents)) {
		if !m.documents[d].top {
			rest = append(rest, d)
		}
	}
	slices.SortFunc(rest, m.compare)
	return rest[:min(len(rest), m.options.Spare)]
}

// compare orders documents as they are returned.
func (m *merge) compare(x, y int32) int {
	a, b := &m.documents[x], &m.documents[y]
	if m.options.Sort != triskelev1.SortBy_SORT_BY_RECENCY && a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	left, right := &m.lists[a.list], &m.lists[b.list]
	h, i := &left.Hits[a.hit], &right.Hits[b.hit]
	if m.options.Sort == triskelev1.SortBy_SORT_BY_RECENCY {
		if c := cmp.Or(i.CreatedAt.Compare(h.CreatedAt), cmp.Compare(b.score, a.score)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(i.Importance, h.Importance), i.CreatedAt.Compare(h.CreatedAt), strings.Compare(h.ID, i.ID), strings.Compare(left.Namespace, right.Namespace))
}

// hits writes selected documents out, with their contributions.
func (m *merge) hits(selected []int32) []Fused {
	fused := make([]Fused, len(selected))
	total := 0
	for _, d := range selected {
		for l := m.documents[d].first; l >= 0; l = m.links[l].next {
			total++
		}
	}
	contributions := make([]Contribution, 0, total)
	for i, at := range selected {
		d := &m.documents[at]
		list := &m.lists[d.list]
		h := &list.Hits[d.hit]
		start := len(contributions)
		for l := d.first; l >= 0; l = m.links[l].next {
			c := &m.links[l]
			from := &m.lists[c.list]
			contributions = append(contributions, Contribution{
				Leg: from.Leg, Rank: int(c.rank), Raw: c.raw, Kind: from.Kind, Normalized: c.normalized, Weight: c.weight, Value: c.value,
			})
		}
		fused[i] = Fused{
			Namespace: list.Namespace, ID: h.ID, Importance: h.Importance, CreatedAt: h.CreatedAt, Score: d.score, Prior: d.prior, Exact: d.exact,
			Entities: d.entities, Boost: d.boost,
			Contributions: contributions[start:len(contributions):len(contributions)],
		}
	}
	return fused
}

// convexWeight is the list's own weight, or its part of alpha if that is given.
func convexWeight(list *List, alpha *float64) float64 {
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
