// Package shingles computes the similarity of two texts as Broder, "On the resemblance and containment of documents", 1997,
// does: the share of their shingles, runs of three words, that both texts contain. It knows no language and no meaning, so
// that "not" is a word like any other.
//
// The general process is:
//
//  1. Split each text into lower-case words, and hash each shingle to 64 bits.
//  2. Keep the 128 least hashes: the text's sketch.
//  3. Merge two sketches. The least hashes of both are a random sample of the shingles of both texts. The share of them that
//     is in both sketches estimates the similarity.
package shingles

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
)

const (
	width = 3 // words in a shingle
	// size is the most hashes in a sketch. For texts with no more shingles the similarity is exact. For others it is an
	// estimate with a standard error of at most 0.05.
	size = 128
)

// Sketch holds the least hashes of a text's shingles, ascending, none twice.
type Sketch []uint64

// Of returns the sketch of a text. Case, spaces and punctuation make no difference. A text of one or two words is one
// shingle.
func Of(text string) Sketch {
	words := split(text)
	hashes := make(Sketch, 0, len(words))
	for i := range words {
		if i+width <= len(words) || i == 0 {
			hashes = append(hashes, hash(words[i:min(i+width, len(words))]))
		}
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	return slices.Clone(hashes[:min(size, len(hashes))])
}

// Similarity returns the similarity of two texts from 0 to 1, which is 1 for the same shingles. It is 0 for a text without
// words.
func (s Sketch) Similarity(other Sketch) float64 {
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

// split returns the words of a text, in lower case: runs of letters and digits, and each character of a script without spaces.
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

// hash is FNV-1a of words, each with a terminator. A final mix makes every bit depend on all others.
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
