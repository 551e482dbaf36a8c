package lexical

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/postgres"
)

// Why the scorer textsearch cannot be had, and what to do.
var (
	errNoTextsearch = errors.New("this server has no pg_textsearch, an extension for PostgreSQL 17 and 18: install its package, " +
		"add it to shared_preload_libraries and restart the server; or use the scorer bm25, which needs no extension")
	errTextsearchAway = errors.New("pg_textsearch is not in this database: add it to the server's shared_preload_libraries, restart it, " +
		"and run CREATE EXTENSION pg_textsearch SCHEMA public as a superuser")
	errTextsearchK1 = errors.New("k1 must be from 0.02 to 2 for an index of pg_textsearch")
)

// wordUnits is what a word of the content counts in an index of pg_textsearch; lexical.words_of has the other fields'
// weights. As frequencies and lengths are in this unit, k1 is, too.
const wordUnits = 5

// textsearchIndex is the name of a namespace's index. Each index is partial, with the namespace for its predicate: so statistics
// are the namespace's own, and a search reads no other's entries.
func textsearchIndex(namespace string) string {
	sum := sha256.Sum256([]byte(namespace))
	return "lexical.textsearch_" + hex.EncodeToString(sum[:8])
}

// textsearchOptions are those of a namespace's index, as the server repeats them.
func textsearchOptions(s Settings) string {
	return fmt.Sprintf("text_config=simple, k1=%g, b=%g", wordUnits*s.K1, s.B)
}

// hasTextsearch says whether a namespace has an index, made with its present settings.
func hasTextsearch(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, namespace string, s Settings) (has bool, err error) {
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_index JOIN pg_class ON oid = indexrelid
		WHERE indexrelid = to_regclass($1) AND indisvalid AND array_to_string(reloptions, ', ') = $2)`, textsearchIndex(namespace), textsearchOptions(s)).Scan(&has)
	return has, err
}

// textsearchQuery writes terms as lexical.words_of does.
func textsearchQuery(terms []wanted) string {
	var b strings.Builder
	for _, t := range terms {
		word := t.term
		if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			sum := md5.Sum([]byte(word))
			word = "x" + hex.EncodeToString(sum[:])
		}
		for range t.uses {
			b.WriteString(word)
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// searchByTextsearch ranks what the extension's index finds. The index only tells the best candidates: to have it return their
// scores, too, takes a hundred times as long, since the server then parses each document anew. They are scored as by bm25.
func (p *Postgres) searchByTextsearch(ctx context.Context, tx pgx.Tx, q leg.Query, understood query, settings Settings) (result leg.Result, err error) {
	s := &bm25Search{tx: tx, q: q, query: understood, settings: settings, budget: p.cfg.MaxPostings}
	terms := textsearchQuery(mostUsed(understood.terms, maxTerms))
	for n := q.Depth + q.Depth/4 + spareCandidates; ; n *= 4 {
		var ids []uuid.UUID
		batch := &pgx.Batch{}
		postgres.Configure(batch, planning) // the planner has to see constants to take a partial index
		batch.Queue(`SELECT memory_id FROM lexical.documents WHERE namespace = $1
			ORDER BY lexical.words_of(tsv) OPERATOR(public.<@>) public.to_bm25query($2::text, $3::text) LIMIT $4`,
			q.Namespace, terms, textsearchIndex(q.Namespace), n).Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return result, err
		}
		if s.terms == nil {
			if err := s.prepare(ctx); err != nil {
				return result, err
			}
		}
		scores, err := s.scoresOf(ctx, ids)
		if err != nil {
			return result, err
		}
		scores = slices.DeleteFunc(scores, func(score leg.Score) bool { return score.Score <= 0 })
		if result.Hits, err = liveOf(ctx, tx, q, scores); err != nil {
			return result, err
		}
		worst := math.Inf(1)
		for _, score := range scores {
			worst = min(worst, score.Score)
		}
		if len(scores) < n || len(result.Hits) == q.Depth && result.Hits[q.Depth-1].Score > worst || q.MinScore != nil && worst < *q.MinScore {
			if left := len(s.query.terms); left < s.query.distinct {
				result.Reason = fmt.Sprintf("searched for %d of the %d terms", left, s.query.distinct)
			}
			return result, nil
		}
	}
}

// liveOf returns the hits among the memories with scores, in order.
func liveOf(ctx context.Context, tx pgx.Tx, q leg.Query, scores []leg.Score) ([]leg.Hit, error) {
	ids, scoreOf := make([]uuid.UUID, len(scores)), make(map[uuid.UUID]float64, len(scores))
	for i, s := range scores {
		ids[i], scoreOf[s.ID] = s.ID, s.Score
	}
	args := postgres.Args{q.Namespace, ids}
	rows, err := tx.Query(ctx, `SELECT id, 0::float8, importance, created_at FROM memory.memories m
		WHERE namespace = $1 AND id = ANY($2) AND `+postgres.Live(q.Filter, "m", &args), args...)
	if err != nil {
		return nil, err
	}
	hits, err := pgx.CollectRows(rows, scanHit)
	if err != nil {
		return nil, err
	}
	for i := range hits {
		hits[i].Score = scoreOf[hits[i].ID]
	}
	if q.MinScore != nil {
		hits = slices.DeleteFunc(hits, func(h leg.Hit) bool { return h.Score < *q.MinScore })
	}
	slices.SortFunc(hits, compareHits)
	return hits[:min(len(hits), q.Depth)], nil
}

// Textsearch implements Leg.
func (p *Postgres) Textsearch(ctx context.Context, namespace string, index bool) error {
	name := textsearchIndex(namespace) // of letters and digits
	if !index {
		_, err := p.pool.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+name)
		return err
	}
	if err := p.needTextsearch(ctx, true); err != nil {
		return err
	}
	settings, err := p.Settings(ctx, namespace)
	if err != nil {
		return err
	}
	if k1 := wordUnits * settings.K1; k1 < 0.1 || k1 > 10 {
		return errTextsearchK1
	}
	if has, err := hasTextsearch(ctx, p.pool, namespace, settings); err != nil || has {
		return err
	}
	// The server quotes the namespace; an index cannot be created with parameters.
	var table, literal string
	if err := p.pool.QueryRow(ctx, `SELECT 'lexical.documents_' || n, quote_literal($1) FROM generate_series(0, 7) n
		WHERE satisfies_hash_partition('lexical.documents'::regclass, 8, n, $1::text)`, namespace).Scan(&table, &literal); err != nil {
		return err
	}
	for _, statement := range []string{
		"DROP INDEX CONCURRENTLY IF EXISTS " + name, // half built, or with other settings
		"CREATE INDEX CONCURRENTLY " + strings.TrimPrefix(name, "lexical.") + " ON " + table + " USING bm25 (lexical.words_of(tsv)) WITH (" + textsearchOptions(settings) + ") WHERE namespace = " + literal,
	} {
		if _, err := p.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("index of pg_textsearch: %w", err)
		}
	}
	return nil
}

// Check implements Leg.
func (p *Postgres) Check(ctx context.Context) error {
	if p.cfg.Scorer != triskelev1.Scorer_SCORER_TEXTSEARCH {
		return nil
	}
	return p.needTextsearch(ctx, false)
}

// needTextsearch returns an error that says what to do if the database lacks the extension. It may be asked to create it.
func (p *Postgres) needTextsearch(ctx context.Context, create bool) error {
	var available, installed bool
	if err := p.pool.QueryRow(ctx, `SELECT count(*) > 0, count(installed_version) > 0 FROM pg_available_extensions WHERE name = 'pg_textsearch'`).
		Scan(&available, &installed); err != nil {
		return err
	}
	switch {
	case installed:
		return nil
	case !available:
		return errNoTextsearch
	case !create:
		return errTextsearchAway
	}
	if _, err := p.pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_textsearch SCHEMA public"); err != nil {
		return fmt.Errorf("%w (%w)", errTextsearchAway, err)
	}
	return nil
}
