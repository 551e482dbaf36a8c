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
	// spareCandidates is how many candidates beyond the depth and a quarter are looked up first: they make up for
	// memories that are not live and leave room for ties.
	spareCandidates = 16
	// firstRound is how many postings are read before bounds are looked at; each round reads up to four times as many.
	firstRound = 8192
)

// bm25Planning holds for each search by BM25, beside planning. Every statement looks terms or documents up by key, whatever their
// number; a plan that was made for one query suits all.
var bm25Planning = map[string]string{"plan_cache_mode": "force_generic_plan", "enable_hashjoin": "off", "enable_mergejoin": "off"}

// blockKey names a block of a term's postings.
type blockKey struct {
	first uint32
	count int32
}

// sought is a term being searched for.
type sought struct {
	wanted
	df     int64 // documents that have it
	weight float64
	blocks []blockKey // by number
	fresh  []freshPosting
}

// freshPosting is a posting that is in no block yet.
type freshPosting struct {
	memory     uuid.UUID
	tf, length int
}

// bm25Search is one search, within a transaction that sees one state of the index throughout.
type bm25Search struct {
	tx         pgx.Tx
	q          leg.Query
	query      query
	settings   Settings
	budget     int64         // postings that may still be read
	reserve    time.Duration // of the time, for looking up memories
	documents  int64
	saturation saturation
	terms      []*sought // the rarest first
	removed    []uint32
	scores     scores
	fresh      map[uuid.UUID]float64
	phrases    []phraseMatches
	cut        string // why the result is incomplete, if it is
}

// searchByBM25 ranks by BM25 any memory with any term. What it finds in the time and the postings it has is in the result,
// TRUNCATED if that was not all.
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
		s.cut = "time ran out" // unless it is another error, or there is nothing to show for it
	}
	if left := len(s.query.terms); left < s.query.distinct {
		result.Reason = fmt.Sprintf("searched for %d of the %d terms", left, s.query.distinct)
	}
	if s.cut != "" && (err == nil || len(result.Hits) > 0) {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_TRUNCATED, s.cut
	}
	return result, err
}

// prepare finds out what each term and phrase of the query weighs.
func (s *bm25Search) prepare(ctx context.Context) error {
	if err := s.expand(ctx); err != nil {
		return err
	}
	if err := s.lookUp(ctx); err != nil {
		return err
	}
	return s.findPhrases(ctx)
}

// late says whether so little time is left that the memories found so far are to be looked up.
func (s *bm25Search) late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < s.reserve
}

// lookUp finds out how frequent each term is and where its postings are, and keeps the terms that tell most.
func (s *bm25Search) lookUp(ctx context.Context) error {
	ns, words := s.q.Namespace, s.query.words()
	byTerm := make(map[string]*sought, len(words))
	for _, w := range s.query.terms {
		t := &sought{wanted: w}
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
	var prefixed int64 // words that begin alike count as one
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

// rank returns the best live memories. First it may leave out postings that cannot matter to the best candidates; should
// too few of those be live, it reads all and looks at ever more candidates. With an error it returns what it has.
func (s *bm25Search) rank(ctx context.Context) (hits []leg.Hit, err error) {
	candidates := s.q.Depth + s.q.Depth/4 + spareCandidates
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

// addUp scores documents, the rarest terms first. With prune it stops where the terms that are left cannot bring another
// document among the best n, and reads of their postings only the blocks of documents that may still be: MaxScore, by
// H. Turtle and J. Flood, "Query evaluation: strategies and optimizations", 1995. It returns whether it left any out.
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
	var bound float64 // the most that the terms not added yet can give
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
		// No document that has not been seen can be among the best any more.
		return true, s.read(ctx, &s.scores, s.saturation, s.terms[i:], s.scores.above(best[n-1].score-bound))
	}
	return pruned, nil
}

// read adds the terms' shares to the scores, of the blocks that may hold one of the documents only, if these are given.
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
	var data pgtype.DriverBytes // read where it is
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

// live returns the best live memories among the best n documents. They are complete if no other document can be among
// them.
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
	// OFFSET 0 keeps the planner from beginning with the memories, which it may think few.
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

// compareHits orders by score, then importance, then newest first.
func compareHits(a, b leg.Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Importance, a.Importance), b.CreatedAt.Compare(a.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
}
