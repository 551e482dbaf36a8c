package lexical

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// queryTerms splits a query into distinct lower-case words without English stop words (unless there is nothing else),
// and says how many there are; it returns at most maxTerms of them.
func queryTerms(text string) (terms []string, distinct int) {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !isWord(r) && !unicode.IsMark(r) })
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.ContainsFunc(word, isWord) }) // lone accents
	content := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return stopWords[word] })
	if len(content) == 0 {
		content = words
	}
	uses := make(map[string]int, len(content))
	for _, word := range content {
		if uses[word]++; uses[word] == 1 {
			terms = append(terms, word)
		}
	}
	distinct = len(terms)
	if distinct > maxTerms {
		slices.SortStableFunc(terms, func(a, b string) int { return cmp.Compare(uses[b], uses[a]) })
		terms = terms[:maxTerms]
	}
	return terms, distinct
}

// isWord says what words are made of; it is what FTS5's unicode61 keeps, so that a word here is a word there.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r)
}

// stopWords are those that PostgreSQL's English dictionary drops. FTS5 has none, and would rank every memory with "the".
var stopWords = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`
		i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself
		they them their theirs themselves what which who whom this that these those am is are was were be been being have has had
		having do does did doing a an the and but if or because as until while of at by for with about against between into through
		during before after above below to from up down in out on off over under again further then once here there when where why
		how all any both each few more most other some such no nor not only own same so than too very s t can will just don should now`) {
		set[word] = true
	}
	return set
}()
