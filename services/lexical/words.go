package lexical

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/triskele/triskele/fuser/platform/clip"
)

// maxTermBytes bounds a term. Longer words are truncated, in memories and in queries.
const maxTermBytes = 255

// softHyphen marks where a word may be divided at the end of a line.
const softHyphen = '\u00ad'

// maxParts bounds the words of an identifier that is also a term as a whole.
const maxParts = 16

// token is one term of a text. Terms at one position are alternatives: an identifier and its first part, a pair and its first character.
type token struct {
	term     string
	span         // in the text
	position int // from 0
	stop     bool
	paired   bool // a single character that is also part of a pair
}

// span is a byte range of a text.
type span struct{ start, end int }

// tokenOf returns the token of a part of a text.
func tokenOf(text string, part span, position int) token {
	return token{term: normalize(text[part.start:part.end]), span: part, position: position}
}

// compareStart is for a search in tokens, which are in the order of their beginnings.
func (t token) compareStart(at int) int { return cmp.Compare(t.start, at) }

// tokens splits a text into terms:
//
//   - Words are runs of letters, digits, marks and soft hyphens. They lose these, case, compatibility forms, and Latin and Greek accents. The
//     language's Snowball stemmer reduces them to stems.
//   - Words joined by . _ - / \ : @ + are an identifier, a number, an address or a path. The whole is a term, and so is each
//     part. Words in camelCase are treated likewise.
//   - Scripts without spaces between words (Han, kana, Thai and others) and Hangul become single characters and pairs of
//     adjacent characters.
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
			tokens, position, i = appendCharacters(tokens, text, i, position)
			continue
		}
		words, end := compound(text, i)
		if len(words) > 1 && len(words) <= maxParts {
			tokens = append(tokens, tokenOf(text, span{i, end}, position))
		}
		for _, word := range words {
			parts := camelParts(text, word)
			if len(parts) > 1 {
				tokens = append(tokens, l.finish(tokenOf(text, word, position)))
			}
			for _, part := range parts {
				tokens = append(tokens, l.finish(tokenOf(text, part, position)))
				position++
			}
		}
		i = end
	}
	return slices.DeleteFunc(tokens, func(t token) bool { return t.term == "" })
}

// compound returns the words of the identifier that begins at start, and its end. A plain word is returned alone.
func compound(text string, start int) (words []span, end int) {
	for i := start; ; {
		word := span{i, i}
		for word.end < len(text) {
			r, size := utf8.DecodeRuneInString(text[word.end:])
			if !isWord(r) && !unicode.IsMark(r) && r != softHyphen || isUnspaced(r) {
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

// finish marks a stop word and stems any other.
func (l language) finish(t token) token {
	t.stop = l.stop[t.term]
	if !t.stop && l.stem != nil {
		t.term = truncate(l.stem(t.term)) // a stem may be longer than its word
	}
	return t
}

// camelParts returns the parts of a word in camelCase. A part begins at a capital after a small letter, and at the last of
// several capitals before a small letter. Any other word is one part.
func camelParts(text string, word span) (parts []span) {
	begin := word.start
	var before, last rune
	lastAt := word.start
	for i, r := range text[word.start:word.end] {
		at := word.start + i
		switch {
		case unicode.IsMark(r): // of the letter before it
			continue
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

// appendCharacters appends the characters of a run of unspaced script, and their pairs. It returns the next position and the run's end.
func appendCharacters(tokens []token, text string, start, position int) ([]token, int, int) {
	at, pair := start, true
	_, size := character(text[at:])
	for pair {
		end := at + size
		var next rune
		next, size = character(text[end:])
		pair = isUnspaced(next)
		one := tokenOf(text, span{at, end}, position)
		one.paired = pair || at > start
		if tokens = append(tokens, one); pair {
			tokens = append(tokens, tokenOf(text, span{at, end + size}, position))
		}
		position, at = position+1, end
	}
	return tokens, position, at
}

// character returns the first character of a text and its size. The parts of one that is decomposed, as in names of files on a Mac, are one.
func character(text string) (rune, int) {
	r, size := utf8.DecodeRuneInString(text)
	if whole := norm.NFC.NextBoundaryInString(text, true); whole > size {
		composed := norm.NFC.String(text[:whole])
		if one, length := utf8.DecodeRuneInString(composed); length == len(composed) {
			return one, whole
		}
	}
	return r, size
}

// isWord reports whether a character is part of words. Marks are too, but no word begins with a mark.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r) || isUnspaced(r))
}

// isUnspaced reports whether a character belongs to a script without spaces between words, or to Hangul, which has no stemmer here.
func isUnspaced(r rune) bool {
	return r >= 0x0e00 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Bopomofo) || r == 'ー' || r == 'ｰ')
}

// letters replaces letters whose plain form Unicode does not decompose.
var letters = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "đ", "d", "ð", "d", "þ", "th", "ł", "l", "ı", "i", "ς", "σ")

// normalize lower-cases a term and replaces compatibility forms. It removes the accents of Latin and Greek letters, which
// people often omit, and keeps other marks, which distinguish letters. The result has only characters of words and
// identifiers, and at most maxTermBytes bytes. It is "" if no letter or digit is left.
func normalize(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] < utf8.RuneSelf
	}
	if plain {
		return truncate(strings.ToLower(s))
	}
	var b strings.Builder
	accented := false // the last letter loses its accents
	for _, r := range norm.NFD.String(strings.ToLower(norm.NFKC.String(s))) {
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
	s = letters.Replace(norm.NFC.String(b.String())) // last: some of these letters had accents, too
	if !strings.ContainsFunc(s, isWord) {
		return ""
	}
	return truncate(s)
}

// truncate shortens a term to maxTermBytes, at a character's boundary.
func truncate(s string) string {
	if len(s) <= maxTermBytes { // nearly all
		return s
	}
	return clip.Text(s, maxTermBytes)
}
