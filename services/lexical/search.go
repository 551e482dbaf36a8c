package lexical

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// sought is a term or a phrase that is searched for.
type sought struct {
	queryTerm
	postingList
	df     int64
	weight float64
	phrase bool // each posting adds the weight, whatever its frequency and the document's length
	next   int  // the first posting that has not been read
}

// postingList is the postings of a term, or of several forms of it.
type postingList struct {
	postings                []uint32
	number                  uint32 // of the term, for inverted.many
	maxFrequency, minLength uint16
}

func (p *inverted) listOf(number uint32) postingList {
	t := &p.terms[number]
	return postingList{t.postings, number, t.maxFrequency, t.minLength}
}

// bm25 is one search of an image by BM25.
type bm25 struct {
	*inverted
	*replica.Selection
	query  query
	others map[string][]postingList // of other forms of the query's terms
	// terms are the phrases, in the order of the query, and then the terms, the rarest first. Scores are summed up in this
	// order, so that they are the same on both engines, and in searches and Scores.
	terms      []sought
	rest       []float64 // for each term the most that it and the terms after it add to a score
	saturation saturation
	threaded   saturation // of memories with neighbours
	mixed      bool       // some have neighbours; else saturation is that of all
	attainable float64
	masses     map[string]float64 // weight of each term of the query in attainable
	searched   int                // terms that are searched for
	cut        string             // reason why the result is truncated; "" if it is complete
}

// newBM25 computes the weights of the query's terms and phrases.
func newBM25(ctx context.Context, p *inverted, selection *replica.Selection, q query) *bm25 {
	s := &bm25{inverted: p, Selection: selection, query: q}
	s.vary(ctx)
	s.correct()
	s.expand()
	s.lookUp()
	s.saturate()
	s.findPhrases(ctx)
	s.rest = make([]float64, len(s.terms)+1)
	for i, t := range slices.Backward(s.terms) {
		most := 1.
		if !t.phrase {
			most = s.saturation.of(int(t.maxFrequency), t.minLength)
			if s.mixed {
				most = max(most, s.threaded.of(int(t.maxFrequency), t.minLength))
			}
		}
		s.rest[i] = s.rest[i+1] + t.weight*most
	}
	return s
}

// expand adds the first words that begin with the query's last word, if the namespace's settings ask for it.
func (s *bm25) expand() {
	prefix := s.query.prefix
	if prefix == "" {
		return
	}
	from := s.place(prefix)
	if from < len(s.sorted) && s.inverted.terms[s.sorted[from]].name == prefix {
		from++
	}
	for _, number := range s.sorted[from:min(from+maxPrefixed, len(s.sorted))] {
		name := s.inverted.terms[number].name
		if !strings.HasPrefix(name, prefix) {
			return
		}
		if !slices.ContainsFunc(s.query.terms, func(t queryTerm) bool { return t.term == name }) {
			s.query.terms = append(s.query.terms, queryTerm{term: name, uses: 1, prefixed: true})
			s.query.distinct++
		}
	}
}

// lookUp finds the postings of the terms, and weighs every term of the query, those included that no memory has. An identifier weighs as
// much as the heavier of its whole and its parts. It keeps the terms of the highest weight.
func (s *bm25) lookUp() {
	rarity := make(map[string]float64, len(s.query.terms)) // of terms that memories have
	s.masses = make(map[string]float64, len(s.query.terms))
	var prefixed int64 // all terms of a prefix share one document frequency
	for _, t := range s.query.terms {
		found := sought{queryTerm: t}
		number, known := s.known(t.term)
		if known {
			found.postingList = s.listOf(number)
		}
		for _, other := range s.others[t.term] {
			found.postingList, known = found.with(other), true
		}
		if known {
			found.df = int64(len(found.postings))
			s.terms = append(s.terms, found)
		}
		if t.prefixed {
			prefixed += found.df
			continue
		}
		s.masses[t.term] = idf(s.documents, found.df)
		if known {
			rarity[t.term] = s.masses[t.term]
		}
	}
	for _, t := range s.terms {
		if t.prefixed {
			rarity[t.term] = idf(s.documents, min(prefixed, s.documents))
		}
	}
	excess := s.query.excess(rarity)
	for i, t := range s.terms {
		s.terms[i].weight = rarity[t.term] * (float64(t.uses) - excess[t.term])
	}
	excess = s.query.excess(s.masses)
	for _, t := range s.query.terms {
		if mass, counts := s.masses[t.term]; counts {
			s.masses[t.term] = mass * (float64(t.uses) - excess[t.term])
			s.attainable += s.masses[t.term]
		}
	}
	s.searched = len(s.query.terms)
	if len(s.terms) > maxTerms {
		slices.SortStableFunc(s.terms, func(a, b sought) int { return cmp.Compare(b.weight, a.weight) })
		s.terms, s.searched = s.terms[:maxTerms], maxTerms
	}
	slices.SortStableFunc(s.terms, func(a, b sought) int { return cmp.Compare(a.df, b.df) })
}

// saturate computes the saturations, by the average length of the namespace's memories.
func (s *bm25) saturate() {
	average := float64(s.length) / float64(max(s.documents, 1))
	s.saturation = newSaturation(s.settings.K1, s.settings.B, average)
	s.threaded = newSaturation(s.settings.K1*threadK1, s.settings.B*threadB, average)
	switch s.rows.WithNeighbours() {
	case 0:
	case s.rows.Count():
		s.saturation = s.threaded
	default:
		s.mixed = true
	}
}

// matched returns the share of the query's weight in the terms that a row has.
func (s *bm25) matched(row uint32) float64 {
	if s.attainable <= 0 {
		return 0
	}
	sum := 0.
	for i := range s.terms {
		t := &s.terms[i]
		if mass := s.masses[t.term]; mass > 0 && !t.phrase {
			if at, _ := slices.BinarySearch(t.postings, row<<8); at < len(t.postings) && t.postings[at]>>8 == row {
				sum += mass
			}
		}
	}
	return min(sum/s.attainable, 1)
}

// contribution returns what a posting of a term adds to its row's score.
func (s *bm25) contribution(t *sought, posting uint32) float64 {
	if t.phrase {
		return t.weight
	}
	row, tf := posting>>8, int(posting&manyTenths)
	if tf == manyTenths {
		tf = int(s.many[manyKey{t.number, row}])
	}
	of := &s.saturation
	if s.mixed && s.rows.HasNeighbours(row) {
		of = &s.threaded
	}
	return float64(t.weight * of.of(tf, s.lengths[row]))
}

// slack makes up for the rounding of bounds, which are summed up in another order than scores.
const slack = 1 + 1e-9

const (
	windowBits = 12
	windowRows = 1 << windowBits
)

// window has the scores of consecutive rows.
type window struct {
	scores  [windowRows]float64
	touched [windowRows / 64]uint64 // rows with a score
}

var windows = sync.Pool{New: func() any { return new(window) }}

// best returns the best hits. This is MaxScore in windows of rows: the postings of the rarest terms are added up window by
// window. As soon as the other terms together cannot lift a row among the best, they are looked up only for rows that have a
// score already. H. Turtle and J. Flood, "Query evaluation: strategies and optimizations", 1995.
func (s *bm25) best(ctx context.Context, q leg.Query) []leg.Scored {
	if s.fewSelected() {
		return s.bestOf(q, s.List())
	}
	found, least := leg.TopRows(q.Depth, s.rows), q.Least()
	w := windows.Get().(*window)
	defer windows.Put(w)
	for essential := len(s.terms); ; {
		for essential > 0 && s.rest[essential-1]*slack < least {
			essential--
		}
		first := s.nextRow(essential)
		if first == math.MaxUint32 {
			break
		}
		if ctx.Err() != nil {
			s.cut = fmt.Sprintf("time ran out after %d of %d memories", first, s.rows.Len())
			break
		}
		from := first &^ (windowRows - 1)
		s.addUp(w, s.terms[:essential], from)
		for i, word := range w.touched {
			for w.touched[i] = 0; word != 0; word &= word - 1 {
				at := i<<6 + bits.TrailingZeros64(word)
				score, row := w.scores[at], from+uint32(at)
				w.scores[at] = 0
				if score = s.raise(score, row, essential, least); score > 0 && score >= least && s.Has(row) {
					if found.Add(leg.Scored{Row: row, Score: score, Own: score}) {
						least = max(least, found.Worst().Score)
					}
				}
			}
		}
	}
	return found.Sorted()
}

// hits returns the best hits, with what neighbours lend.
func (s *bm25) hits(ctx context.Context, q leg.Query) []leg.Hit {
	borrowing, borrows := q, q.Borrows(s.rows)
	if borrows {
		borrowing.Depth = max(q.Depth, leg.Lenders)
	}
	found := s.best(ctx, borrowing)
	if borrows {
		found = q.Lent(s.rows, s.Selection, found, min(len(found), leg.Lenders), func(around *leg.Surroundings) []leg.Scored {
			return slices.DeleteFunc(s.lend(around), func(f leg.Scored) bool { return f.Score <= 0 })
		})
	}
	hits := q.Hits(s.rows, found)
	for i := range hits {
		hits[i].Matched = s.matched(found[i].Row)
	}
	return hits
}

// nextRow returns the lowest row of the unread postings of the first n terms, or math.MaxUint32.
func (s *bm25) nextRow(n int) uint32 {
	first := uint32(math.MaxUint32)
	for _, t := range s.terms[:n] {
		if t.next < len(t.postings) {
			first = min(first, t.postings[t.next]>>8)
		}
	}
	return first
}

// addUp adds up the terms' postings in the window that begins at a row.
func (s *bm25) addUp(w *window, terms []sought, from uint32) {
	selected := s.Bits()
	end := uint64(from+windowRows) << 8
	for i := range terms {
		t := &terms[i]
		for t.next += gallop(t.postings[t.next:], from<<8); t.next < len(t.postings); t.next++ {
			posting := t.postings[t.next]
			if uint64(posting) >= end {
				break
			}
			row := posting >> 8
			if selected != nil && selected[row>>6]>>(row&63)&1 == 0 {
				continue
			}
			at := row % windowRows
			w.scores[at] += s.contribution(t, posting)
			w.touched[at>>6] |= 1 << (at & 63)
		}
	}
}

// raise adds what the terms from the n-th on contribute to a score, unless they cannot raise it to the least. Rows must ascend.
func (s *bm25) raise(score float64, row uint32, n int, least float64) float64 {
	for ; n < len(s.terms) && (score+s.rest[n])*slack >= least; n++ {
		t := &s.terms[n]
		t.next += gallop(t.postings[t.next:], row<<8)
		if t.next < len(t.postings) && t.postings[t.next]>>8 == row {
			score += s.contribution(t, t.postings[t.next])
		}
	}
	return score
}

// gallop returns the place of the first posting that is not less than a bound.
func gallop(postings []uint32, least uint32) int {
	high := 1
	for high <= len(postings) && postings[high-1] < least {
		high *= 2
	}
	low := high / 2
	at, _ := slices.BinarySearch(postings[low:min(high-1, len(postings))], least)
	return low + at
}

// fewSelected reports whether looking up each selected row in the postings takes less time than reading the postings.
func (s *bm25) fewSelected() bool {
	if !s.Narrow() {
		return false
	}
	postings := 0
	for _, t := range s.terms {
		postings += len(t.postings)
	}
	return s.Count()*len(s.terms)*8 < postings
}

// bestOf returns the best hits among ascending rows.
func (s *bm25) bestOf(q leg.Query, rows []uint32) []leg.Scored {
	found, least := leg.TopRows(q.Depth, s.rows), q.Least()
	for _, row := range rows {
		if score := s.raise(0, row, 0, least); score > 0 && score >= least {
			if found.Add(leg.Scored{Row: row, Score: score, Own: score}) {
				least = max(least, found.Worst().Score)
			}
		}
	}
	return found.Sorted()
}

// scoresOf returns the scores of memories that have a document.
func (s *bm25) scoresOf(q leg.Query, ids []uuid.UUID) []leg.Hit {
	return q.Scores(s.rows, s.Selection, ids, s.has, s.lend)
}

// exactMatches returns the selected memories whose title or content equals the query or a quoted phrase of it, latest first.
// Such a memory has all terms of the text, so only the postings of its rarest term are read.
func (s *bm25) exactMatches(text string) []leg.Hit {
	var rows []uint32
	for hash, text := range quoted(text) {
		var rarest []uint32
		for i, t := range s.settings.language().tokens(text) {
			number, known := s.known(t.term)
			if !known {
				rarest = nil
				break
			}
			if postings := s.inverted.terms[number].postings; i == 0 || len(postings) < len(rarest) {
				rarest = postings
			}
		}
		for _, posting := range rarest {
			row := posting >> 8
			if h := s.hashes[row]; (h[0] == hash || h[1] == hash) && s.Has(row) {
				rows = append(rows, row)
			}
		}
	}
	rows = slices.Compact(s.latest(rows))
	return slice.Map(rows[:min(len(rows), maxEqual)], func(row uint32) leg.Hit {
		hit := leg.HitAt(s.rows, row, 0)
		hit.Matched = s.matched(row)
		return hit
	})
}

// search returns the result of a search by BM25 in an image.
func (s *bm25) search(ctx context.Context, q leg.Query) (leg.Result, error) {
	result := leg.Result{
		ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25, Attainable: s.attainable, Memories: s.documents, Terms: s.query.distinct,
	}
	if s.searched < s.query.distinct {
		result.Reason = fmt.Sprintf("searched for %d of the %d terms", s.searched, s.query.distinct)
	}
	result.Hits = s.hits(ctx, q)
	if s.cut != "" {
		if len(result.Hits) == 0 {
			return leg.Result{}, ctx.Err()
		}
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_TRUNCATED, s.cut
	}
	if !q.MarkExact {
		return result, nil
	}
	return result, markExact(q, &result, s.exactMatches(q.Text), func(ids []uuid.UUID) ([]leg.Hit, error) { return s.scoresOf(q, ids), nil })
}
