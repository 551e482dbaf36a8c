package lexical

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

const (
	// maxExact bounds the exact matches that are added to the best hits. The latest are taken.
	maxExact = 8
	// maxEqual bounds the exact matches that are looked at. The latest are taken.
	maxEqual = 1000
)

// hashOf returns a hash of a text that ignores case, accents, punctuation, spacing and language; 0 if the text has no words.
func hashOf(text string) uint64 {
	tokens := language{}.tokens(text)
	if len(tokens) == 0 {
		return 0
	}
	words := make([]byte, 0, len(text)+len(tokens))
	for _, t := range tokens {
		words = append(append(words, t.term...), ' ')
	}
	sum := sha256.Sum256(words)
	return binary.BigEndian.Uint64(sum[:])
}

// quoted returns a query and its quoted phrases by their hashes.
func quoted(query string) map[uint64]string {
	texts := []string{query}
	for _, q := range quotations(query) {
		texts = append(texts, query[q.start:q.end])
	}
	found := map[uint64]string{}
	for _, text := range texts[:min(len(texts), 1+maxPhrases)] {
		if hash := hashOf(text); hash != 0 {
			found[hash] = text
		}
	}
	return found
}

// markExact marks the hits that are among the matches. Up to maxExact other matches replace the last hits, the latest matches
// first. Otherwise fusion could not rank up matches of a low score, such as a long memory with that title.
func markExact(q leg.Query, result *leg.Result, matches []leg.Hit, score func(ids []uuid.UUID) ([]leg.Hit, error)) error {
	left := make(map[uuid.UUID]leg.Hit, len(matches))
	for _, match := range matches {
		left[match.ID] = match
	}
	for i := range result.Hits {
		hit := &result.Hits[i]
		_, hit.Exact = left[hit.ID]
		delete(left, hit.ID)
	}
	var ids []uuid.UUID
	for _, match := range matches {
		if _, missing := left[match.ID]; missing && len(ids) < min(maxExact, q.Depth) {
			ids = append(ids, match.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	scores, err := score(ids)
	if err != nil {
		return err
	}
	var added []leg.Hit
	for _, s := range scores {
		hit := left[s.ID] // whole, but for its score
		if hit.Score, hit.Own, hit.Exact = s.Score, s.Own, true; q.MinScore == nil || hit.Own >= *q.MinScore {
			added = append(added, hit)
		}
	}
	for i := len(result.Hits) - 1; i >= 0 && len(result.Hits)+len(added) > q.Depth; i-- {
		if !result.Hits[i].Exact {
			result.Hits = slices.Delete(result.Hits, i, i+1)
		}
	}
	slices.SortFunc(added, leg.CompareHits)
	result.Hits = append(result.Hits, added[:min(len(added), q.Depth-len(result.Hits))]...)
	if result.ScoreKind == triskelev1.ScoreKind_SCORE_KIND_BM25 { // an added match may outrank the hits of a truncated search
		slices.SortStableFunc(result.Hits, leg.CompareHits)
	}
	return nil
}
