// Package tokens splits texts into words and words into character n-grams for the built-in embedders. An embedder:
//
//  1. Folds the text: lower case, no accents, no compatibility variants (Fold).
//  2. Walks through its words (Next), and cuts each to MaxWord bytes (Cut).
//  3. Reduces each word to its stem (Stem), and hashes the stem (HashWord).
//  4. Hashes the n-grams of words (AppendGrams).
//
// The functions write to buffers of the caller and allocate only to grow those. Stored vectors depend on every result, so
// any change here needs new names for the models of packages embed and static.
package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxWord is the number of bytes of a word that count. Longer words are data, such as keys and encoded files.
const MaxWord = 64

// Fold writes the text to dst[:0] in lower case, without accents and compatibility variants. Invalid UTF-8 becomes spaces.
func Fold(dst []byte, text string) []byte {
	dst = dst[:0]
	plain := true
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= utf8.RuneSelf {
			plain = false
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	if plain {
		return dst
	}
	// Decomposing can yield capital letters, so letters are lowered before and after it.
	dst = norm.NFKD.AppendString(dst[:0], strings.ToLower(text))
	kept := dst[:0]
	for i := 0; i < len(dst); {
		r, size := utf8.DecodeRune(dst[i:])
		if r < 0x300 || r > 0x36F { // drop the accents of Latin, Greek and Cyrillic; other scripts' marks are vowels
			lower := unicode.ToLower(r)
			if utf8.RuneLen(lower) > size { // kept shares its bytes with dst, which is still being read
				lower = r
			}
			if r == utf8.RuneError {
				lower = ' '
			}
			kept = utf8.AppendRune(kept, lower)
		}
		i += size
	}
	return kept
}

// Next returns the byte range of the first word at or after from in a folded text. start equals end if there is none.
// A word is a run of letters, marks and digits.
func Next(folded []byte, from int) (start, end int) {
	start = len(folded)
	for end = from; end < len(folded); {
		r, size := rune(folded[end]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(folded[end:])
		}
		if inWord(r) {
			start = min(start, end)
		} else if start < end {
			return start, end
		}
		end += size
	}
	return start, len(folded)
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// Cut shortens a word to at most MaxWord bytes, at a character's boundary.
func Cut(word []byte) []byte {
	if len(word) <= MaxWord {
		return word
	}
	end := MaxWord
	for end > 0 && !utf8.RuneStart(word[end]) {
		end--
	}
	return word[:end]
}

// AppendGrams appends the hashes of a word's n-grams of 3 to 5 characters to dst. The ends of the word count as characters.
// Scripts without spaces get n-grams of 1 and 2 characters, since a run of their letters is a phrase. The word must be cut
// by Cut.
func AppendGrams(dst []uint64, word []byte) []uint64 {
	shortest, longest := 3, 5
	if first, _ := utf8.DecodeRune(word); unspaced(first) {
		shortest, longest = 1, 2
	}
	var bounded [MaxWord + 2]byte
	bounded[0] = '<'
	n := 1 + copy(bounded[1:], word)
	bounded[n] = '>'
	n++
	var starts [MaxWord + 3]int // offsets of the characters, then the length
	chars := 0
	for i := range n {
		if utf8.RuneStart(bounded[i]) {
			starts[chars] = i
			chars++
		}
	}
	starts[chars] = n
	for size := shortest; size <= min(longest, chars); size++ {
		for i := 0; i+size <= chars; i++ {
			dst = append(dst, hash(gramSeed, bounded[starts[i]:starts[i+size]]))
		}
	}
	return dst
}

// unspaced reports whether a character belongs to a script that puts no spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Each kind of feature has its own seed. wordSeed is the offset basis of FNV-1a.
const (
	wordSeed uint64 = 0xcbf29ce484222325
	gramSeed uint64 = 0x9ae16a3b2f90404f
)

// HashWord hashes a word.
func HashWord(word []byte) uint64 { return hash(wordSeed, word) }

// hash is 64-bit FNV-1a with the finalizer of MurmurHash3, because FNV alone mixes its low and high bits too little.
func hash(seed uint64, b []byte) uint64 {
	h := seed
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
