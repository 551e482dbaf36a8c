// Package tokens breaks texts into words and words into n-grams of characters, for the embedders that make vectors of
// those. It allocates nothing but what callers' buffers grow by.
package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxWord is how many bytes of a word are looked at: longer ones are data, such as keys and encoded files.
const MaxWord = 64

// Fold appends the text in lower case and without accents or compatibility variants to dst[:0].
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
	// Lower case before and after, because either can bring forth what the other has to change.
	dst = norm.NFKD.AppendString(dst[:0], strings.ToLower(text))
	kept := dst[:0]
	for i := 0; i < len(dst); {
		r, size := utf8.DecodeRune(dst[i:])
		if r < 0x300 || r > 0x36F { // the accents of Latin, Greek and Cyrillic; other scripts' marks spell vowels
			lower := unicode.ToLower(r)
			if utf8.RuneLen(lower) > size { // must not write over what is still to be read
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

// Next returns where the first word of a folded text at or after from begins and ends; start equals end if there is none.
// A word is a run of letters, their marks, and digits.
func Next(folded []byte, from int) (start, end int) {
	for i := from; i < len(folded); {
		start := i
		for i < len(folded) {
			r, size := rune(folded[i]), 1
			if r >= utf8.RuneSelf {
				r, size = utf8.DecodeRune(folded[i:])
			}
			if !inWord(r) {
				break
			}
			i += size
		}
		if i > start {
			return start, i
		}
		_, size := utf8.DecodeRune(folded[i:])
		i += size
	}
	return len(folded), len(folded)
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// Cut shortens a word to MaxWord bytes, at the border of a character.
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

// AppendGrams appends the hashes of a word's n-grams to dst: of 3 to 5 characters, with marks for the word's ends; in
// scripts without spaces, where what looks like one word is a phrase, of 1 or 2. The word must have been Cut.
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
	var starts [MaxWord + 3]int // of the characters, and the end
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

// unspaced says whether a character belongs to a script that is written without spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Features of different kinds start from different seeds; wordSeed is FNV-1a's own.
const (
	wordSeed uint64 = 0xcbf29ce484222325
	gramSeed uint64 = 0x9ae16a3b2f90404f
)

// HashWord hashes a word.
func HashWord(word []byte) uint64 { return hash(wordSeed, word) }

// hash is 64-bit FNV-1a, finished as in MurmurHash3 because FNV alone mixes its low and high bits too little.
func hash(seed uint64, b []byte) uint64 {
	h := seed
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
