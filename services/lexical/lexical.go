// Package lexical is the leg that searches by words: the index, which the memory store writes in the record's own
// transaction, and the search, on PostgreSQL and on SQLite. It does not import the memory service.
//
// Both engines split texts by the same rules (see language.tokens) and rank any match by BM25. They differ in this:
//
//   - On PostgreSQL document frequencies and lengths are those of the namespace, k1 and b are the namespace's, and fields
//     are weighed before saturation (BM25F). SQLite's FTS5 takes frequencies and lengths over the whole file, has fixed
//     k1 = 1.2 and b = 0.75, weighs a term's occurrences alike, and counts an identifier kept whole as a word more.
//   - Only PostgreSQL has the scorer ts_rank, which takes no notice of k1, b, quotation marks and prefixes; asked for it, SQLite answers by BM25 and says FALLBACK.
//   - On SQLite an identifier in a query counts whole and in parts; on PostgreSQL all its terms weigh what the heavier of the
//     two does.
//   - A quoted phrase that begins or ends inside an identifier is found on PostgreSQL only.
package lexical

import (
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

// Config holds what may be tuned. Start from DefaultConfig.
type Config struct {
	// Scorer is what a request gets that asks for none; unspecified means BM25.
	Scorer triskelev1.Scorer
	// OrBroadenMinRank is the least ts_rank, 0 to 1, of a memory that has only some of the terms. 0 lets all of them in.
	OrBroadenMinRank float64
	// MaxPostings bounds the postings that a BM25 search on PostgreSQL reads; 0 means a million. What is left out belongs
	// to the most frequent terms, and the result is TRUNCATED.
	MaxPostings int64
}

// defaultMaxPostings takes some 30 ms to read.
const defaultMaxPostings = 1_000_000

// DefaultConfig returns the settings to use without a reason for others.
func DefaultConfig() Config {
	return Config{Scorer: triskelev1.Scorer_SCORER_BM25, OrBroadenMinRank: 0.01, MaxPostings: defaultMaxPostings}
}

// ScorerNames are the names of the scorers, as flags take them.
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

// noWords is why a leg abstains from a query of symbols.
const noWords = "the query has no searchable words"

// abstained is the result for a query that has nothing to search for.
func abstained(kind triskelev1.ScoreKind, reason string) leg.Result {
	return leg.Result{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Reason: reason, ScoreKind: kind}
}
