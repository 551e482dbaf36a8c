package lexical

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"
)

// idf returns the inverse document frequency of a term that df of n documents have: ln(1 + (n - df + 0.5) / (df + 0.5)). It is
// positive for any df up to n.
func idf(n, df int64) float64 {
	return math.Log1p((float64(n-df) + 0.5) / (float64(df) + 0.5))
}

// saturation computes BM25's factor for a term's frequency in a document, without the idf: (k1 + 1) tf / (tf + k1 (1 - b + b
// length / average)). S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section
// 3.4. Frequencies and lengths are in tenths.
type saturation struct {
	scale, constant, perLength float64
}

func newSaturation(s Settings, averageLength float64) saturation {
	sat := saturation{scale: s.K1 + 1, constant: 10 * s.K1 * (1 - s.B)}
	if averageLength > 0 {
		sat.perLength = 10 * s.K1 * s.B / averageLength
	}
	return sat
}

func (s saturation) of(tf, length int) float64 {
	f := float64(tf)
	return s.scale * f / (f + s.constant + s.perLength*float64(length))
}

// postingBytes is the size of a posting in a block.
const postingBytes = 8

// pageSize is the number of documents in a page of scores.
const (
	pageBits = 12
	pageSize = 1 << pageBits
)

// scores adds up scores by document number. Numbers are mostly dense, so arrays are faster than a map. Pages save memory for
// ranges without matches.
type scores struct{ pages []*[pageSize]float64 }

// pagePool has pages of zeros.
var pagePool = sync.Pool{New: func() any { return new([pageSize]float64) }}

// release empties the scores.
func (s *scores) release() {
	for _, page := range s.pages {
		if page != nil {
			clear(page[:])
			pagePool.Put(page)
		}
	}
	s.pages = nil
}

func (s *scores) page(number uint32) *[pageSize]float64 {
	i := int(number >> pageBits)
	if i >= len(s.pages) {
		s.pages = append(s.pages, make([]*[pageSize]float64, i+1-len(s.pages))...)
	}
	if s.pages[i] == nil {
		s.pages[i] = pagePool.Get().(*[pageSize]float64)
	}
	return s.pages[i]
}

// exclude removes a document, even if scores are added for it later.
func (s *scores) exclude(number uint32) { s.page(number)[number%pageSize] = math.Inf(-1) }

// add adds a term's contribution to the score of each document in a block.
func (s *scores) add(block []byte, weight float64, sat saturation) {
	var page *[pageSize]float64
	at := uint32(math.MaxUint32)
	for ; len(block) >= postingBytes; block = block[postingBytes:] {
		posting := binary.BigEndian.Uint64(block)
		number := uint32(posting >> 32)
		if number>>pageBits != at {
			at = number >> pageBits
			page = s.page(number)
		}
		page[number%pageSize] += weight * sat.of(int(posting>>16&0xffff), int(posting&0xffff))
	}
}

// scored is a document with its score.
type scored struct {
	number uint32
	score  float64
}

// compareScored orders by score, best first, and then by number.
func compareScored(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.number, b.number))
}

// best returns the n documents with the highest positive scores, best first. Among equals, the lower number is first.
func (s *scores) best(n int) []scored {
	var kept []scored // a heap once it has n, the worst on top
	for i, page := range s.pages {
		if page == nil {
			continue
		}
		floor := 0.0
		if len(kept) == n {
			floor = kept[0].score
		}
		for j, score := range page {
			if score <= floor {
				continue
			}
			found := scored{uint32(i<<pageBits | j), score}
			if len(kept) < n {
				if kept = append(kept, found); len(kept) == n {
					for k := n/2 - 1; k >= 0; k-- {
						sink(kept, k)
					}
					floor = kept[0].score
				}
				continue
			}
			kept[0] = found
			sink(kept, 0)
			floor = kept[0].score
		}
	}
	slices.SortFunc(kept, compareScored)
	return kept
}

// sink restores the heap's order below its i-th element. The worst element is on top.
func sink(heap []scored, i int) {
	for {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if compareScored(heap[child], heap[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}

// above returns the numbers of the documents with positive scores of at least least, in order.
func (s *scores) above(least float64) []uint32 {
	var numbers []uint32
	for i, page := range s.pages {
		if page == nil {
			continue
		}
		for j, score := range page {
			if score >= least && score > 0 {
				numbers = append(numbers, uint32(i<<pageBits|j))
			}
		}
	}
	return numbers
}
