// Package lexical is the leg that searches by words: the index, which the memory store writes in the record's own
// transaction, and the search, on PostgreSQL and on SQLite. It does not import the memory service.
//
// The engines differ, by what each brings: PostgreSQL ranks by ts_rank, prefers memories with all terms, and finds
// nothing for a query of stop words; SQLite ranks any match by BM25 and searches stop words when there is nothing else.
// Both stem English, and weigh fields alike.
package lexical

import (
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

// maxTerms bounds the work for a long query. Those that the query repeats most are kept, as they are likely its topic;
// among equals, the earlier ones.
const maxTerms = 64

// Config holds what may be tuned. Start from DefaultConfig.
type Config struct {
	// OrBroadenMinRank is the least ts_rank, 0 to 1, of a memory that has only some of the terms. 0 lets all of them in.
	OrBroadenMinRank float64
}

// DefaultConfig returns the settings to use without a reason for others.
func DefaultConfig() Config { return Config{OrBroadenMinRank: 0.01} }

// abstained is the result for a query that has nothing to search for.
func abstained(kind triskelev1.ScoreKind, reason string) leg.Result {
	return leg.Result{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Reason: reason, ScoreKind: kind}
}
