// Package lexical is the leg that searches by words, on PostgreSQL and on SQLite. It does not import the memory service.
//
// Writing (Index), in the record's own transaction:
//
//  1. The namespace's settings name its language.
//  2. language.tokens splits each field of a memory into terms: stemmed words, identifiers whole and in parts, and pairs of
//     characters in scripts without spaces.
//  3. The terms with their positions, and hashes of the title and the content, are stored as one row: the forward index. The
//     format is the same on both engines (document.go). PostgreSQL also stores a tsvector for ts_rank.
//
// Following (inverted, a part of the namespace's image in package replica): the rows are loaded once, and then again as they
// change. The inverted index in memory has the postings of each term, and the forward index to replace and drop memories.
// Document frequencies and the average length are always exact.
//
// Searching (bm25):
//
//  1. understand splits the query by the same rules into terms, quoted phrases, and the beginning of the last word.
//  2. Postings of a term's other forms are its own, too: "k8s" is Kubernetes, and "3 pm" is 15:00 (bm25.vary).
//  3. A misspelt word is replaced by the term that was meant (bm25.correct).
//  4. The 64 terms of the highest weight are kept. Memories with all words of a phrase are checked for their positions.
//  5. BM25F ranks all memories with any of the terms that pass the filter (bm25.best). A phrase counts as one more term.
//  6. Hits whose title or content equals the query, or a phrase of it, are marked as exact if the caller asks for it.
//
// Both engines rank alike, to the last digit. PostgreSQL ranks by ts_rank in SQL if the request, the namespace or the
// configuration asks for it, and while a namespace is not in memory (FALLBACK). ts_rank ignores k1, b, phrases and prefixes.
package lexical

import (
	"errors"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Config tunes the leg of a whole process, as flags. Without a scorer it is BM25.
type Config struct {
	Scorer           string  `help:"How the lexical leg ranks when neither the request nor the namespace says: bm25 or ts_rank." enum:"bm25,ts_rank" default:"bm25" env:"TRISKELE_SCORER"`
	OrBroadenMinRank float64 `help:"Least ts_rank, 0 to 1, of a memory with only some of a query's words." default:"0.01" env:"TRISKELE_OR_BROADEN_MIN_RANK"`
}

// DefaultConfig returns the default configuration.
func DefaultConfig() Config { return Config{Scorer: "bm25", OrBroadenMinRank: 0.01} }

// Validate implements kong's interface.
func (c Config) Validate() error {
	if !(c.OrBroadenMinRank >= 0 && c.OrBroadenMinRank <= 1) {
		return errors.New("--or-broaden-min-rank must be from 0 to 1")
	}
	return nil
}

// ScorerNames are the names of the scorers in flags and settings.
var ScorerNames = []string{"bm25", "ts_rank"}

// ScorerName returns one of ScorerNames, "" for an unspecified scorer.
func ScorerName(s triskelev1.Scorer) string {
	if s == triskelev1.Scorer_SCORER_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(s.String(), "SCORER_"))
}

// ScorerByName returns the scorer with one of ScorerNames, unspecified for any other.
func ScorerByName(name string) triskelev1.Scorer {
	return triskelev1.Scorer(triskelev1.Scorer_value["SCORER_"+strings.ToUpper(name)])
}

// noWords is the reason to abstain from a query of symbols.
const noWords = "the query has no searchable words"
