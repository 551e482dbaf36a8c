// Package fusion merges the ranked lists of several legs into one order. It does no I/O and reads no clock. The same lists,
// in any order, always give the same result.
//
// The general process for a merge is:
//
//  1. Find the distinct memories of all lists, and each one's prior: its importance, its age, its exact match (prior.go).
//  2. Except with RRF, normalise each list's scores to 0..1, so that different kinds of scores compare (scale.go).
//  3. Add up the contributions of the lists to each memory: weight / (K + rank) with RRF, else weight × normalised score.
//     A leg that understood the query may count more (trust.go). The sum is multiplied by prior and entity boost.
//  4. Select the best Limit memories in a total order, and the next best Reserve.
//  5. Replace the worst of them where a leg's quota is not met (quota.go).
package fusion

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// DefaultK is the rank constant that docs/evidence found best. With it, the first of one list counts far more than a memory
// deep in all lists. The paper that introduced rank fusion uses 60 (Cormack et al. 2009).
const DefaultK = 2

// Hit is one entry of a leg's list.
type Hit struct {
	ID         string
	Score      float64 // raw, finite
	Lent       bool    // neighbours in its thread lend to Score
	Importance float64 // 0 to 1
	CreatedAt  time.Time
	Exact      bool // its title or content is the query, or a quoted phrase in it
	Entities   int  // how many of the query's entities the memory mentions, as far as the leg knows
	// Matched is the share of the query's weight, 0 to 1, in the words that the memory has.
	Matched float64
}

// List holds the hits of one leg in one namespace, best first, no id twice.
type List struct {
	Leg       string
	Namespace string
	Weight    float64 // multiplier, 0 or more
	// Trust, 0 or more, multiplies the list's contributions by 1 + Trust. None grows beyond the sum that the namespace's
	// other lists could give one memory. Trust has no effect unless there are two such lists, nor on the
	// calibrated fusion.
	Trust float64
	Kind  triskelev1.ScoreKind
	Hits  []Hit
	// The following tell the calibrated fusion how sure the leg is; see SearchResponse. 0 means unknown.
	Answered   bool // the leg searched, whether or not it found anything
	Coverage   float64
	Attainable float64
	Memories   int64
	Terms      int
	// Others are scores of memories outside the hits, asked for afterwards. Only the convex combination and the
	// calibrated fusion use them, and only for memories of other lists.
	Others []Scored
	// Complete says that the leg gives no score to any memory outside Hits and Others.
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
	// ExactBonus, 0 or more, multiplies the score of a memory that is Exact in a list by 1 + ExactBonus.
	ExactBonus float64
	Boost      EntityBoost
	Quotas     []Quota
	// Least is a score, above 0 if there is one. Memories below it come last, and take no place by a quota.
	Least   float64
	Limit   int // how many hits are returned, 1 or more
	Reserve int // how many of the next best are returned apart
}

// Contribution is one list's share of a fused score.
type Contribution struct {
	Leg        string
	Rank       int // from 1; 0 if the score is one of the list's Others
	Raw        float64
	Kind       triskelev1.ScoreKind
	Normalized float64 // 0 to 1; 0 with RRF
	Weight     float64 // the list's, raised by trust
	// Value has prior and boost applied, and the values of a hit add up to its score. Calibrated: they are log-odds, and add up to
	// the score's with the hit's Base.
	Value float64
}

// Fused is one memory of the merged order.
type Fused struct {
	Namespace     string
	ID            string
	Importance    float64
	CreatedAt     time.Time
	Score         float64
	Prior         float64        // factor of the sum over the lists
	Exact         bool           // in at least one list
	Entities      int            // how many of the query's entities the memory mentions
	Boost         float64        // factor for Entities; 1 is none
	Base          float64        // calibrated: the log-odds that no leg contributed
	Contributions []Contribution // by leg
}

// Result is the merged order, and the memories kept in reserve that follow it.
type Result struct {
	Hits, Reserve []Fused
	Scales        []Scale // one for each list; none with RRF
}

// Fuse merges lists. A list gives exactly 0 to a memory that it lacks. Equal scores are ordered by importance, then newest
// first, then by id, so that the order is total.
//
// RRF is Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
// Methods", SIGIR 2009, with a weight per list. The convex combination is section 3 of Bruch, Gai and Ingber, "An
// Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 42(1), 2023. DBSF, distribution-based score fusion, is from
// Mazzeschi, 2023: it maps three standard deviations below the mean to 0 and three above it to 1.
func Fuse(lists []List, options Options) Result {
	m := merges.Get().(*merge)
	defer m.release()
	m.lists, m.options, m.least = lists, options, options.Least
	m.collect()
	var result Result
	switch options.Method {
	case calibrated:
		m.calibrate()
		m.least = math.Log(m.least / (1 - m.least))
	case triskelev1.FusionMethod_FUSION_METHOD_RRF, triskelev1.FusionMethod_FUSION_METHOD_UNSPECIFIED:
		m.add(nil)
	default:
		result.Scales = make([]Scale, len(lists))
		for i, list := range lists {
			result.Scales[i] = scaleOf(list, options.Method)
		}
		m.add(result.Scales)
	}
	m.rank()
	result.Hits = m.hits(m.top)
	if options.Reserve > 0 {
		result.Reserve = m.hits(m.reserve())
	}
	return result
}

const calibrated = triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED

// merge is the working memory of one fusion. A pool keeps it for the next one, which saves most allocations.
type merge struct {
	lists     []List
	options   Options
	order     []int // of the lists, by leg and namespace, so that sums do not depend on the order of the answers
	index     map[key]int32
	documents []document
	at        []int32 // document of each hit of each list, in the order of the lists
	links     []link
	top       []int32 // documents, best first
	least     float64 // Options.Least as documents have scores
	// For the calibrated fusion:
	features [][features]float32 // by document
	roles    []role              // by list
	said     []bool              // scratch, by document
	twins    []bool              // by document: see findTwins
	sorted   []float64           // scratch
}

type key struct{ namespace, id string }

// document is one memory of at least one list.
type document struct {
	list, hit   int32   // its first occurrence
	score       float64 // calibrated: log-odds
	prior       float64
	exact       bool
	entities    int
	boost       float64
	top         bool // it is in merge.top; set by reserve only
	deaf        bool // only the lexical leg can see it
	base        float64
	first, last int32 // ends of the linked list of its contributions
}

// link is one contribution in a document's linked list.
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
		features: m.features[:0], roles: m.roles[:0], said: m.said[:0], twins: m.twins[:0], sorted: m.sorted[:0],
	}
	merges.Put(m)
}

// each yields the lists in order, each with the documents of its hits.
func (m *merge) each() iter.Seq2[int, []int32] {
	return func(yield func(int, []int32) bool) {
		at := m.at
		for _, l := range m.order {
			n := len(m.lists[l].Hits)
			if !yield(l, at[:n]) {
				return
			}
			at = at[n:]
		}
	}
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

// add adds up the contributions of all lists to every memory. Without scales it uses the ranks.
func (m *merge) add(scales []Scale) {
	for l, own := range m.each() {
		list := &m.lists[l]
		weight := list.Weight
		if m.options.Method == triskelev1.FusionMethod_FUSION_METHOD_CONVEX {
			weight = convexWeight(list, m.options.Alpha)
		}
		trust, bound := 0., 0.
		if TrustApplies(m.lists, l) {
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
			m.give(own[h], c)
		}
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
	d.score += c.value
	m.append(d, c)
}

// append adds a contribution to a document's list.
func (m *merge) append(d *document, c link) {
	c.next = -1
	this := int32(len(m.links))
	m.links = append(m.links, c)
	if d.first < 0 {
		d.first = this
	} else {
		m.links[d.last].next = this
	}
	d.last = this
}

// rank selects the best documents, in order. The limit is small compared with the number of documents, so each is compared
// with the worst of the best so far.
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
	m.meetQuotas()
}

// reserve selects the best of the documents that are not in top, in order.
func (m *merge) reserve() []int32 {
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
	return rest[:min(len(rest), m.options.Reserve)]
}

// compare is the order of results.
func (m *merge) compare(x, y int32) int {
	a, b := &m.documents[x], &m.documents[y]
	if m.options.Sort != triskelev1.SortBy_SORT_BY_RECENCY && a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	left, right := &m.lists[a.list], &m.lists[b.list]
	h, i := &left.Hits[a.hit], &right.Hits[b.hit]
	if m.options.Sort == triskelev1.SortBy_SORT_BY_RECENCY {
		if low := a.score < m.least; low != (b.score < m.least) {
			if low {
				return 1
			}
			return -1
		}
		if c := cmp.Or(i.CreatedAt.Compare(h.CreatedAt), cmp.Compare(b.score, a.score)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(i.Importance, h.Importance), i.CreatedAt.Compare(h.CreatedAt), strings.Compare(h.ID, i.ID), strings.Compare(left.Namespace, right.Namespace))
}

// hits returns selected documents with their contributions.
func (m *merge) hits(selected []int32) []Fused {
	fused := make([]Fused, len(selected))
	total := 0
	for _, d := range selected {
		if m.options.Method == calibrated {
			m.explain(d)
		}
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
			Entities: d.entities, Boost: d.boost, Base: d.base,
			Contributions: contributions[start:len(contributions):len(contributions)],
		}
		if m.options.Method == calibrated {
			fused[i].Score = Probability(d.score)
		}
	}
	return fused
}

// convexWeight returns the list's weight in the convex combination. alpha, if given, replaces the weights of cosine and text
// scores.
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
