package lexical

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqlite"
)

var (
	_ leg.Scorer = (*Postgres)(nil)
	_ leg.Scorer = (*SQLite)(nil)
)

// Scores implements leg.Scorer. A memory without a term of the query scores 0.
func (p *Postgres) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) (scores []leg.Score, kind triskelev1.ScoreKind, err error) {
	var settings Settings
	err = postgres.SearchAfter(ctx, p.Or(p.pool), q.Namespace, planning, settings.queue(q.Namespace), func(tx pgx.Tx) (err error) {
		scores, kind, err = p.scores(ctx, tx, q, understand(q.Text, settings), settings, ids)
		return err
	})
	return scores, kind, err
}

func (p *Postgres) scores(ctx context.Context, tx pgx.Tx, q leg.Query, understood query, settings Settings, ids []uuid.UUID) ([]leg.Score, triskelev1.ScoreKind, error) {
	if p.scorer(q, settings) == triskelev1.Scorer_SCORER_TS_RANK {
		scores, err := p.ranksOf(ctx, tx, q, understood, ids)
		return scores, triskelev1.ScoreKind_SCORE_KIND_TS_RANK, err
	}
	s := &bm25Search{tx: tx, q: q, query: understood, settings: settings, budget: p.cfg.MaxPostings}
	var scores []leg.Score
	err := s.prepare(ctx)
	if err == nil {
		scores, err = s.scoresOf(ctx, ids)
	}
	return scores, triskelev1.ScoreKind_SCORE_KIND_BM25, err
}

// scoresOf computes the scores of given documents from their tsvectors, without reading blocks.
func (s *bm25Search) scoresOf(ctx context.Context, ids []uuid.UUID) ([]leg.Score, error) {
	weights := make(map[string]float64, len(s.terms))
	for _, t := range s.terms {
		weights[t.term] = t.weight
	}
	rows, err := s.tx.Query(ctx, `SELECT d.memory_id, e.number, tsvectorsend(d.tsv) FROM lexical.documents d
		JOIN lexical.entries e ON e.namespace = $1 AND e.memory_id = d.memory_id
		WHERE d.namespace = $1 AND d.memory_id = ANY($2)`, s.q.Namespace, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (leg.Score, error) {
		var score leg.Score
		var number *uint32
		var vector []byte
		if err := row.Scan(&score.ID, &number, &vector); err != nil {
			return score, err
		}
		length, frequencies, err := frequenciesIn(vector, weights)
		if err != nil {
			return score, fmt.Errorf("memory %s: %w", score.ID, err)
		}
		for _, f := range frequencies {
			score.Score += f.weight * s.saturation.of(f.tf, length)
		}
		for _, phrase := range s.phrases {
			if phrase.has(number, score.ID) {
				score.Score += phrase.weight
			}
		}
		return score, nil
	})
}

// frequency is the weight of a term and its frequency in a document, in tenths.
type frequency struct {
	weight float64
	tf     int
}

// fieldTenths are the weights of fields in tenths, by the labels of a tsvector: D, C, B, A.
var fieldTenths = [4]int{1, 2, 4, 10}

var errVector = errors.New("the words of a document are not as PostgreSQL sends them")

// frequenciesIn reads a tsvector in PostgreSQL's binary form. It returns the document's length in tenths, like the postings,
// and the frequency of each term that has a weight.
func frequenciesIn(vector []byte, weights map[string]float64) (length int, found []frequency, err error) {
	if len(vector) < 4 {
		return 0, nil, errVector
	}
	lexemes := binary.BigEndian.Uint32(vector)
	for vector = vector[4:]; lexemes > 0; lexemes-- {
		word, rest, ended := bytes.Cut(vector, []byte{0})
		if !ended || len(rest) < 2 {
			return 0, nil, errVector
		}
		positions := 2 * int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; len(rest) < positions {
			return 0, nil, errVector
		}
		tf := 0
		for at := 0; at < positions; at += 2 {
			tf += fieldTenths[rest[at]>>6]
		}
		vector = rest[positions:]
		length += tf
		if weight, sought := weights[string(word)]; sought {
			found = append(found, frequency{weight, tf})
		}
	}
	return min(length, math.MaxUint16), found, nil
}

// ranksOf returns the same ts_rank as searchByRank: for all terms if the memory has them, else for any. Ranks below
// Config.OrBroadenMinRank become 0.
func (p *Postgres) ranksOf(ctx context.Context, tx pgx.Tx, q leg.Query, understood query, ids []uuid.UUID) ([]leg.Score, error) {
	terms := mostUsed(understood.terms, maxTerms)
	if len(terms) == 0 {
		return nil, nil
	}
	all, some := tsquery(terms, " & "), tsquery(terms, " | ")
	if understood.distinct > len(terms) {
		all = some
	}
	rows, err := tx.Query(ctx, `
		SELECT memory_id, CASE WHEN tsv @@ $3::tsquery THEN ts_rank(tsv, $3::tsquery)::float8
			WHEN ts_rank(tsv, $4::tsquery) >= $5 THEN ts_rank(tsv, $4::tsquery)::float8 ELSE 0 END
		FROM lexical.documents WHERE namespace = $1 AND memory_id = ANY($2)`, q.Namespace, ids, all, some, p.cfg.OrBroadenMinRank)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (score leg.Score, err error) {
		err = row.Scan(&score.ID, &score.Score)
		return score, err
	})
}

// Scores implements leg.Scorer. A memory without a term of the query scores 0.
func (s *SQLite) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Score, triskelev1.ScoreKind, error) {
	match, result, err := s.prepare(ctx, q)
	if err != nil || match == "" {
		return nil, result.ScoreKind, err
	}
	scores, err := s.scores(ctx, q.Namespace, match, ids)
	return scores, result.ScoreKind, err
}

// scores returns the scores of memories for an FTS5 query.
func (s *SQLite) scores(ctx context.Context, namespace, match string, ids []uuid.UUID) ([]leg.Score, error) {
	var args sqlite.Args
	// The + before rowid keeps FTS5 from looking the ids up one by one: each look-up would gather the statistics of the
	// scores anew.
	rows, err := s.db.Read.QueryContext(ctx, `
		WITH wanted AS MATERIALIZED (
			SELECT d.id, d.memory_id FROM json_each(`+args.AddJSON(ids)+`) w
			CROSS JOIN lexical_documents d ON d.namespace = `+args.Add(namespace)+` AND d.memory_id = unhex(w.value, '-')
		), matched AS MATERIALIZED (
			SELECT rowid AS id, `+ftsScore+` AS score FROM lexical_fts
			WHERE lexical_fts MATCH `+args.Add(match)+` AND rowid BETWEEN (SELECT min(id) FROM wanted) AND (SELECT max(id) FROM wanted)
				AND +rowid IN (SELECT id FROM wanted)
		)
		SELECT w.memory_id, coalesce(-m.score, 0) FROM wanted w LEFT JOIN matched m ON m.id = w.id`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var scores []leg.Score
	for rows.Next() {
		var score leg.Score
		if err := rows.Scan(&score.ID, &score.Score); err != nil {
			return nil, err
		}
		scores = append(scores, score)
	}
	return scores, rows.Err()
}
