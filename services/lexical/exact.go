package lexical

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqlite"
)

const (
	// maxExact bounds the exact matches that are added to the best hits. The latest are taken.
	maxExact = 8
	// maxEqual bounds the memories with one text that are looked at. Those with the highest ids are taken.
	maxEqual = 1000
)

// hashOf returns a hash of a text that ignores case, accents, punctuation and spacing. It does not depend on the namespace's
// language. It is nil if the text has no words.
func hashOf(text string) *int64 {
	terms := language{}.terms(text)
	if terms == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(terms))
	hash := int64(binary.BigEndian.Uint64(sum[:]))
	return &hash
}

// quoted returns the hashes of a query and of its quoted phrases.
func quoted(query string) []int64 {
	texts := []string{query}
	for _, q := range quotations(query) {
		texts = append(texts, query[q.start:q.end])
	}
	var hashes []int64
	for _, text := range texts[:min(len(texts), 1+maxPhrases)] {
		if hash := hashOf(text); hash != nil && !slices.Contains(hashes, *hash) {
			hashes = append(hashes, *hash)
		}
	}
	return hashes
}

// exactMatches returns the live memories whose title or content has one of the hashes, latest first.
func (p *Postgres) exactMatches(ctx context.Context, tx pgx.Tx, q leg.Query, hashes []int64) ([]leg.Hit, error) {
	args := postgres.Args{q.Namespace, hashes, maxEqual}
	rows, err := tx.Query(ctx, `
		SELECT m.id, 0::float8, m.importance, m.created_at FROM (
			SELECT h.memory_id FROM unnest($2::bigint[]) wanted CROSS JOIN LATERAL (
				SELECT memory_id FROM lexical.hashes WHERE namespace = $1 AND content = wanted ORDER BY memory_id DESC LIMIT $3) h
			UNION SELECT h.memory_id FROM unnest($2::bigint[]) wanted CROSS JOIN LATERAL (
				SELECT memory_id FROM lexical.hashes WHERE namespace = $1 AND title = wanted ORDER BY memory_id DESC LIMIT $3) h
		) h CROSS JOIN LATERAL (
			SELECT id, importance, created_at FROM memory.memories m WHERE m.namespace = $1 AND m.id = h.memory_id AND `+postgres.Live(q.Filter, "m", &args)+` OFFSET 0
		) m ORDER BY m.created_at DESC, m.id`, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanHit)
}

// exactMatches does the same as on PostgreSQL.
func (s *SQLite) exactMatches(ctx context.Context, q leg.Query, hashes []int64) ([]leg.Hit, error) {
	var args sqlite.Args
	namespace, wanted, limit := args.Add(q.Namespace), args.AddJSON(hashes), args.Add(maxEqual)
	rows, err := s.db.Read.QueryContext(ctx, fmt.Sprintf(`
		SELECT m.id, m.importance, m.created_at FROM (
			SELECT memory_id FROM (SELECT memory_id FROM lexical_hashes WHERE namespace = %[1]s AND content IN (SELECT value FROM json_each(%[2]s)) ORDER BY memory_id DESC LIMIT %[3]s)
			UNION SELECT memory_id FROM (SELECT memory_id FROM lexical_hashes WHERE namespace = %[1]s AND title IN (SELECT value FROM json_each(%[2]s)) ORDER BY memory_id DESC LIMIT %[3]s)
		) h CROSS JOIN memories m ON m.namespace = %[1]s AND m.id = h.memory_id
		WHERE %[4]s ORDER BY m.created_at DESC, m.id`, namespace, wanted, limit, sqlite.Live(q.Filter, "m", &args)), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var hits []leg.Hit
	for rows.Next() {
		var hit leg.Hit
		var created sql.NullInt64
		if err := rows.Scan(&hit.ID, &hit.Importance, &created); err != nil {
			return nil, err
		}
		hit.CreatedAt = sqlite.Time(created)
		hits = append(hits, hit)
	}
	return hits, rows.Err()
}

// markExact marks the hits that are among the matches. Up to maxExact other matches replace the last hits, the latest matches
// first. Otherwise fusion could not rank up matches of a low score, such as a long memory with that title.
func markExact(q leg.Query, result *leg.Result, matches []leg.Hit, score func(ids []uuid.UUID) ([]leg.Score, error)) error {
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
		hit := left[s.ID]
		if hit.Score, hit.Exact = s.Score, true; q.MinScore == nil || hit.Score >= *q.MinScore {
			added = append(added, hit)
		}
	}
	for i := len(result.Hits) - 1; i >= 0 && len(result.Hits)+len(added) > q.Depth; i-- {
		if !result.Hits[i].Exact {
			result.Hits = slices.Delete(result.Hits, i, i+1)
		}
	}
	slices.SortFunc(added, compareHits)
	result.Hits = append(result.Hits, added[:min(len(added), q.Depth-len(result.Hits))]...)
	if result.ScoreKind == triskelev1.ScoreKind_SCORE_KIND_BM25 { // an added match may outrank the hits of a truncated search
		slices.SortStableFunc(result.Hits, compareHits)
	}
	return nil
}
