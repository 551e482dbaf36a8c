package lexical

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/triskele/triskele/fuser/platform/slice"
)

const (
	// maxTerms bounds the terms that are searched for. A longer query keeps the terms of the highest weight.
	maxTerms = 64
	// maxLookups bounds the terms whose document frequencies are looked up to find those.
	maxLookups = 1024
	// maxPhrases bounds the quoted phrases of a query that count.
	maxPhrases = 8
)

// queryTerm is one distinct term of a query.
type queryTerm struct {
	term string
	uses int // occurrences in the query
	stop bool
	// prefixed marks a term that is not in the query but begins with its last word.
	prefixed bool
	// word is the term as it is written, normalized. It is empty if the term must not be corrected.
	word string
}

// query is a parsed query text. Quotation marks are its only operators.
type query struct {
	terms    []queryTerm // stop words only if there are no others
	distinct int         // number of terms before maxLookups was applied
	phrases  [][]token
	// identifiers are the terms of each identifier: the whole, then its parts, with repetitions.
	identifiers [][]string
	prefix      string // the last word, if it stands for all words that begin with it; else ""
	variants    []variant
}

// wanted are the terms that a query finds: those of a set, with a prefix unless it is empty, and one edit from misspelt ones.
type wanted struct {
	terms    map[string]bool
	prefix   string
	misspelt []string
}

func (w wanted) has(term string) bool {
	return w.terms[term] || w.prefix != "" && strings.HasPrefix(term, w.prefix) ||
		slices.ContainsFunc(w.misspelt, func(other string) bool { return oneEdit(term, other) })
}

// understand splits a text into terms and quoted phrases of two terms or more.
func understand(text string, s Settings) query {
	all := s.language().tokens(text)
	tokens := slices.DeleteFunc(slices.Clone(all), func(t token) bool { return t.paired })
	word := func(t token) string { return normalize(text[t.start:t.end]) }
	foreign := s.language().foreign(slice.Map(tokens[:min(len(tokens), mostWords)], word))
	if foreign != nil {
		for i, t := range tokens {
			tokens[i].stop = t.stop || foreign[word(t)]
		}
	}
	var q query
	if s.Prefix && len(tokens) > 0 {
		if last := tokens[len(tokens)-1]; last.end == len(strings.TrimRightFunc(text, unicode.IsSpace)) {
			q.prefix = word(last)
		}
	}
	for _, quoted := range quotations(text) {
		from, _ := slices.BinarySearchFunc(all, quoted.start, token.compareStart)
		to, _ := slices.BinarySearchFunc(all, quoted.end, token.compareStart)
		inside := slices.DeleteFunc(slices.Clone(all[from:to]), func(t token) bool { return t.end > quoted.end })
		if len(inside) > 1 && len(q.phrases) < maxPhrases {
			q.phrases = append(q.phrases, inside)
		}
	}
	content := slices.DeleteFunc(slices.Clone(tokens), func(t token) bool { return t.stop })
	if len(content) == 0 {
		content = tokens
	}
	q.identifiers = identifiers(content)
	english := foreign == nil && s.Language == DefaultSettings().Language // we know the words of no other language
	if english {
		q.variants = s.language().variants(text, tokens)
	}
	at := make(map[string]int, len(content))
	for _, t := range content {
		i, seen := at[t.term]
		if !seen {
			i = len(q.terms)
			at[t.term] = i
			q.terms = append(q.terms, queryTerm{term: t.term, stop: t.stop})
			if english {
				q.terms[i].word = word(t)
			}
		}
		q.terms[i].uses++
	}
	q.distinct = len(q.terms)
	if len(q.terms) > maxLookups {
		q.terms = mostUsed(q.terms, maxLookups)
	}
	return q
}

// identifiers returns the terms of each identifier: of a token that contains the next tokens, and of those.
func identifiers(tokens []token) (found [][]string) {
	for i := 0; i < len(tokens); {
		end := i + 1
		for end < len(tokens) && tokens[end].end <= tokens[i].end {
			end++
		}
		if end-i > 1 {
			found = append(found, slice.Map(tokens[i:end], func(t token) string { return t.term }))
		}
		i = end
	}
	return found
}

// mostUsed returns the n terms that the query repeats most, which are likely its topic. Among equals, it keeps the earlier.
func mostUsed(terms []queryTerm, n int) []queryTerm {
	terms = slices.Clone(terms)
	slices.SortStableFunc(terms, func(a, b queryTerm) int { return cmp.Compare(b.uses, a.uses) })
	return terms[:min(n, len(terms))]
}

// quotations returns the ranges between pairs of quotation marks.
func quotations(text string) (found []span) {
	begin := -1
	for i, r := range text {
		switch {
		case !strings.ContainsRune(`"“”„«»`, r):
		case begin < 0:
			begin = i
		default:
			found = append(found, span{begin, i})
			begin = -1
		}
	}
	return found
}

// excess returns the number of uses to subtract from each term of an identifier. The whole and its parts mean the same, so
// together they must weigh as much as the heavier of the two. rarity is the idf of the terms that occur in the index.
func (q query) excess(rarity map[string]float64) map[string]float64 {
	less := map[string]float64{}
	for _, terms := range q.identifiers {
		whole, parts := rarity[terms[0]], 0.0
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
