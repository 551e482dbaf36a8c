package lexical

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxTermBytes bounds a term; longer words are cut, in memories and queries alike.
const maxTermBytes = 255

// maxParts bounds the words of an identifier that is also kept whole.
const maxParts = 16

// A token is one term of a text. Terms at one position are ways to say the same: an identifier is there whole, at the
// position of its first part, and in parts; an n-gram is at the position of its first character.
type token struct {
	term       string
	start, end int // bytes in the text
	position   int // from 0
	stop       bool
	grammed    bool // a character that is part of a pair, too
}

// tokens splits a text into terms:
//
//   - Words are runs of letters, digits and marks. They are lower-cased, freed of accents (Latin and Greek) and of
//     compatibility forms, and stemmed by the language's Snowball stemmer.
//   - Words joined by . _ - / \ : @ + without a space are an identifier, a number, an address or a path: kept whole, in
//     lower case, and in parts. Words in camelCase likewise.
//   - Text in scripts that put no space between words (Han, kana, Thai and the like), and Hangul, becomes single
//     characters and pairs of neighbours.
func (l language) tokens(text string) []token {
	tokens := make([]token, 0, len(text)/5)
	position := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !isWord(r) {
			i += size
			continue
		}
		if isUnspaced(r) {
			tokens, position, i = appendGrams(tokens, text, i, position)
			continue
		}
		words, end := compound(text, i)
		if len(words) > 1 && len(words) <= maxParts {
			tokens = append(tokens, token{term: normalize(text[i:end]), start: i, end: end, position: position})
		}
		for _, w := range words {
			tokens, position = l.appendWord(tokens, text, w, position)
		}
		i = end
	}
	return slices.DeleteFunc(tokens, func(t token) bool { return t.term == "" })
}

// span is a part of a text, in bytes.
type span struct{ start, end int }

// compound returns the words of the identifier, or the one word, that begins at start, and its end.
func compound(text string, start int) (words []span, end int) {
	for i := start; ; {
		word := span{i, i}
		for word.end < len(text) {
			r, size := utf8.DecodeRuneInString(text[word.end:])
			if !isWord(r) && !unicode.IsMark(r) || isUnspaced(r) {
				break
			}
			word.end += size
		}
		words = append(words, word)
		for i = word.end; i < len(text) && strings.IndexByte(`._-/\:@+`, text[i]) >= 0; {
			i++
		}
		r, _ := utf8.DecodeRuneInString(text[i:])
		if i == word.end || i == len(text) || !isWord(r) || isUnspaced(r) {
			return words, word.end
		}
	}
}

// appendWord appends a word and, if it is in camelCase, its parts.
func (l language) appendWord(tokens []token, text string, word span, position int) ([]token, int) {
	parts := camel(text, word)
	whole := token{term: normalize(text[word.start:word.end]), start: word.start, end: word.end, position: position}
	if len(parts) > 1 {
		tokens = append(tokens, l.finish(whole))
		for _, part := range parts {
			tokens = append(tokens, l.finish(token{term: normalize(text[part.start:part.end]), start: part.start, end: part.end, position: position}))
			position++
		}
		return tokens, position
	}
	return append(tokens, l.finish(whole)), position + 1
}

// finish marks a stop word and stems any other.
func (l language) finish(t token) token {
	t.stop = l.stop[t.term]
	if !t.stop && l.stem != nil {
		t.term = l.stem(t.term)
	}
	return t
}

// camel returns the parts of a word in camelCase: a capital after a small letter begins one, and so does the last of
// several capitals before a small letter. Any other word is one part.
func camel(text string, word span) (parts []span) {
	begin := word.start
	var before, last rune
	lastAt := word.start
	for i, r := range text[word.start:word.end] {
		at := word.start + i
		switch {
		case unicode.IsUpper(r) && unicode.IsLower(last):
			parts = append(parts, span{begin, at})
			begin = at
		case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(before):
			parts = append(parts, span{begin, lastAt})
			begin = lastAt
		}
		before, last, lastAt = last, r, at
	}
	return append(parts, span{begin, word.end})
}

// appendGrams appends the characters of a run of unspaced script, and each pair of neighbours.
func appendGrams(tokens []token, text string, start, position int) ([]token, int, int) {
	at := start
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !isUnspaced(r) {
			break
		}
		end := at + size
		next, size := utf8.DecodeRuneInString(text[end:])
		pair := isUnspaced(next)
		tokens = append(tokens, token{term: normalize(text[at:end]), start: at, end: end, position: position, grammed: pair || at > start})
		if pair {
			tokens = append(tokens, token{term: normalize(text[at : end+size]), start: at, end: end + size, position: position})
		}
		position++
		at = end
	}
	return tokens, position, at
}

// isWord says what words are made of, besides marks.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r) || isUnspaced(r))
}

// isUnspaced says whether a character belongs to a script without spaces between words, or to Hangul, whose words take
// endings that no stemmer here knows.
func isUnspaced(r rune) bool {
	return r >= 0x0e00 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Bopomofo) || r == 'ー' || r == 'ｰ')
}

// letters are those whose plain form is not a matter of accents.
var letters = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "đ", "d", "ð", "d", "þ", "th", "ł", "l", "ı", "i", "ς", "σ")

// normalize lower-cases a term, reduces compatibility forms, removes the accents of Latin and Greek letters, where
// people leave them out, and keeps other marks, which tell letters apart. What is left is at most maxTermBytes long
// and has no character but those of words and identifiers.
func normalize(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] < utf8.RuneSelf
	}
	if plain {
		return cut(strings.ToLower(s))
	}
	s = letters.Replace(strings.ToLower(norm.NFKC.String(s)))
	var b strings.Builder
	accented := false // the last letter is one that loses its accents
	for _, r := range norm.NFD.String(s) {
		switch {
		case unicode.Is(unicode.Mn, r):
			if !accented {
				b.WriteRune(r)
			}
			continue
		case !isWord(r) && !unicode.IsMark(r) && !strings.ContainsRune(`._-/\:@+`, r):
			continue
		}
		accented = unicode.In(r, unicode.Latin, unicode.Greek) || r == 'е'
		b.WriteRune(r)
	}
	s = norm.NFC.String(b.String())
	if !strings.ContainsFunc(s, isWord) {
		return ""
	}
	return cut(s)
}

// cut shortens a term to maxTermBytes, at a character's boundary.
func cut(s string) string {
	if len(s) <= maxTermBytes {
		return s
	}
	end := maxTermBytes
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
