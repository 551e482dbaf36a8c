package lexical

import (
	"cmp"
	"context"
	"math"
	"slices"
)

const (
	// maxPhraseRows bounds the memories with all words of a phrase that are checked for the phrase. The latest are checked.
	maxPhraseRows = 4096
	// maxPrefixed bounds the words that a prefix stands for. The first in alphabetical order are taken.
	maxPrefixed = 32
)

// phraseWord is a word of a phrase.
type phraseWord struct {
	number uint32
	after  int32 // positions after the first word
}

// findPhrases puts the query's phrases before its terms. A phrase counts like a term that memories have once.
func (s *bm25) findPhrases(ctx context.Context) {
	var phrases []sought
	left := math.MaxInt
	for _, phrase := range s.query.phrases {
		words := s.phraseWords(phrase)
		if len(words) == 0 {
			continue
		}
		t := sought{phrase: true, postingList: s.inARow(ctx, words, maxPhraseRows, &left)}
		t.df = int64(len(t.postings))
		t.weight = idf(s.documents, t.df)
		phrases = append(phrases, t)
	}
	s.terms = append(phrases, s.terms...)
}

// phraseWords returns the words that are looked for, of a long phrase the first maxTerms. Among terms at one position it takes the last.
// It returns nil if no memory has one of the words.
func (s *bm25) phraseWords(phrase []token) []phraseWord {
	var words []phraseWord
	tokens := phraseTokens(phrase)
	for _, t := range tokens[:min(len(tokens), maxTerms)] {
		number, known := s.known(t.term)
		if !known {
			return nil
		}
		words = append(words, phraseWord{number, int32(t.position - tokens[0].position)})
	}
	return words
}

// phraseTokens returns the tokens that a memory must have for a phrase, one for a position: without stop words if two others are left.
func phraseTokens(phrase []token) []token {
	found := onePerPosition(phrase)
	if content := slices.DeleteFunc(slices.Clone(found), func(t token) bool { return t.stop }); len(content) > 1 {
		return content
	}
	return found
}

// onePerPosition returns the last token at each position: the parts of an identifier instead of the whole.
func onePerPosition(tokens []token) (found []token) {
	for i, t := range tokens {
		if i+1 == len(tokens) || tokens[i+1].position != t.position {
			found = append(found, t)
		}
	}
	return found
}

// withAll returns the rows with all of the words, ascending: the latest ones, if there are more than most.
func (s *bm25) withAll(words []phraseWord, most int) []uint32 {
	lists := make([][]uint32, len(words))
	for i, w := range words {
		lists[i] = s.inverted.terms[w.number].postings
	}
	slices.SortStableFunc(lists, func(a, b []uint32) int { return cmp.Compare(len(a), len(b)) })
	var rows []uint32
	for _, posting := range lists[0] {
		row, all := posting>>8, true
		for i := 1; i < len(lists) && all; i++ {
			lists[i] = lists[i][gallop(lists[i], row<<8):]
			all = len(lists[i]) > 0 && lists[i][0]>>8 == row
		}
		if all {
			rows = append(rows, row)
		}
	}
	if len(rows) > most {
		rows = s.latest(rows)[:most]
		slices.Sort(rows)
	}
	return rows
}

// latest sorts rows by creation time, the latest first, and then by id.
func (s *bm25) latest(rows []uint32) []uint32 {
	slices.SortFunc(rows, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(s.rows.Created[b], s.rows.Created[a]), slices.Compare(s.rows.IDs[a][:], s.rows.IDs[b][:]))
	})
	return rows
}

// hasPhrase reports whether a row has the words at their distances.
func (s *bm25) hasPhrase(row uint32, words []phraseWord) bool {
	if len(words) == 1 {
		return true
	}
	positions := make([][]int32, len(words))
	for number, occurrences := range forwardTerms(s.forwardOf(row)) {
		var of []int32
		for i, w := range words {
			if w.number != number {
				continue
			}
			if of == nil { // the phrase may repeat the word
				of = appendPositions(nil, occurrences)
			}
			positions[i] = of
		}
	}
	for _, first := range positions[0] {
		all := true
		for i := 1; i < len(words) && all; i++ {
			_, all = slices.BinarySearch(positions[i], first+words[i].after)
		}
		if all {
			return true
		}
	}
	return false
}
