package graph

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// word is one word of a text.
type word struct {
	raw  string // without possessive or contraction
	fold string // raw in lower case, without accents
	gap  string // text between the previous word and this one
	next rune   // the rune after it, utf8.RuneError at the end
}

// words splits a text into at most n words of letters, digits and marks. Inside a word, hyphens, dots, underscores,
// apostrophes, @ and & belong to it, at its end also + and # (C++, F#).
func words(text string, n int) []word {
	var out []word
	last := 0
	for i := 0; i < len(text) && len(out) < n; {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !inWord(r) {
			i += size
			continue
		}
		start, end := i, i+size
		for end < len(text) {
			r, size := utf8.DecodeRuneInString(text[end:])
			if inWord(r) {
				end += size
				continue
			}
			after, _ := utf8.DecodeRuneInString(text[end+size:])
			if !strings.ContainsRune("-.'’@&", r) || !inWord(after) {
				break
			}
			end += size
		}
		for end < len(text) && (text[end] == '+' || text[end] == '#') {
			end++
		}
		next, _ := utf8.DecodeRuneInString(text[end:])
		raw := uncontracted(text[start:end])
		out = append(out, word{raw, fold(raw), text[last:start], next})
		i, last = end, end
	}
	return out
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_')
}

// uncontracted drops a possessive or contraction: Maren's, we'll.
func uncontracted(w string) string {
	i := strings.LastIndexAny(w, "'’")
	if i <= 0 {
		return w
	}
	_, size := utf8.DecodeRuneInString(w[i:])
	switch strings.ToLower(w[i+size:]) {
	case "s", "m", "d", "re", "ve", "ll":
		return w[:i]
	}
	return w
}

var letters = strings.NewReplacer("’", "'", "ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "ı", "i")

// fold normalises a word to lower case without accents.
func fold(w string) string {
	w = strings.ToLower(w)
	if !strings.ContainsFunc(w, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return w
	}
	decomposed := strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36f { // accents of Latin, Greek and Cyrillic; marks of other scripts are part of words
			return -1
		}
		return r
	}, norm.NFKD.String(w))
	return letters.Replace(norm.NFC.String(decomposed))
}

// singular folds simple English plurals. It must be consistent, not correct.
func singular(w string) string {
	if len(w) < 4 || !strings.HasSuffix(w, "s") || strings.IndexFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }) >= 0 {
		return w
	}
	switch stem := w[:len(w)-1]; {
	case strings.HasSuffix(stem, "s"), strings.HasSuffix(stem, "u"), strings.HasSuffix(stem, "i"):
		return w
	case strings.HasSuffix(stem, "ie") && len(stem) > 4:
		return stem[:len(stem)-2] + "y"
	case strings.HasSuffix(stem, "sse"), strings.HasSuffix(stem, "she"), strings.HasSuffix(stem, "che"), strings.HasSuffix(stem, "xe"):
		return stem[:len(stem)-1]
	default:
		return stem
	}
}

// key is the normal form of consecutive words.
func key(ws []word) string {
	folded := slice.Map(ws, func(w word) string { return w.fold })
	if last := len(folded) - 1; last >= 0 {
		folded[last] = singular(folded[last])
	}
	return strings.Join(folded, " ")
}

// phrase is a run of words that may name a concept.
type phrase struct {
	concept    int64
	start, end int // words, half-open
}

// phrases returns each run of up to n words that has a word besides stop words.
func phrases(ws []word, n int) []phrase {
	var out []phrase
	var before []byte // what the key of the words from i on begins with
	for i := range ws {
		content := false
		before = before[:0]
		for j := i; j < min(i+n, len(ws)); j++ {
			content = content || !stopWord(ws[j].fold)
			if content {
				out = append(out, phrase{conceptID(append(before, singular(ws[j].fold)...)), i, j + 1})
			}
			before = append(append(before, ws[j].fold...), ' ')
		}
	}
	return out
}

// longest returns the phrases that name a known concept, in text order, without those inside longer ones and repeated concepts.
func longest[T any](ps []phrase, known map[int64]T) []phrase {
	var matched []phrase
	for _, p := range ps {
		if _, ok := known[p.concept]; ok {
			matched = append(matched, p)
		}
	}
	// Phrases are sorted by start, then length. One is inside another if a later one starts there, or an earlier one reaches its end.
	var out []phrase
	seen := map[int64]bool{}
	reach := 0
	for i, p := range matched {
		if i+1 < len(matched) && matched[i+1].start == p.start {
			continue
		}
		if p.end <= reach {
			continue
		}
		reach = p.end
		if !seen[p.concept] {
			seen[p.concept] = true
			out = append(out, p)
		}
	}
	return out
}

// Key returns the normal form of a name, which identifies a concept: lower case, no accents, punctuation or possessive,
// single spaces, last word singular. It is empty without letters or digits.
func Key(name string) string { return key(words(name, maxDocumentWords)) }

// Mentions reports whether a text has all words of a name, normalised.
func Mentions(text, name string) bool {
	said := map[string]bool{}
	for _, w := range words(text, maxDocumentWords) {
		said[singular(w.fold)] = true
	}
	for _, w := range words(name, maxDocumentWords) {
		if !said[singular(w.fold)] {
			return false
		}
	}
	return true
}
