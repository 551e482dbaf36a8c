package fusion

import (
	"math"
	"slices"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// A feature is one number that the calibrated fusion knows about a memory. It is NaN where a leg did not say it.
const (
	lexicalScore     = iota // BM25
	lexicalShare            // of what the query could attain
	lexicalMatched          // share of the query's weight in the words that the memory has
	lexicalToBest           // score / the list's best
	lexicalToRival          // score / the best of the list's other memories
	lexicalDeviation        // standard scores above the list's mean
	lexicalRank             // 1 / rank
	lexicalBest             // the best share, and the best match, of the list
	lexicalBestMatched
	lexicalGap // between first and second, as a share of the first
	lexicalHits
	lexicalAttainable
	denseScore // cosine
	denseToBest
	denseToRival
	denseDeviation
	denseRank
	denseBest
	denseGap
	denseMean
	denseSpread // standard deviation of the list
	graphToBest
	graphToRival
	graphRank
	graphEntities
	graphCoverage
	graphHits
	lexicalVote // as in rank fusion: of the first, 1; the graph's may be raised
	denseVote
	graphVote
	agreement // the legs' votes, as a share of what those that may see the memory could give
	exactMatch
	queryTerms
	queryMemories // log10 of the namespace's memories
	threaded      // 1 if a memory borrows from its neighbours, else 0
	unthreaded    // 1 - threaded
	features      // how many there are
)

// role is what a list is to the model. Each is a group of features that begins where the one before it ends.
type role int

const (
	lexical role = iota
	dense
	graph
	question // what is no leg's: the query and the namespace
	together // what all legs say together
	roles
	unknown = roles     // a leg that the model has never seen
	mute    = roles + 1 // a leg that says nothing
)

var (
	groupOf = [features]role{
		lexicalVote: lexical, denseVote: dense, graphVote: graph, agreement: together, exactMatch: lexical,
		queryTerms: question, queryMemories: question, threaded: question, unthreaded: question,
	}
	nan = float32(math.NaN())
)

func init() {
	for f := range groupOf[:lexicalVote] {
		switch {
		case f >= graphToBest:
			groupOf[f] = graph
		case f >= denseScore:
			groupOf[f] = dense
		}
	}
}

// FeatureNames are the names of the features, in the order of Candidate.Features.
var FeatureNames = [features]string{
	"lexical_score", "lexical_share", "lexical_matched", "lexical_to_best", "lexical_to_rival", "lexical_deviation", "lexical_rank",
	"lexical_best", "lexical_best_matched", "lexical_gap", "lexical_hits", "lexical_attainable",
	"dense_score", "dense_to_best", "dense_to_rival", "dense_deviation", "dense_rank", "dense_best", "dense_gap", "dense_mean", "dense_spread",
	"graph_to_best", "graph_to_rival", "graph_rank", "graph_entities", "graph_coverage", "graph_hits",
	"lexical_vote", "dense_vote", "graph_vote", "agreement", "exact", "terms", "memories", "threaded", "unthreaded",
}

func (l *List) roleOf() role {
	switch l.Kind {
	case triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_TS_RANK:
		return lexical
	case triskelev1.ScoreKind_SCORE_KIND_COSINE:
		return dense
	case triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY, triskelev1.ScoreKind_SCORE_KIND_PAGERANK:
		return graph
	}
	return unknown
}

// shape is what a list says as a whole.
type shape struct {
	best, second, mean, spread float64
	matched                    float64 // the most of any hit
}

// shapeOf returns the shape of a list without twins: they say what better hits say.
func shapeOf(hits []Hit, twin func(hit int) bool) shape {
	s := shape{best: math.Inf(-1), second: math.Inf(-1)}
	n, sum, squares := 0., 0., 0.
	for i := range hits {
		score := hits[i].Score
		if math.IsNaN(score) || score <= s.best && twin(i) {
			continue
		}
		n, sum, squares = n+1, sum+score, squares+score*score
		if score > s.best {
			s.best, s.second = score, s.best
		} else {
			s.second = max(s.second, score)
		}
		s.matched = max(s.matched, hits[i].Matched)
	}
	if n > 0 {
		s.mean = sum / n
		s.spread = math.Sqrt(max(squares/n-s.mean*s.mean, 0))
	}
	return s
}

// rival returns the best score of the list's other memories.
func (s shape) rival(score float64) float64 {
	if score == s.best {
		return s.second
	}
	return s.best
}

func (s shape) deviation(score float64) float32 {
	if s.spread < 1e-9 {
		return 0
	}
	return float32((score - s.mean) / s.spread)
}

// mostRatio bounds the ratio of a score to that of the rival.
const mostRatio = 10

func ratio(score, to float64) float32 {
	if !(to > 0) {
		return mostRatio
	}
	return float32(min(score/to, mostRatio))
}

// overall fills in what a list says about every memory of its namespace.
func (l *List) overall(r role, s shape, x *[features]float32) {
	n := len(l.Hits)
	switch r {
	case lexical:
		x[lexicalHits] = float32(n)
		if l.Kind == triskelev1.ScoreKind_SCORE_KIND_BM25 {
			x[lexicalAttainable], x[lexicalBestMatched] = float32(l.Attainable), float32(s.matched)
			x[queryTerms], x[queryMemories] = float32(l.Terms), float32(math.Log10(float64(max(l.Memories, 1))))
		}
		if n == 0 {
			x[lexicalBest] = 0
			return
		}
		if l.Kind == triskelev1.ScoreKind_SCORE_KIND_BM25 && l.Attainable > 0 {
			x[lexicalBest] = float32(s.best / l.Attainable)
		}
		x[lexicalGap] = gap(s)
	case dense:
		if n > 0 {
			x[denseBest], x[denseMean], x[denseSpread] = float32(s.best), float32(s.mean), float32(s.spread)
			if x[denseGap] = 1; n > 1 {
				x[denseGap] = float32(s.best - s.second)
			}
		}
	case graph:
		x[graphCoverage], x[graphHits] = float32(l.Coverage), float32(n)
	}
}

func gap(s shape) float32 {
	if math.IsInf(s.second, -1) || !(s.best > 0) {
		return 1
	}
	return float32((s.best - s.second) / s.best)
}

// of fills in what a list says about one memory. The rank is 0 for a score that was asked for afterwards.
func (l *List) of(r role, s shape, h *Hit, rank int, x *[features]float32) {
	if math.IsNaN(h.Score) {
		return
	}
	inverse := float32(0)
	if rank > 0 {
		inverse = 1 / float32(rank)
	}
	switch r {
	case lexical:
		if l.Kind == triskelev1.ScoreKind_SCORE_KIND_BM25 {
			x[lexicalScore], x[lexicalMatched] = float32(h.Score), float32(h.Matched)
			if l.Attainable > 0 {
				x[lexicalShare] = float32(h.Score / l.Attainable)
			}
		}
		x[lexicalToBest], x[lexicalToRival] = ratio(h.Score, s.best), ratio(h.Score, s.rival(h.Score))
		x[lexicalDeviation], x[lexicalRank] = s.deviation(h.Score), inverse
	case dense:
		x[denseScore], x[denseToBest], x[denseToRival] = float32(h.Score), float32(h.Score-s.best), 1
		if rival := s.rival(h.Score); !math.IsInf(rival, -1) {
			x[denseToRival] = float32(h.Score - rival)
		}
		x[denseDeviation], x[denseRank] = s.deviation(h.Score), inverse
	case graph:
		x[graphToBest], x[graphToRival] = ratio(h.Score, s.best), ratio(h.Score, s.rival(h.Score))
		x[graphRank], x[graphEntities] = inverse, float32(h.Entities)
	}
	if h.Exact {
		x[exactMatch] = 1
	}
}

// deaf makes the features of a memory those of a recall without the legs that cannot see it: it is not embedded, so it is
// sensitive or new, and the graph does not have it either.
func deaf(x *[features]float32) {
	for f, r := range groupOf {
		if r == dense || r == graph {
			x[f] = nan
		}
	}
}

// absent fills in what a list says about a memory that it lacks. A complete list of words says that the memory has none of
// them.
func (l *List) absent(r role, s shape, x *[features]float32) {
	if r != lexical || !l.Complete {
		return
	}
	l.of(lexical, s, &Hit{}, 0, x)
	if len(l.Hits) == 0 {
		x[lexicalToBest], x[lexicalToRival], x[lexicalDeviation] = 0, 0, 0
	}
}

// describe computes the features of every document. A namespace's first list of a role has it; further ones are unknown.
func (m *merge) describe() {
	m.features = m.features[:0]
	for range m.documents {
		m.features = append(m.features, silence)
	}
	m.roles = m.roles[:0]
	for range m.lists {
		m.roles = append(m.roles, mute)
	}
	m.findTwins()
	for l, own := range m.each() {
		list := &m.lists[l]
		if !list.Answered && len(list.Hits) == 0 || list.Weight == 0 {
			continue
		}
		if r := list.roleOf(); r == unknown || m.listOf(r, list.Namespace) >= 0 {
			m.roles[l] = unknown
		} else {
			m.roles[l] = r
			m.describeList(l, own)
		}
	}
	m.countVotes()
	m.findThreads()
	for d := range m.documents {
		x := &m.features[d]
		if m.documents[d].deaf {
			deaf(x)
		}
		voters := float32(0)
		for _, f := range [...]int{lexicalHits, denseBest, graphHits} {
			if x[f] == x[f] {
				voters++
			}
		}
		if voters > 0 {
			x[agreement] *= (DefaultK + 1) / voters
		}
	}
}

// findTwins marks memories with the text of a better one. Cosines are equal to the last bit only if the texts have the same words.
func (m *merge) findTwins() {
	m.twins = append(m.twins[:0], make([]bool, len(m.documents))...)
	for l, own := range m.each() {
		if m.lists[l].roleOf() != dense {
			continue
		}
		hits := m.lists[l].Hits
		for h := 1; h < len(hits); h++ {
			if hits[h].Score == hits[h-1].Score && hits[h].Score != 0 { // 0 is that of texts without known words
				m.twins[own[h]] = true
			}
		}
	}
}

// graphTrust is how much more the graph's votes weigh for a query that it understands, within bounds; see List.Trust.
const graphTrust = 3

// countVotes adds up the votes of the legs: 1 / (DefaultK + rank), as in rank fusion with the default weights.
func (m *merge) countVotes() {
	for l, own := range m.each() {
		list, r := &m.lists[l], m.roles[l]
		if r >= question {
			continue
		}
		rivals := 0
		for other := range m.lists {
			if other != l && m.roles[other] < question && m.lists[other].Namespace == list.Namespace && len(m.lists[other].Hits) > 0 {
				rivals++
			}
		}
		for h, d := range own {
			vote := link{value: 1 / (DefaultK + float64(h+1)), weight: 1}
			if r == graph && rivals > 1 {
				vote.raise(graphTrust*list.Coverage, float64(rivals)/(DefaultK+1))
			}
			value := float32(vote.value)
			m.features[d][lexicalVote+int(r)] = value * (DefaultK + 1)
			m.features[d][agreement] += value
		}
	}
}

// findThreads tells the namespaces in which neighbours in a thread lend from the others: legs are trusted in another way there.
func (m *merge) findThreads() {
	for l := range m.lists {
		list := &m.lists[l]
		if m.roles[l] >= question || !slices.ContainsFunc(list.Hits, func(h Hit) bool { return h.Lent }) {
			continue
		}
		for d := range m.documents {
			if m.lists[m.documents[d].list].Namespace == list.Namespace {
				m.features[d][threaded], m.features[d][unthreaded] = 1, 0
			}
		}
	}
}

// silence are the features of a memory that no leg says anything about.
var silence = func() (x [features]float32) {
	for f := range x {
		x[f] = nan
	}
	x[exactMatch], x[agreement], x[threaded], x[unthreaded] = 0, 0, 0, 1
	return x
}()

// describeList adds what a list says to the features of its namespace's documents. own has the documents of its hits.
func (m *merge) describeList(l int, own []int32) {
	list, r := &m.lists[l], m.roles[l]
	s := shapeOf(list.Hits, func(hit int) bool { return m.twins[own[hit]] })
	m.said = append(m.said[:0], make([]bool, len(m.documents))...)
	for d := range m.documents {
		if m.lists[m.documents[d].list].Namespace == list.Namespace {
			list.overall(r, s, &m.features[d])
		}
	}
	for h, d := range own {
		m.said[d] = true
		list.of(r, s, &list.Hits[h], h+1, &m.features[d])
	}
	for _, other := range list.Others {
		if d, ok := m.index[key{list.Namespace, other.ID}]; ok && !m.said[d] {
			m.said[d] = true
			list.of(r, s, &Hit{Score: other.Score}, 0, &m.features[d])
		}
	}
	for d := range m.documents {
		if m.said[d] || m.lists[m.documents[d].list].Namespace != list.Namespace {
			continue
		}
		if list.absent(r, s, &m.features[d]); r == dense && list.Complete {
			m.documents[d].deaf = true
		}
	}
}

// Candidate is a memory with its features, for training.
type Candidate struct {
	Namespace, ID string
	Features      [features]float32
}

// Candidates returns the memories of all lists with their features, in no particular order.
func Candidates(lists []List) []Candidate {
	m := merges.Get().(*merge)
	defer m.release()
	m.lists = lists
	m.collect()
	m.describe()
	out := make([]Candidate, len(m.documents))
	for d := range m.documents {
		from := &m.lists[m.documents[d].list]
		out[d] = Candidate{from.Namespace, from.Hits[m.documents[d].hit].ID, m.features[d]}
	}
	return out
}
