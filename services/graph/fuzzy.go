package graph

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// nearEnough is the least similarity of a phrase and a name: the Dice coefficient of their trigrams. One wrong letter
	// in eight gives .63.
	nearEnough = 0.6
	// maxNear bounds the fuzzy matches, maxTrigrams the trigrams of a phrase.
	maxNear     = 5
	maxTrigrams = 64
	// minNear is the least length of a phrase in characters: shorter ones match too much.
	minNear = 5
)

// fuzzyIndex finds concepts by the trigrams of their keys. It is built lazily, because most searches do not
// use it.
type fuzzyIndex struct {
	mu       sync.Mutex
	named    []int32 // concepts named since the last use
	postings map[string][]int32
	sizes    []uint8 // trigrams per concept; 0 means not indexed
	shared   []uint8 // trigrams shared with the phrase; 0 between phrases
	sharing  []int32 // concepts with a shared trigram
}

// trigrams returns the distinct trigrams of a text padded with spaces.
func trigrams(text string) []string {
	runes := []rune(" " + text + " ")
	var out []string
	for i := 0; i+3 <= len(runes) && i < maxTrigrams; i++ {
		out = append(out, string(runes[i:i+3]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nearly returns the concepts most similar in spelling to a phrase of the query. Digits must match exactly:
// Q3 is not Q2.
func (n *network) nearly(text []word) []weighted {
	n.fuzzy.mu.Lock()
	defer n.fuzzy.mu.Unlock()
	n.extendFuzzy()
	best := map[int32]float64{}
	for i := range text {
		for j := i + 1; j <= min(i+maxResolvedWords, len(text)); j++ {
			if stopWord(text[i].fold) || stopWord(text[j-1].fold) {
				continue
			}
			phrase := key(text[i:j])
			if utf8.RuneCountInString(phrase) < minNear {
				continue
			}
			grams := trigrams(phrase)
			sharing := n.fuzzy.sharing[:0]
			for _, g := range grams {
				for _, c := range n.fuzzy.postings[g] {
					if n.fuzzy.shared[c] == 0 {
						sharing = append(sharing, c)
					}
					n.fuzzy.shared[c]++
				}
			}
			n.fuzzy.sharing = sharing
			for _, c := range sharing {
				k := int(n.fuzzy.shared[c])
				n.fuzzy.shared[c] = 0
				likeness := 2 * float64(k) / float64(len(grams)+int(n.fuzzy.sizes[c]))
				if 2*k <= len(grams)/2 || likeness < nearEnough {
					continue
				}
				if concept := &n.concepts[c]; len(concept.mentions) > 0 && digits(concept.key) == digits(phrase) {
					best[c] = max(best[c], likeness)
				}
			}
		}
	}
	var out []weighted
	for c, likeness := range best {
		out = append(out, weighted{c, likeness * n.concepts[c].specificity})
	}
	slices.SortFunc(out, func(a, b weighted) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(n.concepts[a.concept].id, n.concepts[b.concept].id))
	})
	return out[:min(len(out), maxNear)]
}

func (n *network) extendFuzzy() {
	if n.fuzzy.postings == nil {
		n.fuzzy.postings = map[string][]int32{}
	}
	missing := len(n.concepts) - len(n.fuzzy.sizes)
	n.fuzzy.sizes = append(n.fuzzy.sizes, make([]uint8, missing)...)
	n.fuzzy.shared = append(n.fuzzy.shared, make([]uint8, missing)...)
	for _, c := range n.fuzzy.named {
		if n.fuzzy.sizes[c] > 0 {
			continue
		}
		grams := trigrams(n.concepts[c].key)
		n.fuzzy.sizes[c] = uint8(len(grams))
		for _, g := range grams {
			n.fuzzy.postings[g] = append(n.fuzzy.postings[g], c)
		}
	}
	n.fuzzy.named = n.fuzzy.named[:0]
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
