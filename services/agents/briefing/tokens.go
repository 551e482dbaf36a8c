package briefing

import (
	"iter"
	"unicode"
	"unicode/utf8"
)

// Tokens estimates how many tokens a text is to a language model. Each model has its own tokeniser, and some are not published.
// So Tokens counts what tokenisers have in common: a common word is one token and a long one several, three digits are one, two
// punctuation marks are one, and so is each character of a script without spaces. Against the vocabulary o200k the estimate is
// at most a tenth too low. The tests in tests/tokens print its error by kind of text, also for older vocabularies.
func Tokens(text string) int {
	n := 0
	for _, cost := range pieces(text) {
		n += cost
	}
	return n
}

// prefix returns the longest beginning of text that ends with a whole piece and is at most n tokens.
func prefix(text string, n int) string {
	for end, cost := range pieces(text) {
		if n -= cost; n < 0 {
			return text[:end]
		}
	}
	return text
}

// kind is a class of characters that tokenisers treat alike.
type kind int

const (
	space  kind = iota // part of the token that follows
	line               // a line's end
	latin              // ASCII letters, of which vocabularies have the most words
	letter             // other letters of scripts with spaces
	han                // characters of scripts without spaces
	digit
	mark // all other characters
)

func kindOf(r rune) kind {
	switch {
	case r == '\n':
		return line
	case unicode.IsSpace(r):
		return space
	case r < utf8.RuneSelf && (r|0x20 >= 'a' && r|0x20 <= 'z'):
		return latin
	case unicode.IsDigit(r):
		return digit
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return han
	case unicode.In(r, unicode.Latin, unicode.Letter, unicode.Mark):
		return letter
	}
	return mark
}

// pieces yields, for each run of characters of one kind, its start in bytes and its number of tokens.
func pieces(text string) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for start := 0; start < len(text); {
			first, _ := utf8.DecodeRuneInString(text[start:])
			of, end, n := kindOf(first), start, 0
			for end < len(text) {
				r, size := utf8.DecodeRuneInString(text[end:])
				k := kindOf(r)
				if of == latin && k == letter {
					of = letter // a word with an accent or of another script
				} else if k != of && !(of == letter && k == latin) {
					break
				}
				end, n = end+size, n+1
			}
			if !yield(start, cost(of, n)) {
				return
			}
			start = end
		}
	}
}

// cost returns the number of tokens of a run of n characters of one kind.
func cost(of kind, n int) int {
	switch of {
	case space:
		return n / 8 // a single space belongs to the next word; indentation has tokens of its own
	case line:
		return 1
	case latin:
		return 1 + max(0, n-4)/4
	case letter, digit:
		return (n + 2) / 3
	case mark:
		return (n + 1) / 2
	}
	return n
}
