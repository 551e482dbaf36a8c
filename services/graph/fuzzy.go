package graph

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// nearEnough is the least similarity of a phrase to a name that it may stand for: twice the trigrams they share over all
	// they have (Dice). One wrong letter in eight is .63.
	nearEnough = 0.6
	// maxNear is how many concepts may be linked so, and maxTrigrams how much of a phrase is compared.
	maxNear     = 5
	maxTrigrams = 64
	// minNear is the least length of what is compared, in characters: anything shorter is near to too much.
	minNear = 5
)

// fuzzyIndex finds concepts by the trigrams of their keys. It takes in those that have been named when it is used, which most
// searches don't.
type fuzzyIndex struct {
	mu       sync.Mutex
	named    []int32 // since it was used last
	postings map[string][]int32
	sizes    []uint8 // how many trigrams a concept has; 0 if it has not been taken in
	shared   []uint8 // how many of them a phrase has; 0 between phrases
	sharing  []int32 // the concepts of which it has any
}

// trigrams returns the distinct runs of three characters of a text with a space before and after it.
func trigrams(text string) []string {
	runes := []rune(" " + text + " ")
	var out []string
	for i := 0; i+3 <= len(runes) && i < maxTrigrams; i++ {
		out = append(out, string(runes[i:i+3]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nearly returns the concepts whose names are nearest to a phrase of the query, for spellings that the index does not
// know. What has a digit in it must match to the letter: Q3 is not Q2.
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
