package dense

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

const (
	// readVector is the approximate time to read a vector.
	readVector = 10 * time.Microsecond
	// readingTime bounds reading a namespace.
	readingTime = 2 * time.Minute
	// keepFor is the age at which vectors in memory are read again, to drop deleted ones.
	keepFor = 10 * time.Minute
	// keepLeast is the least age for that. Otherwise a long write transaction would cause repeated reads on a standby.
	keepLeast = 10 * time.Second
	// maxNew bounds the new vectors a search adds, maxRestarts its restarts with them.
	maxNew, maxRestarts = 512, 3
	// maxLookUps bounds the candidates checked against a filter. Beyond it, the index is used.
	maxLookUps = 2000
	// maxDifference bounds how far a score in memory is below PostgreSQL's.
	maxDifference = 3. / scoreUnits
)

// inMemory searches the vectors in memory. It returns false if they are missing, many are new, or few of the
// nearest pass the filter. The reason says what cut it short.
func (s *search) inMemory(ctx context.Context) (hits []leg.Hit, reason string, could bool, err error) {
	e, m := s.cache.find(s.q.Namespace)
	if m.snapshot == "" {
		return nil, "", false, nil
	}
	if time.Since(m.readAt) > keepFor {
		s.cache.read(e, s.keep)
	}
	work := s.scratch.Get().(*scratch)
	defer s.scratch.Put(work)
	query, q := prepared(s.vector), s.q
	if q.MinScore != nil { // Search applies it to PostgreSQL's scores
		least := *q.MinScore - maxDifference
		q.MinScore = &least
	}
	for range maxRestarts {
		db := &inServer{search: s, compared: m.snapshot}
		hits, reason, err = scan{db, q, query, m, work, share(ctx, 0.5), maxLookUps}.run(ctx)
		if err == nil && db.snapshot == "" { // no candidate reached the minimum, but a new one may
			_, err = db.live(ctx, m, nil)
		}
		switch {
		case err == nil:
			s.cache.saw(e, db.compared, db.snapshot)
			return hits, reason, true, nil
		case errors.Is(err, errMany):
			if time.Since(m.readAt) > keepLeast {
				s.cache.read(e, s.keep)
			}
			return nil, "", false, nil
		case errors.Is(err, errOther):
			s.cache.drop(e.namespace)
			return nil, "", false, nil
		case errors.Is(err, errFew):
			return nil, "", false, nil
		case !errors.Is(err, errNew):
			return nil, "", false, err
		}
		if m, err = s.takeIn(ctx, e, db); err != nil || m.snapshot == "" {
			return nil, "", false, err
		}
	}
	return nil, "", false, nil
}

// InMemory returns the number of a namespace's vectors in memory, including deleted ones.
func (p *Postgres) InMemory(namespace string) int {
	_, m := p.cache.find(namespace)
	return len(m.ids)
}

// earn reads the namespace into memory once its searches have taken long enough.
func (s *search) earn(took time.Duration) {
	if size, known := s.sighting(); known && matrixBytes(size.vectors, len(s.vector)) <= s.MaxBytes {
		s.cache.spend(s.q.Namespace, took, time.Duration(size.vectors)*readVector, s.keep)
	}
}

var (
	errNew   = errors.New("vectors have come that are not in memory")
	errOther = errors.New("the vectors in memory are of another timeline")
	errMany  = errors.New("more vectors have come than a search takes in")
	errFew   = errors.New("few of the nearest pass the filter")
	errLarge = errors.New("there is no room for the vectors")
)

// inServer asks PostgreSQL for a scan. Its first request also returns the vectors that are new since the compared
// snapshot.
type inServer struct {
	*search
	compared string
	seenIn   // at the first request
	new      []newVector
}

// newVector is a vector that may be missing in memory.
type newVector struct {
	memory uuid.UUID
	change int64 // the writing transaction; 0 if it was not recorded
	stored []byte
}

// vectorsAnd selects the timeline, the snapshot and the model's status, at least one row, with the vectors of namespace
// $1 for which a condition holds. A standby does not know the running transactions. There the snapshot
// ends before the oldest one.
const vectorsAnd = `
	SELECT now.timeline, now.snapshot, (SELECT status FROM dense.models WHERE id = %[1]d), v.memory_id, coalesce(v.change, '0'), halfvec_send(v.embedding)
	FROM (
		SELECT CASE WHEN pg_is_in_recovery() THEN format('%%1$s:%%1$s:', pg_snapshot_xmin(pg_current_snapshot())) ELSE pg_current_snapshot()::text END AS snapshot,
			` + postgres.Timeline + ` AS timeline
	) now LEFT JOIN dense.vectors v ON v.namespace = $1 AND v.model_id = %[1]d AND %[2]s`

// vectorsSince selects those not visible in snapshot $2: a transaction gets its number at its first write and is
// visible at its end.
const vectorsSince = `v.change >= pg_snapshot_xmin($2::text::pg_snapshot) AND NOT pg_visible_in_snapshot(v.change, $2::text::pg_snapshot)`

// scanVector reads a row of vectorsAnd. v.stored is nil without a vector and valid until the next row.
func scanVector(rows pgx.Rows) (seen seenIn, status Status, v newVector, err error) {
	var of *Status
	var memory pgtype.UUID
	var change pgtype.Uint64
	err = rows.Scan(&seen.timeline, &seen.snapshot, &of, &memory, &change, (*pgtype.DriverBytes)(&v.stored))
	v.memory, v.change = memory.Bytes, int64(change.Uint64)
	return seen, orZero(of), v, err
}

func (db *inServer) score(ctx context.Context, m matrix, candidates []candidate, query []float32, until time.Time) ([]candidate, error) {
	return m.score(ctx, candidates, query, until)
}

// allowed defers to the index.
func (db *inServer) allowed(context.Context, matrix) ([]int32, error) { return nil, errFew }

// lookingUp are settings for statements that run faster than they are planned. They force index scans without
// memoization.
var lookingUp = map[string]string{"jit": "off", "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_memoize": "off"}

// live returns errNew or errMany for new vectors, and errOther if new ones cannot be determined. Hits have PostgreSQL's scores,
// whose summation order differs from matrix.score, so that all kinds of search agree.
func (db *inServer) live(ctx context.Context, m matrix, candidates []candidate) ([]leg.Hit, error) {
	batch := &pgx.Batch{}
	if db.snapshot == "" {
		batch.Queue(fmt.Sprintf(vectorsAnd+` LIMIT %[3]d`, db.model, vectorsSince, maxNew+1), db.q.Namespace, db.compared).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				seen, status, v, err := scanVector(rows)
				if err != nil {
					return err
				}
				db.seenIn, db.status = seen, status
				if v.stored != nil {
					v.stored = append([]byte(nil), v.stored...)
					db.new = append(db.new, v)
				}
			}
			return rows.Err()
		})
	}
	memories, changes := make([]uuid.UUID, len(candidates)), make([]uint64, len(candidates))
	for i, c := range candidates {
		memories[i], changes[i] = m.memories[c.row], uint64(m.ids[c.row])
	}
	var args postgres.Args
	namespace, wanted, written, query := args.Add(db.q.Namespace), args.Add(memories), args.Add(changes), args.Add(pgvector.NewHalfVector(db.vector))
	hits := make([]leg.Hit, 0, len(candidates))
	// One plan serves all namespaces. If most are small, it would scan a large one for the join. OFFSET 0 forces look-ups by
	// key.
	batch.Queue(fmt.Sprintf(`
		SELECT m.id, round((1 - (v.embedding <=> %[4]s::halfvec)) * %[5]d) / %[5]d, m.importance, m.created_at
		FROM unnest(%[2]s::uuid[], %[3]s::xid8[]) c (memory_id, change)
		CROSS JOIN LATERAL (
			SELECT v.embedding FROM dense.vectors v
			WHERE v.namespace = %[1]s AND v.memory_id = c.memory_id AND v.model_id = %[6]d AND coalesce(v.change, '0') = c.change OFFSET 0
		) v
		CROSS JOIN LATERAL (SELECT m.* FROM memory.memories m WHERE m.namespace = %[1]s AND m.id = c.memory_id OFFSET 0) m
		WHERE %[7]s`, namespace, wanted, written, query, scoreUnits, db.model, postgres.Live(db.q.Filter, "m", &args)), args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var hit leg.Hit
			if err := rows.Scan(&hit.ID, &hit.Score, &hit.Importance, &hit.CreatedAt); err != nil {
				return err
			}
			hit.CreatedAt = hit.CreatedAt.UTC()
			hits = append(hits, hit)
		}
		return rows.Err()
	})
	err := postgres.In(db.Or(db.pool), db.q.Namespace).Searching(lookingUp).Send(ctx, batch)
	switch {
	case err != nil:
		return nil, err
	case db.timeline != m.timeline:
		return nil, errOther
	case len(db.new) > maxNew:
		return nil, errMany
	case len(db.new) > 0:
		return nil, errNew
	}
	return hits, nil
}

// takeIn adds a search's new vectors to those in memory.
func (s *search) takeIn(ctx context.Context, e *entry, db *inServer) (matrix, error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return matrix{}, ctx.Err()
	}
	m := s.cache.view(e)
	oldest := db.new[0].change
	for _, v := range db.new {
		oldest = min(oldest, v.change)
	}
	// Another search may have added some, and a standby's snapshots repeat vectors.
	type key struct {
		memory uuid.UUID
		change int64
	}
	known := map[key]bool{}
	for row, change := range m.ids {
		if change >= oldest {
			known[key{m.memories[row], change}] = true
		}
	}
	for _, v := range db.new {
		if !known[key{v.memory, v.change}] {
			if err := s.add(&m, v); err != nil {
				return matrix{}, err
			}
		}
	}
	if m.snapshot == db.compared {
		m.snapshot = db.snapshot
	}
	if m.bytes() > s.MaxBytes {
		s.cache.drop(e.namespace)
		return matrix{}, nil
	}
	s.cache.put(e, m, s.MaxBytes)
	return m, nil
}

// add appends a vector to a matrix.
func (p *Postgres) add(m *matrix, v newVector) (err error) {
	model := p.embedder.Model()
	var scale float32
	if m.halves, scale, err = appendSent(m.halves, v.stored, model.Dimensions); err != nil {
		return fmt.Errorf("vector of memory %s: %w", v.memory, err)
	}
	m.memories, m.scales = append(m.memories, v.memory), append(m.scales, scale)
	m.add(v.change, m.halves[len(m.halves)-model.Dimensions:], model.Queried())
	return nil
}

// appendSent is appendHalves for PostgreSQL's binary halfvec: two 16-bit numbers, then the components, all
// big-endian.
func appendSent(halves []uint16, sent []byte, dimensions int) ([]uint16, float32, error) {
	if len(sent) != 4+2*dimensions {
		return halves, 0, fmt.Errorf("a stored vector has %d bytes, not %d", len(sent)-4, 2*dimensions)
	}
	for components := sent[4:]; len(components) > 0; components = components[2:] {
		binary.LittleEndian.PutUint16(components, bits.ReverseBytes16(binary.LittleEndian.Uint16(components)))
	}
	return appendHalves(halves, sent[4:], dimensions)
}

// keep reads a namespace's vectors into memory. It returns errLarge above MaxBytes.
func (p *Postgres) keep(e *entry) error {
	ctx, cancel := context.WithTimeout(p.background, readingTime)
	defer cancel()
	m, err := p.readAll(ctx, e.namespace)
	if err != nil {
		return err
	}
	if len(m.ids) == 0 { // all were deleted
		p.cache.drop(e.namespace)
		return nil
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.cache.put(e, m, p.MaxBytes)
	return nil
}

func (p *Postgres) readAll(ctx context.Context, namespace string) (m matrix, err error) {
	db, dimensions := postgres.In(p.Or(p.pool), namespace), p.embedder.Model().Dimensions
	var vectors int64
	if err := db.QueryRow(ctx, `SELECT count(*) FROM dense.vectors WHERE namespace = $1 AND model_id = $2`, namespace, p.model).Scan(&vectors); err != nil {
		return m, err
	}
	if matrixBytes(vectors, dimensions)+16*vectors > p.MaxBytes {
		return m, errLarge
	}
	m = newMatrix(int(vectors), dimensions, true)
	m.memories, m.readAt = make([]uuid.UUID, 0, vectors), time.Now()
	rows, err := db.Query(ctx, fmt.Sprintf(vectorsAnd, p.model, "true"), namespace)
	if err != nil {
		return m, err
	}
	defer rows.Close()
	for rows.Next() {
		seen, _, v, err := scanVector(rows)
		if err != nil {
			return m, err
		}
		m.seenIn = seen
		if v.stored == nil {
			continue
		}
		if err := p.add(&m, v); err != nil {
			return m, err
		}
	}
	return m, rows.Err()
}
