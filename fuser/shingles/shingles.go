// Package resemblance says how alike two texts are: the share of their runs of three words that both have, after Broder,
// "On the resemblance and containment of documents", 1997. It knows no language and no meaning: "not" is a word like any
// other.
package shingles

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
)

const (
	// run is how many words are compared at a time.
	run = 3
	// size is how many runs are kept of a text. Of a text that has no more the resemblance is exact, of others an estimate
	// with a standard error of at most 0.05.
	size = 128
)

// Sketch is what is kept of a text: the least hashes of its runs, in order, none twice.
type Sketch []uint64

// Of returns the sketch of a text. Case and what stands between words make no difference; a text of one or two words is
// one run.
func Of(text string) Sketch {
	words := split(text)
	hashes := make(Sketch, 0, len(words))
	for i := range words {
		if i+run <= len(words) || i == 0 {
			hashes = append(hashes, hash(words[i:min(i+run, len(words))]))
		}
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	return slices.Clone(hashes[:min(size, len(hashes))])
}

// To returns the resemblance, 0 to 1: 1 for the same runs. A text without words resembles none.
func (s Sketch) To(other Sketch) float64 {
	// The least hashes of both texts together are a sample of the runs of both.
	both, all := 0, 0
	for i, j := 0, 0; all < size && (i < len(s) || j < len(other)); all++ {
		switch {
		case j == len(other) || i < len(s) && s[i] < other[j]:
			i++
		case i == len(s) || other[j] < s[i]:
			j++
		default:
			i, j, both = i+1, j+1, both+1
		}
	}
	if all == 0 {
		return 0
	}
	return float64(both) / float64(all)
}

// split returns the words of a text: runs of letters and digits, and each character of a script without spaces.
func split(text string) []string {
	var words []string
	start := -1
	end := func(i int) {
		if start >= 0 {
			words = append(words, text[start:i])
		}
		start = -1
	}
	text = strings.ToLower(text)
	for i, r := range text {
		switch {
		case r >= unicode.MaxLatin1 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
			end(i)
			words = append(words, string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if start < 0 {
				start = i
			}
		default:
			end(i)
		}
	}
	end(len(text))
	return words
}

// hash is FNV-1a of words, each with an end, mixed until every bit depends on all.
func hash(words []string) uint64 {
	h := uint64(14695981039346656037)
	for _, word := range words {
		for i := range len(word) {
			h = (h ^ uint64(word[i])) * 1099511628211
		}
		h *= 1099511628211
	}
	hi, lo := bits.Mul64(h^h>>32, 0x9E3779B97F4A7C15)
	return hi ^ lo
}
