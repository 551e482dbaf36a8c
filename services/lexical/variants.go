package lexical

import (
	"context"
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// maxVaried bounds the words of a query that are looked for in other forms: the first ones of a long query.
	maxVaried = 32
	// maxForm is the most words of a form in variants.txt.
	maxForm = 3
	// formTenths is the frequency of a form of several words in each memory that has it.
	formTenths = 10
	// maxHalved is the most bytes of a word that may be two words.
	maxHalved = 24
	// maxRead bounds the postings that are read for all forms of several words of a query. A memory that has all words of a form, and is
	// checked for their order, counts as rowReads. The latest maxFormRows of a form are.
	maxRead     = 1 << 14
	rowReads    = 16
	maxFormRows = 512
	// maxVariedPostings bounds the postings of a term with its other forms. More frequent words hardly tell memories apart, and keep to
	// their own form.
	maxVariedPostings = 1 << 15
)

// variant is another form of some terms of a query: one term, or several in a row.
type variant struct{ of, form []string }

//go:embed variants.txt
var variantsFile string

// otherForms are the other forms of words, by each form. A line of the file has an abbreviation with what it stands for, an American
// and a British spelling, or an irregular word. A form is its terms, with spaces between them.
var otherForms = sync.OnceValue(func() map[string][]string {
	forms, english := map[string][]string{}, languages["english"]
	for line := range strings.Lines(variantsFile) {
		var same []string
		for form := range strings.SplitSeq(line, ",") {
			var terms []string
			for _, t := range english.tokens(form) {
				terms = append(terms, t.term)
			}
			if form = strings.Join(terms, " "); !slices.Contains(same, form) {
				same = append(same, form)
			}
		}
		for i, form := range same {
			forms[form] = append(append(forms[form], same[:i]...), same[i+1:]...)
		}
	}
	return forms
})

// variants returns the other forms of a text's words: those of variants.txt, two words as one ("set up", "setup"), and one word as two.
// Most of the latter are nonsense, which no memory has.
func (l language) variants(text string, tokens []token) (found []variant) {
	words := onePerPosition(tokens)
	written := func(t token) string { return normalize(text[t.start:t.end]) }
	for i := range words[:min(len(words), maxVaried)] {
		key := ""
		for n := 1; n <= min(maxForm, len(words)-i); n++ {
			row := words[i : i+n]
			if n > 1 && !besides(text, row[n-2], row[n-1]) {
				break
			}
			key = strings.TrimPrefix(key+" "+row[n-1].term, " ")
			forms := slices.Clone(otherForms()[key])
			switch first := written(row[0]); {
			case row[0].stop:
			case n == 1:
				forms = append(forms, l.halves(first)...)
			case n == 2 && !digitsMeet(first, written(row[1])):
				forms = append(forms, l.stem(first+written(row[1])))
			}
			var of []string
			for _, t := range tokens {
				if row[0].start <= t.start && t.end <= row[n-1].end {
					of = append(of, t.term)
				}
			}
			for _, form := range forms {
				if !slices.Contains(of, form) { // as an identifier has its whole
					found = append(found, variant{of, strings.Fields(form)})
				}
			}
		}
	}
	return found
}

// besides reports whether there is just a space or a hyphen between two words.
func besides(text string, a, b token) bool {
	return b.start == a.end+1 && (text[a.end] == ' ' || text[a.end] == '-')
}

// halves returns the forms of two words that make a word.
func (l language) halves(word string) (forms []string) {
	if len(word) > maxHalved {
		return nil
	}
	for i := range word {
		first, second := word[:i], word[i:]
		if i == 0 || utf8.RuneCountInString(second) < 2 || l.stop[first] || digitsMeet(first, second) {
			continue
		}
		if !l.stop[second] {
			second = l.stem(second)
		}
		forms = append(forms, l.stem(first)+" "+second)
	}
	return forms
}

// digitsMeet reports whether two words together would make another number.
func digitsMeet(first, second string) bool {
	last, _ := utf8.DecodeLastRuneInString(first)
	next, _ := utf8.DecodeRuneInString(second)
	return unicode.IsDigit(last) && unicode.IsDigit(next)
}

// formed returns the positions of words that are in a row as in a form of several words.
func (q query) formed(tokens []token) map[int]bool {
	found := map[int]bool{}
	words := onePerPosition(tokens)
	for i, w := range words {
		for _, v := range q.variants {
			n := len(v.form)
			if n > 1 && w.term == v.form[0] && i+n <= len(words) && slices.EqualFunc(words[i:i+n], v.form, func(t token, term string) bool { return t.term == term }) {
				for at := range n {
					found[w.position+at] = true
				}
			}
		}
	}
	return found
}

// vary finds the other forms of the query's terms that memories have.
func (s *bm25) vary(ctx context.Context) {
	s.others = map[string][]postingList{}
	left := maxRead
	for _, v := range s.query.variants {
		var words []phraseWord
		for i, name := range v.form {
			number, known := s.known(name)
			if !known {
				break
			}
			words = append(words, phraseWord{number, int32(i)})
		}
		if len(words) < len(v.form) {
			continue
		}
		other := s.listOf(words[0].number)
		if len(words) > 1 {
			other = s.inARow(ctx, words, &left)
		}
		for _, of := range v.of {
			if len(other.postings) > 0 && of != v.form[0] {
				s.others[of] = append(s.others[of], other)
			}
		}
	}
}

// inARow returns the postings of memories that have some words in a row, unless reading them takes more than is left.
func (s *bm25) inARow(ctx context.Context, words []phraseWord, left *int) (found postingList) {
	fewest := math.MaxInt
	for _, w := range words {
		fewest = min(fewest, len(s.inverted.terms[w.number].postings))
	}
	if fewest > *left || ctx.Err() != nil {
		return found
	}
	rows := s.withAll(words, maxFormRows)
	*left -= fewest + rowReads*len(rows)
	found = postingList{maxFrequency: formTenths, minLength: s.inverted.terms[words[0].number].minLength}
	for _, row := range rows {
		if s.hasPhrase(row, words) {
			found.postings = append(found.postings, row<<8|formTenths)
		}
	}
	return found
}

// with returns a list together with that of another form. A memory has the frequency of its more frequent form, at most manyTenths - 1:
// inverted.many has higher ones for one form alone.
func (l postingList) with(other postingList) postingList {
	switch {
	case len(l.postings) == 0:
		return other
	case len(l.postings)+len(other.postings) > maxVariedPostings:
		return l
	}
	merged := postingList{
		postings:     make([]uint32, 0, len(l.postings)+len(other.postings)),
		maxFrequency: max(l.maxFrequency, other.maxFrequency), minLength: min(l.minLength, other.minLength),
	}
	for a, b := l.postings, other.postings; len(a)+len(b) > 0; a = a[1:] {
		if len(a) == 0 || len(b) > 0 && b[0]>>8 < a[0]>>8 {
			a, b = b, a
		}
		posting := a[0]
		if len(b) > 0 && b[0]>>8 == posting>>8 {
			posting, b = max(posting, b[0]), b[1:]
		}
		merged.postings = append(merged.postings, min(posting, (posting|manyTenths)-1))
	}
	return merged
}
