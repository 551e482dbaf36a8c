package lexical

import (
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/embed/tokens"
)

const (
	// minCorrected is the least number of characters of a word that is corrected: most shorter words are one edit away from another.
	minCorrected = 5
	// maxCorrected bounds the words of a query that may be corrected: each is compared with all terms.
	maxCorrected = 8
)

// correctable reports whether a word may be misspelt: it has letters only, and the built-in embedder does not know it as an English word.
func correctable(word string) bool {
	if utf8.RuneCountInString(word) < minCorrected || slices.ContainsFunc([]rune(word), func(r rune) bool { return !unicode.IsLetter(r) }) {
		return false
	}
	english, err := static.Builtin()
	return err == nil && !english.Knows(string(tokens.Stem([]byte(word))))
}

// misspelt returns the terms of the words that may be misspelt: the first ones of a long query.
func (q query) misspelt() (terms []string) {
	for _, t := range q.terms {
		if len(terms) < maxCorrected && correctable(t.word) && t.word != q.prefix {
			terms = append(terms, t.term)
		}
	}
	return terms
}

// correct replaces terms that no memory has, and that may be misspelt, by the most frequent term that is one edit away.
func (s *bm25) correct() {
	for _, typed := range s.query.misspelt() {
		if _, known := s.known(typed); known || len(s.others[typed]) > 0 {
			continue
		}
		meant := s.nearest(typed)
		if meant == "" {
			continue
		}
		for _, of := range s.query.identifiers {
			for i := range of {
				if of[i] == typed {
					of[i] = meant
				}
			}
		}
		place := func(term string) int {
			return slices.IndexFunc(s.query.terms, func(t queryTerm) bool { return t.term == term })
		}
		at, other := place(typed), place(meant)
		if s.query.terms[at].term = meant; other < 0 {
			continue
		}
		s.query.terms[other].uses += s.query.terms[at].uses
		s.query.terms = slices.Delete(s.query.terms, at, at+1)
		s.query.distinct--
	}
}

// nearest returns the term with the most postings among those that are one edit away, or "".
func (s *bm25) nearest(name string) (found string) {
	set, df := letterSet(name), 0
	for number, of := range s.letters {
		if bits.OnesCount32(of^set) > 2 {
			continue
		}
		t := &s.inverted.terms[number]
		if n := len(t.postings); n >= df && oneEdit(t.name, name) && (n > df || t.name < found) {
			found, df = t.name, n
		}
	}
	return found
}

// letterSet has a bit for each letter of a word, which it may share with others. Words that are one edit apart differ in two bits at most.
func letterSet(word string) (set uint32) {
	for _, r := range word {
		set |= 1 << (r % 32)
	}
	return set
}

// oneEdit reports whether two words begin with the same character and then differ by one character, or by the order of two neighbours
// (F. Damerau, "A technique for computer detection and correction of spelling errors", 1964).
func oneEdit(a, b string) bool {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	for same > 0 && same < len(a) && !utf8.RuneStart(a[same]) {
		same--
	}
	if same == 0 {
		return false
	}
	a, b = a[same:], b[same:]
	x, restA := cut(a)
	y, restB := cut(b)
	if a == restB || restA == b || restA == restB {
		return a != b
	}
	x2, restA := cut(restA)
	y2, restB := cut(restB)
	return x == y2 && x2 == y && restA == restB
}

// cut splits a word after its first character.
func cut(word string) (first, rest string) {
	_, size := utf8.DecodeRuneInString(word)
	return word[:size], word[size:]
}
