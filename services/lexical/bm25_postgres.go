package lexical

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

const (
	// extraCandidates is added to 1.25 times the depth for the first look-up of memories. The extra candidates make up for
	// memories that are not live, and leave room for ties.
	extraCandidates = 16
	// firstRound is the number of postings that are read before bounds are checked. Each round reads up to four times more.
	firstRound = 8192
)

// bm25Planning are the planner's settings for BM25, in addition to planning. Every statement looks up terms or documents by
// key, so one generic plan suits all queries.
var bm25Planning = map[string]string{"plan_cache_mode": "force_generic_plan", "enable_hashjoin": "off", "enable_mergejoin": "off"}

// blockKey names a block of a term's postings.
type blockKey struct {
	first uint32
	count int32
}

// sought is a term being searched for.
type sought struct {
	queryTerm
	df     int64 // number of documents with the term
	weight float64
	blocks []blockKey // by number
	fresh  []freshPosting
}

// freshPosting is a posting outside the blocks.
type freshPosting struct {
	memory     uuid.UUID
	tf, length int
}

// bm25Search is one search. Its transaction sees one snapshot of the index.
type bm25Search struct {
	tx         pgx.Tx
	q          leg.Query
	query      query
	settings   Settings
	budget     int64         // postings that may still be read
	reserve    time.Duration // time for looking up memories
	documents  int64
	saturation saturation
	terms      []*sought // the rarest first
	removed    []uint32
	scores     scores
	fresh      map[uuid.UUID]float64
	phrases    []phraseMatches
	cut        string // reason why the result is truncated; "" if it is complete
}

// searchByBM25 ranks all memories with any term by BM25. If the time or the bound on postings does not suffice, the result has
// the hits found so far and is TRUNCATED.
func (p *Postgres) searchByBM25(ctx context.Context, tx pgx.Tx, q leg.Query, understood query, settings Settings) (result leg.Result, err error) {
	s := &bm25Search{tx: tx, q: q, query: understood, settings: settings, budget: p.cfg.MaxPostings}
	if deadline, ok := ctx.Deadline(); ok {
		s.reserve = time.Until(deadline) / 4
	}
	defer s.scores.release()
	if err := s.prepare(ctx); err != nil {
		return result, err
	}
	if result.Hits, err = s.rank(ctx); err != nil {
		s.cut = "time ran out" // used only if there are hits
	}
	if left := len(s.query.terms); left < s.query.distinct {
		result.Reason = fmt.Sprintf("searched for %d of the %d terms", left, s.query.distinct)
	}
	if s.cut != "" && (err == nil || len(result.Hits) > 0) {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_TRUNCATED, s.cut
	}
	return result, err
}

// prepare computes the weight of each term and phrase of the query.
func (s *bm25Search) prepare(ctx context.Context) error {
	if err := s.expand(ctx); err != nil {
		return err
	}
	if err := s.lookUp(ctx); err != nil {
		return err
	}
	return s.findPhrases(ctx)
}

// late reports whether only the reserve is left.
func (s *bm25Search) late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < s.reserve
}

// lookUp reads the document frequency and the places of the postings of each term. It keeps the terms of the highest weight.
func (s *bm25Search) lookUp(ctx context.Context) error {
	ns, words := s.q.Namespace, s.query.words()
	byTerm := make(map[string]*sought, len(words))
	for _, w := range s.query.terms {
		t := &sought{queryTerm: w}
		byTerm[w.term] = t
		s.terms = append(s.terms, t)
	}
	var length int64
	batch := &pgx.Batch{}
	postgres.Configure(batch, bm25Planning)
	batch.Queue(`
		SELECT coalesce(t.documents, 0) + f.documents - r.documents, coalesce(t.length, 0) + f.length - r.length
		FROM (SELECT count(*) AS documents, coalesce(sum(length), 0)::bigint AS length FROM lexical.postings WHERE namespace = $1 AND term = '') f
		CROSS JOIN (SELECT count(*) AS documents, coalesce(sum(length), 0)::bigint AS length FROM lexical.removals WHERE namespace = $1 AND term = '') r
		LEFT JOIN lexical.totals t ON t.namespace = $1`, ns).QueryRow(func(row pgx.Row) error {
		return row.Scan(&s.documents, &length)
	})
	batch.Queue(`SELECT term, first, count FROM lexical.blocks WHERE namespace = $1 AND term = ANY($2) ORDER BY term, first`, ns, words).Query(func(rows pgx.Rows) error {
		var term string
		var block blockKey
		_, err := pgx.ForEachRow(rows, []any{&term, &block.first, &block.count}, func() error {
			t := byTerm[term]
			t.blocks = append(t.blocks, block)
			t.df += int64(block.count)
			return nil
		})
		return err
	})
	batch.Queue(`SELECT term, memory_id, tf, length FROM lexical.postings WHERE namespace = $1 AND term = ANY($2) LIMIT $3`, ns, words, s.budget).Query(func(rows pgx.Rows) error {
		var term string
		var posting freshPosting
		_, err := pgx.ForEachRow(rows, []any{&term, &posting.memory, &posting.tf, &posting.length}, func() error {
			t := byTerm[term]
			t.fresh = append(t.fresh, posting)
			t.df++
			s.budget--
			return nil
		})
		return err
	})
	batch.Queue(`SELECT term, number FROM lexical.removals WHERE namespace = $1 AND term = ANY($2)`, ns, words).Query(func(rows pgx.Rows) error {
		var term string
		var number uint32
		_, err := pgx.ForEachRow(rows, []any{&term, &number}, func() error {
			byTerm[term].df--
			s.removed = append(s.removed, number)
			return nil
		})
		return err
	})
	if err := s.tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	s.terms = slices.DeleteFunc(s.terms, func(t *sought) bool { return t.df <= 0 })
	var prefixed int64 // all terms of a prefix share one document frequency
	for _, t := range s.terms {
		if t.prefixed {
			prefixed += t.df
		}
	}
	rarity := make(map[string]float64, len(s.terms))
	for _, t := range s.terms {
		df := t.df
		if t.prefixed {
			df = min(prefixed, s.documents)
		}
		rarity[t.term] = idf(s.documents, df)
	}
	excess := s.query.excess(rarity)
	for _, t := range s.terms {
		t.weight = rarity[t.term] * (float64(t.uses) - excess[t.term])
	}
	slices.SortStableFunc(s.terms, func(a, b *sought) int { return cmp.Compare(b.weight, a.weight) })
	if len(s.terms) > maxTerms {
		s.query.terms = s.query.terms[:maxTerms]
		s.terms = s.terms[:maxTerms]
	}
	slices.SortStableFunc(s.terms, func(a, b *sought) int { return cmp.Compare(a.df, b.df) })
	if s.documents > 0 {
		s.saturation = newSaturation(s.settings, float64(length)/float64(s.documents))
	}
	return nil
}

// rank returns the best live memories. At first it may leave out postings that cannot change the best candidates. If too few
// candidates are live, it reads all postings and takes more and more candidates. With an error, it returns the hits so far.
func (s *bm25Search) rank(ctx context.Context) (hits []leg.Hit, err error) {
	candidates := s.q.Depth + s.q.Depth/4 + extraCandidates
	prune := !s.q.Filter.Narrow()
	pruned, err := s.addUp(ctx, candidates, prune)
	if err != nil {
		return nil, err
	}
	hits, complete, err := s.live(ctx, candidates)
	if err != nil || complete || s.cut != "" {
		return hits, err
	}
	if pruned {
		if _, err := s.addUp(ctx, 0, false); err != nil {
			return hits, err
		}
	}
	for !complete {
		candidates *= 4
		more, all, err := s.live(ctx, candidates)
		if err != nil {
			return hits, err
		}
		hits, complete = more, all
	}
	return hits, nil
}

// addUp scores documents, the rarest terms first. With prune, it stops when the remaining terms cannot bring a new document
// among the best n. From then on it reads only the blocks of documents that may still be among them. This is MaxScore:
// H. Turtle and J. Flood, "Query evaluation: strategies and optimizations", 1995. pruned reports whether it left any out.
func (s *bm25Search) addUp(ctx context.Context, n int, prune bool) (pruned bool, err error) {
	s.scores.release()
	s.fresh = map[uuid.UUID]float64{}
	for _, number := range s.removed {
		s.scores.exclude(number)
	}
	for _, phrase := range s.phrases {
		for _, number := range phrase.numbers {
			s.scores.page(number)[number%pageSize] += phrase.weight
		}
		for _, id := range phrase.fresh {
			s.fresh[id] += phrase.weight
		}
	}
	var bound float64 // the highest score that the remaining terms can add
	for _, t := range s.terms {
		for _, f := range t.fresh {
			s.fresh[f.memory] += t.weight * s.saturation.of(f.tf, f.length)
		}
		bound += t.weight * s.saturation.scale
	}
	budget, round := s.budget, int64(firstRound)
	for i := 0; i < len(s.terms); round *= 4 {
		from, size := i, int64(0)
		for ; i < len(s.terms) && (i == from || size+s.terms[i].df <= min(round, budget)); i++ {
			size += s.terms[i].df
			bound -= s.terms[i].weight * s.saturation.scale
		}
		if size > budget {
			s.cut = fmt.Sprintf("the most frequent %d of %d terms were left out", len(s.terms)-from, len(s.terms))
			return pruned, nil
		}
		if s.late(ctx) {
			s.cut = fmt.Sprintf("time ran out before the most frequent %d of %d terms", len(s.terms)-from, len(s.terms))
			return pruned, nil
		}
		budget -= size
		if err := s.read(ctx, &s.scores, s.saturation, s.terms[from:i], nil); err != nil {
			return pruned, err
		}
		if !prune || i == len(s.terms) {
			continue
		}
		best := s.scores.best(n)
		if len(best) < n || best[n-1].score <= bound {
			continue
		}
		// Documents without a score cannot be among the best any more.
		return true, s.read(ctx, &s.scores, s.saturation, s.terms[i:], s.scores.above(best[n-1].score-bound))
	}
	return pruned, nil
}

// read adds the terms' contributions to the scores. If documents is not nil, it reads only blocks that may have one of them.
func (s *bm25Search) read(ctx context.Context, into *scores, sat saturation, terms []*sought, documents []uint32) error {
	var words []string
	var firsts, places []int32
	for place, t := range terms {
		for i, block := range t.blocks {
			if documents != nil {
				at, _ := slices.BinarySearch(documents, block.first)
				if at == len(documents) || i+1 < len(t.blocks) && documents[at] >= t.blocks[i+1].first {
					continue
				}
			}
			words, firsts, places = append(words, t.term), append(firsts, int32(block.first)), append(places, int32(place))
		}
	}
	if len(words) == 0 {
		return nil
	}
	rows, err := s.tx.Query(ctx, `SELECT w.place, b.data FROM unnest($2::text[], $3::integer[], $4::integer[]) AS w (term, first, place)
		JOIN lexical.blocks b ON b.namespace = $1 AND b.term = w.term AND b.first = w.first`, s.q.Namespace, words, firsts, places)
	if err != nil {
		return err
	}
	defer rows.Close()
	var place int32
	var data pgtype.DriverBytes // not copied from the driver's buffer
	for rows.Next() {
		if err := rows.Scan(&place, &data); err != nil {
			return err
		}
		if len(data)%postingBytes != 0 {
			return fmt.Errorf("a block of postings has %d bytes, which is no multiple of %d", len(data), postingBytes)
		}
		into.add(data, terms[place].weight, sat)
	}
	return rows.Err()
}

// live returns the best live memories among the best n documents. complete means that no other document can be among them.
func (s *bm25Search) live(ctx context.Context, n int) (hits []leg.Hit, complete bool, err error) {
	best := s.scores.best(n)
	numbers := make([]int32, len(best))
	scoreOf := make(map[int32]float64, len(best))
	for i, b := range best {
		numbers[i] = int32(b.number)
		scoreOf[numbers[i]] = b.score
	}
	args := postgres.Args{s.q.Namespace, numbers}
	batch := &pgx.Batch{}
	collect := func(score func(number int32, id uuid.UUID) float64) func(pgx.Rows) error {
		return func(rows pgx.Rows) error {
			var number int32
			var hit leg.Hit
			_, err := pgx.ForEachRow(rows, []any{&number, &hit.ID, &hit.Importance, &hit.CreatedAt}, func() error {
				if hit.Score = score(number, hit.ID); s.q.MinScore == nil || hit.Score >= *s.q.MinScore {
					hits = append(hits, hit)
				}
				return nil
			})
			return err
		}
	}
	// OFFSET 0 keeps the planner from starting with memories if it underestimates their number.
	batch.Queue(`SELECT e.number, m.id, m.importance, m.created_at FROM lexical.entries e CROSS JOIN LATERAL (
			SELECT id, importance, created_at FROM memory.memories m WHERE m.namespace = $1 AND m.id = e.memory_id AND `+postgres.Live(s.q.Filter, "m", &args)+` OFFSET 0
		) m WHERE e.namespace = $1 AND e.number = ANY($2)`, args...).Query(collect(func(number int32, _ uuid.UUID) float64 {
		return scoreOf[number]
	}))
	if len(s.fresh) > 0 {
		ids := make([]uuid.UUID, 0, len(s.fresh))
		for id := range s.fresh {
			ids = append(ids, id)
		}
		args := postgres.Args{s.q.Namespace, ids}
		batch.Queue(`SELECT 0, m.id, m.importance, m.created_at FROM memory.memories m
			WHERE m.namespace = $1 AND m.id = ANY($2) AND `+postgres.Live(s.q.Filter, "m", &args), args...).Query(collect(func(_ int32, id uuid.UUID) float64 {
			return s.fresh[id]
		}))
	}
	if err := s.tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, false, err
	}
	slices.SortFunc(hits, compareHits)
	hits = hits[:min(len(hits), s.q.Depth)]
	for i := range hits {
		hits[i].CreatedAt = hits[i].CreatedAt.In(time.UTC)
	}
	complete = len(best) < n || len(hits) == s.q.Depth && hits[len(hits)-1].Score > best[n-1].score ||
		s.q.MinScore != nil && *s.q.MinScore > best[n-1].score
	return hits, complete, nil
}

// compareHits orders by score, then importance, then creation time, each in descending order, then by id.
func compareHits(a, b leg.Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Importance, a.Importance), b.CreatedAt.Compare(a.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
}
