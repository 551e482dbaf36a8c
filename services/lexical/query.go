package lexical

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxTerms bounds the terms that are searched for. Of a longer query the rarest and most repeated are kept.
	maxTerms = 64
	// maxLookups bounds the terms that are looked up to find those.
	maxLookups = 1024
	// maxPhrases bounds the quoted phrases that are looked at.
	maxPhrases = 8
)

// wanted is a term of a query.
type wanted struct {
	term string
	uses int // in the query
	stop bool
	// prefixed marks a word that was not in the query but begins as its last word does.
	prefixed bool
}

// query is a text understood. Nothing in it is an operator but quotation marks.
type query struct {
	terms    []wanted // distinct; stop words only if there is nothing else
	distinct int      // before any was left out
	phrases  [][]token
	// identifiers are the terms of each identifier, the whole first, as often as it has them.
	identifiers [][]string
	prefix      string // what the last word begins with, if it is to stand for all such words
}

// understand splits a text into terms and quoted phrases of two words or more.
func understand(text string, s Settings) query {
	all := s.language().tokens(text)
	tokens := slices.DeleteFunc(slices.Clone(all), func(t token) bool { return t.grammed })
	var q query
	if s.Prefix && len(tokens) > 0 {
		if last := tokens[len(tokens)-1]; last.end == len(strings.TrimRightFunc(text, unicode.IsSpace)) {
			q.prefix = normalize(text[last.start:last.end])
		}
	}
	for _, quoted := range quotations(text) {
		inside := slices.DeleteFunc(slices.Clone(all), func(t token) bool { return t.start < quoted.start || t.end > quoted.end })
		if len(inside) > 1 && len(q.phrases) < maxPhrases {
			q.phrases = append(q.phrases, inside)
		}
	}
	content := slices.DeleteFunc(slices.Clone(tokens), func(t token) bool { return t.stop })
	if len(content) == 0 {
		content = tokens
	}
	q.identifiers = identifiers(content)
	at := make(map[string]int, len(content))
	for _, t := range content {
		i, seen := at[t.term]
		if !seen {
			i = len(q.terms)
			at[t.term] = i
			q.terms = append(q.terms, wanted{term: t.term, stop: t.stop})
		}
		q.terms[i].uses++
	}
	q.distinct = len(q.terms)
	if len(q.terms) > maxLookups {
		q.terms = mostUsed(q.terms, maxLookups)
	}
	return q
}

// identifiers returns the terms of each identifier among tokens: one that others lie within, and those.
func identifiers(tokens []token) (found [][]string) {
	for i := 0; i < len(tokens); {
		whole, begin := tokens[i], i
		for i++; i < len(tokens) && tokens[i].end <= whole.end; i++ {
		}
		if i-begin == 1 {
			continue
		}
		var terms []string
		for _, t := range tokens[begin:i] {
			terms = append(terms, t.term)
		}
		found = append(found, terms)
	}
	return found
}

// mostUsed returns the n terms that the query repeats most, as they are likely its topic; among equals, the earlier.
func mostUsed(terms []wanted, n int) []wanted {
	terms = slices.Clone(terms)
	slices.SortStableFunc(terms, func(a, b wanted) int { return cmp.Compare(b.uses, a.uses) })
	return terms[:min(n, len(terms))]
}

// quotations returns what is between pairs of quotation marks.
func quotations(text string) []span {
	var found []span
	begin := -1
	for i, r := range text {
		switch r {
		case '"', '“', '”', '„', '«', '»':
			if begin < 0 {
				begin = i
			} else {
				found = append(found, span{begin, i})
				begin = -1
			}
		}
	}
	return found
}

func (q query) words() []string {
	words := make([]string, len(q.terms))
	for i, t := range q.terms {
		words[i] = t.term
	}
	return words
}

// excess is by how many uses each term counts less for being part of an identifier: all its terms together weigh what the
// whole does, or the parts if these weigh more, since they say the same thing twice. rarity has the terms that occur, by
// idf.
func (q query) excess(rarity map[string]float64) map[string]float64 {
	less := map[string]float64{}
	for _, terms := range q.identifiers {
		whole, parts := rarity[terms[0]], 0.
		for _, t := range terms[1:] {
			parts += rarity[t]
		}
		if whole+parts == 0 {
			continue
		}
		for _, t := range terms {
			less[t] += 1 - max(whole, parts)/(whole+parts)
		}
	}
	return less
}
