// Package lexical is the leg that searches by words, on PostgreSQL and on SQLite. It does not import the memory service.
//
// Writing (PostgresIndex, SQLiteIndex), in the record's own transaction:
//
//  1. The namespace's settings name its language.
//  2. language.tokens splits each field of a memory into terms: stemmed words, identifiers whole and in parts, and pairs of
//     characters in scripts without spaces.
//  3. The terms go to the full-text index. Hashes of the title and the content are stored to find exact matches.
//
// Searching (Postgres, SQLite):
//
//  1. understand splits the query by the same rules into terms, quoted phrases, and the beginning of the last word.
//  2. The 64 terms of the highest weight are looked up. Any memory with one of them is a candidate.
//  3. The scorer ranks candidates: BM25, or PostgreSQL's ts_rank. A phrase counts as one more term.
//  4. Memories that are not live or do not pass the filter are dropped.
//  5. Hits whose title or content equals the query, or a phrase of it, are marked as exact if the caller asks for it.
//
// The engines differ in these points:
//
//   - PostgreSQL takes document frequencies and lengths from the namespace, uses the namespace's k1 and b, and weighs fields
//     before saturation (BM25F). SQLite's FTS5 takes both from the whole file, has fixed k1 = 1.2 and b = 0.75, and counts an
//     identifier kept whole as another word.
//   - Only PostgreSQL has ts_rank, which ignores k1, b, phrases and prefixes. SQLite ranks by BM25 instead and returns the
//     state FALLBACK.
//   - In a query, SQLite adds up the weights of an identifier and of its parts. PostgreSQL takes the higher of the two.
//   - Only PostgreSQL finds a quoted phrase that begins or ends inside an identifier.
package lexical

import (
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

// Config tunes the leg of a whole process. Start from DefaultConfig.
type Config struct {
	// Scorer ranks if neither the request nor the namespace names a scorer. Unspecified means BM25.
	Scorer triskelev1.Scorer
	// OrBroadenMinRank is the minimum ts_rank, 0 to 1, of memories with only some of the terms.
	OrBroadenMinRank float64
	// MaxPostings bounds the postings that a BM25 search on PostgreSQL reads; 0 means a million. A search beyond it leaves
	// out the most frequent terms, and its result is TRUNCATED.
	MaxPostings int64
}

// defaultMaxPostings postings take some 30 ms to read.
const defaultMaxPostings = 1_000_000

// DefaultConfig returns the default configuration.
func DefaultConfig() Config {
	return Config{Scorer: triskelev1.Scorer_SCORER_BM25, OrBroadenMinRank: 0.01, MaxPostings: defaultMaxPostings}
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

// abstained returns the result for a query without anything to search for.
func abstained(kind triskelev1.ScoreKind, reason string) leg.Result {
	return leg.Result{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Reason: reason, ScoreKind: kind}
}
