package gateway

import (
	"fmt"
	"slices"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	mostQuoted    = 4   // words of a memory that a sentence quotes
	longestQuoted = 40  // characters of each
	nearest       = 3   // ranks by meaning that are told apart
	weighty       = 0.8 // importance from which on it is worth a word
)

// why says in one sentence why a hit is where it is: what each leg found in it, best reasons first. lent has the legs whose
// score for it is partly its neighbours'.
func why(hit *triskelev1.Hit, lent []string) string {
	var reasons []string
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if hit.GetExact() {
		add("the question is its title or text")
	}
	for _, c := range hit.GetContributions() {
		if len(c.GetPath()) > 0 {
			reasons = append(reasons, connection(c.GetPath()))
		}
	}
	words := matchedWords(hit)
	if len(words) > 0 {
		add("%s", words)
	}
	for _, c := range hit.GetContributions() {
		switch c.GetScoreKind() {
		case triskelev1.ScoreKind_SCORE_KIND_COSINE:
			switch rank := c.GetRank(); {
			case rank == 1:
				add("the closest in meaning")
			case rank > 1 && rank <= nearest:
				add("number %d in meaning", rank)
			case rank > 0:
				add("similar in meaning")
			}
		case triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_TS_RANK:
			if c.GetRank() > 0 && len(words) == 0 {
				add("words of the question")
			}
		default:
			if c.GetRank() > 0 && len(c.GetPath()) == 0 {
				add("found by the %s leg", c.GetLeg())
			}
		}
	}
	if len(lent) > 0 {
		add("beside a hit in its thread")
	}
	if hit.RerankScore != nil && hit.GetFusedRank() != hit.GetRank() {
		add("moved from place %d by the reranker", hit.GetFusedRank())
	}
	if hit.GetImportance() >= weighty && hit.GetPrior() != 1 {
		add("important")
	}
	return strings.Join(reasons, "; ")
}

// connection says how the graph leg came to a memory. The last stop is the memory.
func connection(path []*triskelev1.PathStep) string {
	named := ""
	if first := path[0].GetConcept(); first != "" {
		named = quote(first)
	}
	switch {
	case named == "" && len(path) < 2:
		return "found by another leg, and well connected"
	case named == "":
		return "linked with another hit"
	case len(path) <= 2:
		return "about " + named + ", named in the question"
	}
	return "linked with " + named + ", named in the question"
}

// matchedWords quotes the words of the question that a memory has, as the memory spells them.
func matchedWords(hit *triskelev1.Hit) string {
	var words []string
	for _, in := range []struct {
		text   string
		ranges []*triskelev1.TextRange
	}{{hit.GetMemory().GetTitle(), hit.GetMatches().GetTitle()}, {hit.GetMemory().GetContent(), hit.GetMatches().GetContent()}} {
		for _, r := range in.ranges {
			from, to := int(r.GetStart()), int(r.GetEnd())
			if from < 0 || from >= to || to > len(in.text) {
				continue
			}
			if word := quote(in.text[from:to]); !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) }) {
				words = append(words, word)
			}
		}
	}
	return listed(words)
}

func listed(words []string) string {
	more := ""
	if extra := len(words) - mostQuoted; extra > 0 {
		words, more = words[:mostQuoted], fmt.Sprintf(" and %d more", extra)
	}
	switch n := len(words); {
	case n == 0:
		return ""
	case n == 1:
		return "the word " + words[0]
	case more == "":
		return "the words " + strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return "the words " + strings.Join(words, ", ") + more
}

// quote puts a word of a memory into quotation marks, on one line and cut if it is long.
func quote(word string) string {
	runes := []rune(strings.ToValidUTF8(strings.Join(strings.Fields(word), " "), ""))
	if len(runes) > longestQuoted {
		runes = append(runes[:longestQuoted], '…')
	}
	return "“" + string(runes) + "”"
}
