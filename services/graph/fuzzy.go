package graph

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// nearEnough is the least Dice coefficient of the trigrams of a phrase and a name. One wrong letter in eight gives .63.
	nearEnough = 0.6
	// maxNear bounds the fuzzy matches, maxTrigrams the trigrams of a phrase.
	maxNear     = 5
	maxTrigrams = 64
	// minNear is the least length of a phrase in characters: shorter ones match too much.
	minNear = 5
	// indexAtOnce is how many concepts are indexed between two looks at a search's time: less than a millisecond.
	indexAtOnce = 128
)

// fuzzyIndex finds concepts by the trigrams of their keys. Searches that use it build it together, as far as each has time.
type fuzzyIndex struct {
	mu       sync.Mutex           // of searches, until it is built
	next     int                  // concepts from here on are not indexed yet
	postings map[trigram][]uint32 // ascending
	entries  int64
	sizes    []uint8 // trigrams per concept; 0 means not indexed
}

// add adds a concept that got its key, if it is one of those that are indexed. It is called when nobody searches, as remove is.
func (f *fuzzyIndex) add(concept uint32, key string) {
	if int(concept) >= f.next {
		return
	}
	if missing := int(concept) + 1 - len(f.sizes); missing > 0 {
		f.sizes = append(f.sizes, make([]uint8, missing)...)
	}
	grams := trigrams(nil, key)
	f.sizes[concept] = uint8(len(grams))
	for _, g := range grams {
		f.postings[g] = insert(f.postings[g], concept)
	}
	f.entries += int64(len(grams))
}

func (f *fuzzyIndex) remove(concept uint32, key string) {
	if int(concept) >= len(f.sizes) || f.sizes[concept] == 0 {
		return
	}
	f.sizes[concept] = 0
	for _, g := range trigrams(nil, key) {
		unlist(f.postings, g, concept)
		f.entries--
	}
}

// bytes is about the memory of the index.
func (f *fuzzyIndex) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return 5*f.entries + int64(64*len(f.postings)+2*len(f.sizes))
}

// trigram is three consecutive characters, of 21 bits each.
type trigram uint64

// trigrams sets a slice to the distinct trigrams of a text padded with spaces.
func trigrams(to []trigram, text string) []trigram {
	to = to[:0]
	last, n := trigram(' '), 1
	for _, r := range text + " " {
		if last, n = (last<<21|trigram(r))&(1<<63-1), n+1; n >= 3 && len(to) < maxTrigrams {
			to = append(to, last)
		}
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// nearly returns the concepts most similar in spelling to a phrase of the query. Digits must match exactly:
// Q3 is not Q2. It returns none if ctx ends: a long query takes seconds.
func (n *network) nearly(ctx context.Context, text []word) []seed {
	for !n.fuzzy.extend(n.concepts) {
		if ctx.Err() != nil {
			return nil
		}
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	if len(s.shared) < len(n.concepts) {
		s.shared = make([]uint8, len(n.concepts))
	}
	best := map[uint32]float64{}
	var grams []trigram
	for i := range text {
		if ctx.Err() != nil {
			return nil
		}
		for j := i + 1; j <= min(i+maxResolvedWords, len(text)); j++ {
			if stopWord(text[i].fold) || stopWord(text[j-1].fold) {
				continue
			}
			phrase := key(text[i:j])
			if utf8.RuneCountInString(phrase) < minNear {
				continue
			}
			grams = trigrams(grams, phrase)
			s.sharing = s.sharing[:0]
			for _, g := range grams {
				for _, concept := range n.fuzzy.postings[g] {
					if s.shared[concept] == 0 {
						s.sharing = append(s.sharing, concept)
					}
					s.shared[concept]++
				}
			}
			for _, concept := range s.sharing {
				k := int(s.shared[concept])
				s.shared[concept] = 0
				likeness := 2 * float64(k) / float64(len(grams)+int(n.fuzzy.sizes[concept]))
				if 2*k <= len(grams)/2 || likeness < nearEnough {
					continue
				}
				if node := &n.concepts[concept]; len(node.mentions) > 0 && digits(node.key) == digits(phrase) {
					best[concept] = max(best[concept], likeness)
				}
			}
		}
	}
	var out []seed
	for c, likeness := range best {
		out = append(out, seed{conceptNodeAt(c), likeness * n.specific[c]})
	}
	slices.SortFunc(out, func(a, b seed) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), n.byID(a.place(), b.place()))
	})
	return out[:min(len(out), maxNear)]
}

// extend indexes some more concepts, and reports whether all are.
func (f *fuzzyIndex) extend(concepts []conceptNode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.postings == nil {
		f.postings = map[trigram][]uint32{}
	}
	for end := min(f.next+indexAtOnce, len(concepts)); f.next < end; {
		f.next++
		f.add(uint32(f.next-1), concepts[f.next-1].key)
	}
	return f.next == len(concepts)
}

// digits returns a text's digits.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, text)
}
