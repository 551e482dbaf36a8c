package lexical

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// maxPhraseDocuments bounds the documents with all words of a phrase that are checked for the phrase. The latest are
	// checked.
	maxPhraseDocuments = 4096
	// maxPrefixed bounds the words that a prefix stands for. The first in alphabetical order are taken.
	maxPrefixed = 32
)

// phraseMatches are the documents with a quoted phrase. The phrase counts like a term that each of them has once.
type phraseMatches struct {
	numbers []uint32
	fresh   []uuid.UUID
	weight  float64
}

// has reports whether a document has the phrase. number is nil for a fresh document.
func (m phraseMatches) has(number *uint32, memory uuid.UUID) bool {
	if number == nil {
		return slices.Contains(m.fresh, memory)
	}
	return slices.Contains(m.numbers, *number)
}

// findPhrases finds the documents of each quoted phrase. It reads the tsvectors, which have positions, of the documents with
// all words of the phrase.
func (s *bm25Search) findPhrases(ctx context.Context) error {
	byTerm := make(map[string]*sought, len(s.terms))
	for _, t := range s.terms {
		byTerm[t.term] = t
	}
	for _, phrase := range s.query.phrases {
		var words []*sought
		seen := map[string]bool{}
		for _, t := range phrase {
			if seen[t.term] {
				continue
			}
			seen[t.term] = true
			if w := byTerm[t.term]; w != nil {
				words = append(words, &sought{queryTerm: w.queryTerm, df: w.df, weight: 1, blocks: w.blocks, fresh: w.fresh})
			} else if !t.stop {
				words = nil // no document has the term
				break
			}
		}
		var size int64
		for _, w := range words {
			size += w.df
		}
		if len(words) == 0 || size > s.budget {
			continue
		}
		s.budget -= size
		var counts scores // number of the phrase's words in each document
		for _, number := range s.removed {
			counts.exclude(number)
		}
		if err := s.read(ctx, &counts, saturation{scale: 1}, words, nil); err != nil {
			return err
		}
		candidates := counts.above(float64(len(words)))
		counts.release()
		candidates = candidates[max(0, len(candidates)-maxPhraseDocuments):]
		fresh := map[uuid.UUID]int{}
		var ids []uuid.UUID
		for _, w := range words {
			for _, f := range w.fresh {
				if fresh[f.memory]++; fresh[f.memory] == len(words) {
					ids = append(ids, f.memory)
				}
			}
		}
		matches, err := s.check(ctx, phraseQuery(phrase), candidates, ids)
		if err != nil {
			return err
		}
		matches.weight = idf(s.documents, int64(len(matches.numbers)+len(matches.fresh)))
		s.phrases = append(s.phrases, matches)
	}
	return nil
}

// check returns the documents that match a tsquery.
func (s *bm25Search) check(ctx context.Context, query string, numbers []uint32, fresh []uuid.UUID) (m phraseMatches, err error) {
	signed := make([]int32, len(numbers))
	for i, number := range numbers {
		signed[i] = int32(number)
	}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT e.number FROM lexical.entries e JOIN lexical.documents d ON d.namespace = $1 AND d.memory_id = e.memory_id
		WHERE e.namespace = $1 AND e.number = ANY($2) AND d.tsv @@ $3::tsquery`, s.q.Namespace, signed, query).Query(func(rows pgx.Rows) (err error) {
		m.numbers, err = pgx.CollectRows(rows, pgx.RowTo[uint32])
		return err
	})
	batch.Queue(`SELECT memory_id FROM lexical.documents WHERE namespace = $1 AND memory_id = ANY($2) AND tsv @@ $3::tsquery`,
		s.q.Namespace, fresh, query).Query(func(rows pgx.Rows) (err error) {
		m.fresh, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return m, s.tx.SendBatch(ctx, batch).Close()
}

// phraseQuery returns a tsquery for a phrase's words at their distances. Stop words are left out and keep only the distance,
// unless the phrase has no other words. Among terms at one position, it takes the last.
func phraseQuery(phrase []token) string {
	content := false
	for _, t := range phrase {
		content = content || !t.stop
	}
	var b strings.Builder
	last := -1
	for i, t := range phrase {
		if content && t.stop || i+1 < len(phrase) && phrase[i+1].position == t.position {
			continue
		}
		if last >= 0 {
			fmt.Fprintf(&b, " <%d> ", t.position-last)
		}
		writeLexeme(&b, t.term)
		last = t.position
	}
	return b.String()
}

// expand adds the indexed words that begin with the query's last word, if the namespace's settings ask for it.
func (s *bm25Search) expand(ctx context.Context) error {
	if s.query.prefix == "" {
		return nil
	}
	rows, err := s.tx.Query(ctx, `
		(SELECT DISTINCT term FROM lexical.blocks WHERE namespace = $1 AND term > $2 AND term < $3 ORDER BY term LIMIT $4)
		UNION (SELECT DISTINCT term FROM lexical.postings WHERE namespace = $1 AND term > $2 AND term < $3 ORDER BY term LIMIT $4)
		ORDER BY term LIMIT $4`, s.q.Namespace, s.query.prefix, s.query.prefix+"\U0010ffff", maxPrefixed)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(s.query.terms))
	for _, t := range s.query.terms {
		known[t.term] = true
	}
	for _, term := range found {
		if !known[term] {
			s.query.terms = append(s.query.terms, queryTerm{term: term, uses: 1, prefixed: true})
			s.query.distinct++
		}
	}
	return nil
}
