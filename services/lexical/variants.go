package lexical

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/embed/forms"
)

const (
	// formTenths is the frequency of a form of several words in each memory that has it.
	formTenths = 10
	// minHalf is the least characters of each of two words that a word may be, but for a function word as the second ("log in"). Shorter ones
	// are parts of "we're" and of initials.
	minHalf = 3
	// maxHalved is the most bytes of a word that may be two words.
	maxHalved = 24
	// maxFormRows bounds the memories with all words of a form that are checked for their order. The latest are checked.
	maxFormRows = 512
	// maxRead bounds what is read for all forms of several words of a query: postings, and rows of the forward index in units of rowBytes.
	maxRead  = 1 << 14
	rowBytes = 16
	// maxVariedPostings bounds the postings of forms together. Of forms with more, the most frequent one counts.
	maxVariedPostings = 1 << 15
)

// variant is another form of some terms of a query: one term, or several in a row.
type variant struct{ of, form []string }

// listedForm is a form of the list as it is written, with the terms of the other forms of its line.
type listedForm struct {
	written string
	others  []string
}

// listedForms are the listed forms by their terms, with spaces between them.
var listedForms = sync.OnceValue(func() map[string][]listedForm {
	listed, english := map[string][]listedForm{}, languages["english"]
	for _, line := range forms.Lines() {
		var same []string
		for _, form := range line {
			same = append(same, strings.Join(slice.Map(english.tokens(form), func(t token) string { return t.term }), " "))
		}
		for i, form := range same {
			others := slices.DeleteFunc(slices.Clone(same), func(other string) bool { return other == form })
			listed[form] = append(listed[form], listedForm{line[i], others})
		}
	}
	return listed
})

// listed returns the other forms of some words. Endings may differ, but no other word of the stem is meant: "product" is not production.
func listed(terms, written string) (found []string) {
	for _, form := range listedForms()[terms] {
		if strings.HasPrefix(written, form.written[:len(form.written)-1]) {
			found = append(found, form.others...)
		}
	}
	return found
}

// variants returns the other forms of a text's words: those of the list, two words as one ("set up", "setup"), and one word as two.
func (l language) variants(text string, tokens []token) (found []variant) {
	seen := map[string]bool{}
	add := func(start, end int, others []string) {
		var of []string
		for _, t := range tokens {
			if start <= t.start && t.end <= end {
				of = append(of, t.term)
			}
		}
		for _, form := range others {
			// An identifier has its whole already.
			if key := strings.Join(of, " ") + ": " + form; !seen[key] && !slices.Contains(of, form) {
				seen[key] = true
				found = append(found, variant{of, strings.Fields(form)})
			}
		}
	}
	written := func(t token) string { return normalize(text[t.start:t.end]) }
	words := onePerPosition(tokens)
	if few := words[:min(len(words), forms.MaxVaried)]; len(few) > 0 {
		for _, q := range l.quantities(text[:few[len(few)-1].end]) {
			add(q.start, q.end, q.forms)
		}
	}
	for i, first := range words[:min(len(words), forms.MaxVaried)] {
		terms, whole := first.term, written(first)
		others := listed(terms, whole)
		if !first.stop {
			others = append(others, l.halves(whole)...)
		}
		add(first.start, first.end, others)
		for n := 2; n <= min(forms.MaxWords, len(words)-i) && besides(text, words[i+n-2], words[i+n-1]); n++ {
			last := words[i+n-1]
			terms, whole = terms+" "+last.term, whole+" "+written(last)
			others = listed(terms, whole)
			if n == 2 && !first.stop && !digitsMeet(written(first), written(last)) {
				others = append(others, l.stem(written(first)+written(last)))
			}
			add(first.start, last.end, others)
		}
	}
	for i, t := range tokens[:min(len(tokens), forms.MaxVaried)] {
		if i+1 < len(tokens) && tokens[i+1].position == t.position { // the whole of an identifier, such as TypeScript
			add(t.start, t.end, listed(t.term, written(t)))
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
		number := i > 0 && !strings.ContainsFunc(first, func(r rune) bool { return !unicode.IsDigit(r) })
		long := func(half string) bool { return number || utf8.RuneCountInString(half) >= minHalf }
		if l.stop[first] || digitsMeet(first, second) || !long(first) || !long(second) && !l.stop[second] {
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

// longForms returns the forms of several words, by the first one.
func (q query) longForms() map[string][][]string {
	found := map[string][][]string{}
	for _, v := range q.variants {
		if len(v.form) > 1 {
			found[v.form[0]] = append(found[v.form[0]], v.form)
		}
	}
	return found
}

// formed returns the positions of words that are in a row as in one of the forms.
func formed(tokens []token, forms map[string][][]string) map[int]bool {
	found := map[int]bool{}
	words := onePerPosition(tokens)
	for i, w := range words {
		for _, form := range forms[w.term] {
			n := len(form)
			if i+n <= len(words) && slices.EqualFunc(words[i:i+n], form, func(t token, term string) bool { return t.term == term }) {
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
			other = s.inARow(ctx, words, maxFormRows, &left)
		}
		for _, of := range v.of {
			if len(other.postings) > 0 {
				s.others[of] = append(s.others[of], other)
			}
		}
	}
}

// inARow returns the postings of memories that have some words at their distances, unless reading them takes more than is left. Of the
// memories with all words, it reads the latest, most at most.
func (s *bm25) inARow(ctx context.Context, words []phraseWord, most int, left *int) (found postingList) {
	fewest := math.MaxInt
	for _, w := range words {
		fewest = min(fewest, len(s.inverted.terms[w.number].postings))
	}
	if fewest > *left || ctx.Err() != nil {
		return found
	}
	*left -= fewest
	found = postingList{maxFrequency: formTenths, minLength: s.inverted.terms[words[0].number].minLength}
	for _, row := range s.withAll(words, most) {
		if *left -= len(s.forwardOf(row)) / rowBytes; *left < 0 || ctx.Err() != nil {
			break
		}
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
	case len(l.postings)+len(other.postings) <= maxVariedPostings:
	case len(l.postings) < len(other.postings):
		return other
	default:
		return l
	}
	merged := postingList{
		postings:     make([]uint32, 0, len(l.postings)+len(other.postings)),
		maxFrequency: max(l.maxFrequency, other.maxFrequency), minLength: min(l.minLength, other.minLength),
	}
	for a, b := l.postings, other.postings; len(a)+len(b) > 0; {
		var posting uint32
		switch {
		case len(b) == 0 || len(a) > 0 && a[0]>>8 < b[0]>>8:
			posting, a = a[0], a[1:]
		case len(a) == 0 || b[0]>>8 < a[0]>>8:
			posting, b = unwritten(b[0]), b[1:]
		default:
			posting, a, b = max(a[0], unwritten(b[0])), a[1:], b[1:]
		}
		merged.postings = append(merged.postings, min(posting, (posting|manyTenths)-1))
	}
	return merged
}

// unwritten returns the posting of a form that the query does not have: its frequency counts a fifth less.
func unwritten(posting uint32) uint32 {
	tf := posting & manyTenths
	return posting - tf/5
}
