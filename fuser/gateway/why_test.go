package gateway

import (
	"strings"
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	lexical := &triskelev1.Contribution{Leg: "lexical", Rank: 2, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25}
	dense := func(rank int32) *triskelev1.Contribution {
		return &triskelev1.Contribution{Leg: "dense", Rank: rank, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_COSINE}
	}
	graph := func(path ...*triskelev1.PathStep) *triskelev1.Contribution {
		return &triskelev1.Contribution{Leg: "graph", Rank: 1, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_PAGERANK, Path: path}
	}
	memory := &triskelev1.Memory{Title: "Deploy\nfreeze", Content: "frozen deploy one two three four"}
	in := func(text string, words ...string) (ranges []*triskelev1.TextRange) {
		for _, word := range words {
			at := int32(strings.Index(text, word))
			ranges = append(ranges, &triskelev1.TextRange{Start: at, End: at + int32(len(word))})
		}
		return ranges
	}
	score := 0.5
	for name, x := range map[string]struct {
		hit  *triskelev1.Hit
		lent []string
		want string
	}{
		"all three": {
			&triskelev1.Hit{
				Memory: memory, Matches: &triskelev1.Matches{Title: in(memory.Title, "Deploy"), Content: in(memory.Content, "frozen", "deploy")},
				Contributions: []*triskelev1.Contribution{lexical, dense(1), graph(&triskelev1.PathStep{Concept: "basalt"}, &triskelev1.PathStep{Memory: "m"})},
			},
			[]string{"lexical"},
			"about “basalt”, named in the question; the words “Deploy” and “frozen”; the closest in meaning; beside a hit in its thread",
		},
		"many words": {
			&triskelev1.Hit{Memory: memory, Matches: &triskelev1.Matches{Content: in(memory.Content, "frozen", "deploy", "one", "two", "three", "four")}, Contributions: []*triskelev1.Contribution{lexical}},
			nil, "the words “frozen”, “deploy”, “one”, “two” and 2 more",
		},
		"a word of two lines": {&triskelev1.Hit{Memory: memory, Matches: &triskelev1.Matches{Title: in(memory.Title, "Deploy\nfreeze")}}, nil, "the word “Deploy freeze”"},
		"without its text":    {&triskelev1.Hit{Contributions: []*triskelev1.Contribution{lexical, dense(3)}}, nil, "words of the question; number 3 in meaning"},
		"further away":        {&triskelev1.Hit{Contributions: []*triskelev1.Contribution{dense(20), graph(&triskelev1.PathStep{Concept: "a"}, &triskelev1.PathStep{Concept: "b"}, &triskelev1.PathStep{Memory: "m"})}}, nil, "linked with “a”, named in the question; similar in meaning"},
		"from another hit":    {&triskelev1.Hit{Contributions: []*triskelev1.Contribution{graph(&triskelev1.PathStep{Memory: "n"}, &triskelev1.PathStep{Memory: "m"})}}, nil, "linked with another hit"},
		"a seed itself":       {&triskelev1.Hit{Contributions: []*triskelev1.Contribution{graph(&triskelev1.PathStep{Memory: "m"})}}, nil, "found by another leg, and well connected"},
		"legs that are silent": {
			&triskelev1.Hit{Contributions: []*triskelev1.Contribution{{Leg: "lexical", ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25}, dense(2), {Leg: "graph", ScoreKind: triskelev1.ScoreKind_SCORE_KIND_PAGERANK}}},
			nil, "number 2 in meaning",
		},
		"moved and important": {
			&triskelev1.Hit{Exact: true, RerankScore: &score, Rank: 1, FusedRank: 4, Importance: 0.9, Prior: 0.97, Contributions: []*triskelev1.Contribution{{Leg: "temporal", Rank: 1}}},
			nil, "the question is its title or text; found by the temporal leg; moved from place 4 by the reranker; important",
		},
		"ranges beyond the text": {
			&triskelev1.Hit{Memory: memory, Matches: &triskelev1.Matches{Content: []*triskelev1.TextRange{{Start: -1, End: 3}, {Start: 4, End: 2}, {Start: 0, End: 999}}}, Contributions: []*triskelev1.Contribution{lexical}},
			nil, "words of the question",
		},
	} {
		if got := why(x.hit, x.lent); got != x.want {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
	long := strings.Repeat("ü", 100)
	got := why(&triskelev1.Hit{Memory: &triskelev1.Memory{Content: long}, Matches: &triskelev1.Matches{Content: []*triskelev1.TextRange{{Start: 0, End: 200}}}}, nil)
	if want := "the word “" + strings.Repeat("ü", 40) + "…”"; got != want {
		t.Errorf("a long word: got %q, want %q", got, want)
	}
}
