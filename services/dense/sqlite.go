package dense

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/x448/float16"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/queue"
	"github.com/triskele/triskele/services/record"
	"github.com/triskele/triskele/services/sqlite"
)

// Config is what a user may set, as flags of a program.
type Config struct {
	// VectorMemory bounds the memory in MiB that a SQLite file's vectors are kept in; 0 is 512. The namespace used least
	// recently goes first. Of one that does not fit alone only the codes are kept, an eighth of the whole, and the vectors
	// that these say are likely are read in each search; if not even they fit, all vectors are read.
	VectorMemory int64 `help:"MiB of memory for the vectors of a SQLite file. What does not fit is read in each search." default:"512" env:"TRISKELE_VECTOR_MEMORY" placeholder:"MIB"`
}

// SQLite searches the vectors in dense_vectors. It compares the query with the codes of a namespace's vectors in memory, then
// with the likeliest vectors themselves, and asks the database only what has changed since it read them and which of the
// best may be returned. A namespace is read when it is first searched.
type SQLite struct {
	// MaxBytes is Config.VectorMemory in bytes. Set it before the first search.
	MaxBytes int64

	queue.Follower
	db       *sqlite.DB
	embedder embed.Embedder
	tasks    queue.Store
	model    int64 // of the embedder, in dense_models
	models   sqliteModels
	cache    cache
	scratch  sync.Pool // of *scratch
}

var (
	_ leg.Searcher  = (*SQLite)(nil)
	_ leg.Freshness = (*SQLite)(nil)
	_ queue.Indexer = (*SQLite)(nil)
)

// NewSQLite returns a store for the embedder's model, which it registers if the database has no active model yet.
// Another active model is an error.
func NewSQLite(ctx context.Context, db *sqlite.DB, embedder embed.Embedder, tasks queue.Store, config Config) (*SQLite, error) {
	if err := checkModel(embedder.Model()); err != nil {
		return nil, err
	}
	models := sqliteModels{db}
	model, err := models.start(ctx, embedder.Model())
	if err != nil {
		return nil, err
	}
	return &SQLite{
		MaxBytes: cmp.Or(config.VectorMemory, 512) << 20, Follower: queue.Follow(tasks, indexName), db: db, embedder: embedder, tasks: tasks, model: model, models: models,
		scratch: sync.Pool{New: func() any { return new(scratch) }},
	}, nil
}

// Index implements queue.Indexer. It is paused when the model is no longer active.
func (s *SQLite) Index(ctx context.Context, records []record.Record) error {
	return index(ctx, s.models, s.embedder, s.model, records)
}

// encode returns a vector as dense_vectors keeps it.
func encode(vector []float32) []byte {
	b := make([]byte, 0, 2*len(vector))
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(x).Bits())
	}
	return b
}

// state is a row of dense_state.
type state struct{ lastID, vectors int64 }

// Knows implements leg.Freshness.
func (s *SQLite) Knows(ctx context.Context, namespace string, sequence int64) (known, gaveUp bool, err error) {
	return knows(ctx, s.models, s.Follower, s.model, namespace, sequence)
}

// Search implements leg.Searcher. Of the time that is left, reading new vectors gets half and comparing half of the
// rest; what has not been compared by then is not found and the result is TRUNCATED.
func (s *SQLite) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	vector, reason, err := queryVector(ctx, s.embedder, q)
	if err != nil {
		return leg.Result{}, err
	}
	if vector == nil {
		return abstain(reason), nil
	}
	result := found(q, s.embedder.Model(), vector, reason)
	query := prepared(vector)

	var now state
	var status Status
	err = s.db.Read.QueryRowContext(ctx, `
		SELECT coalesce((SELECT status FROM dense_models WHERE id = ?2), ''), coalesce(max(last_id), 0), coalesce(max(vectors), 0)
		FROM dense_state WHERE namespace = ?1 AND model_id = ?2`, q.Namespace, s.model).
		Scan(&status, &now.lastID, &now.vectors)
	if err != nil {
		return leg.Result{}, err
	}
	if now.vectors == 0 {
		s.cache.drop(q.Namespace)
		return result, markOutdated(ctx, s.models, s.embedder.Model(), status, &result)
	}
	var cut string
	if codeBytes(now.vectors, len(query)) > s.MaxBytes {
		s.cache.drop(q.Namespace)
		result.Hits, cut, err = s.stream(ctx, q, query)
	} else {
		result.Hits, cut, err = s.scan(ctx, q, query, now)
	}
	if err != nil {
		return leg.Result{}, err
	}
	if cut != "" {
		result.State, result.Reason = triskelev1.LegState_LEG_STATE_TRUNCATED, cut
	}
	return result, markOutdated(ctx, s.models, s.embedder.Model(), status, &result)
}

// How the vectors in memory are searched. docs/bench/dense.md has what is found.
const (
	// Up to exactRows vectors are scored, of more those that are likely to be nearest: likelyPerHit for each hit, minLikely at least,
	// where there are likelyOf, and more where there are more.
	exactRows, likelyPerHit, minLikely, likelyOf = 2048, 8, 200, 20_000
	// signsPerLikely is how many vectors are estimated by the whole of their codes for each likely one.
	signsPerLikely = 5
	// listShare is how many memories can be checked for a filter in a row while one is looked up.
	listShare = 8
)

// scan compares the query with the vectors in memory. A reason says what cut it short.
func (s *SQLite) scan(ctx context.Context, q leg.Query, query []float32, now state) (hits []leg.Hit, reason string, err error) {
	m, err := s.refresh(ctx, q.Namespace, now, len(query))
	if err != nil {
		return nil, "", err
	}
	if m.readTo < now.lastID {
		reason = fmt.Sprintf("only %d of %d vectors had been read in time", len(m.ids), now.vectors)
	}
	work := s.scratch.Get().(*scratch)
	defer s.scratch.Put(work)
	until := share(ctx, 0.5)
	var rows []int32 // that pass the filter; nil is all
	patience := math.MaxInt
	if q.Filter.Narrow() {
		patience = len(m.ids) / listShare
	}
	for n := likelyFor(q.Depth, len(m.ids)); ; {
		candidates, all, cut, err := s.compare(ctx, m, work, query, rows, n, until)
		if err != nil {
			return nil, "", err
		}
		remaining := newRanking(candidates)
		var needed int
		if hits, needed, err = s.best(ctx, q, m, &remaining, patience); err != nil || cut != "" {
			return hits, cmp.Or(cut, reason), err
		}
		switch {
		case needed > patience: // so few of the nearest pass the filter that it is cheaper to see first which memories do
			ids, err := s.allowed(ctx, q)
			if err != nil {
				return nil, "", err
			}
			rows, patience = m.rows(ids), math.MaxInt
			n = likelyFor(q.Depth, len(rows))
		case all:
			return hits, reason, nil
		case needed > 2*q.Depth && n < likelyFor(needed, len(m.ids)): // many of the nearest are not to be returned
			n = likelyFor(needed, len(m.ids))
		case len(hits) < q.Depth && len(remaining) == 0:
			n *= 4
		default:
			return hits, reason, nil
		}
	}
}

// likelyFor is how many likely vectors are scored to find the nearest few of so many.
func likelyFor(hits, vectors int) int {
	return int(float64(max(likelyPerHit*hits, minLikely)) * math.Sqrt(max(1, float64(vectors)/likelyOf)))
}

// compare scores rows, or all if they are nil: each, or the n that are likely to be nearest, in which case it says that
// those are not all. A reason says what cut it short.
func (s *SQLite) compare(ctx context.Context, m matrix, work *scratch, query []float32, rows []int32, n int, until time.Time) (candidates []candidate, all bool, cut string, err error) {
	total := len(m.ids)
	if rows != nil {
		total = len(rows)
	}
	of := fmt.Sprintf("%d", total)
	if total <= max(exactRows, n) {
		all = true
		candidates = slices.Grow(work.candidates[:0], total)
		for i := range total {
			row := int32(i)
			if rows != nil {
				row = rows[i]
			}
			candidates = append(candidates, candidate{0, row})
		}
		work.candidates = candidates
	} else {
		var considered int
		if candidates, considered, err = m.likely(ctx, work, query, rows, n, until); err != nil {
			return nil, false, "", err
		}
		if considered < total {
			cut = fmt.Sprintf("only %d of %d vectors were compared in time", considered, total)
		}
		of = fmt.Sprintf("the likeliest %d of %d", len(candidates), total)
	}
	scored := candidates
	if m.halves != nil {
		scored, err = m.score(ctx, candidates, query, until)
	} else {
		scored, err = s.scoreStored(ctx, m, candidates, query, until)
	}
	if len(scored) < len(candidates) && passed(until) {
		cut = fmt.Sprintf("only %d of %s vectors were compared in time", len(scored), of)
	}
	return scored, all, cut, err
}

// scoreStored is matrix.score with vectors read from the database. Those that have been deleted are left out.
func (s *SQLite) scoreStored(ctx context.Context, m matrix, candidates []candidate, query []float32, until time.Time) ([]candidate, error) {
	ids, rows := make([]int64, len(candidates)), make(map[int64]int32, len(candidates))
	for i, c := range candidates {
		ids[i] = m.ids[c.row]
		rows[ids[i]] = c.row
	}
	var args sqlite.Args
	found, err := s.db.Read.QueryContext(ctx, fmt.Sprintf(`
		SELECT v.id, v.embedding FROM json_each(%s) c CROSS JOIN dense_vectors v ON v.id = c.value`, args.AddJSON(ids)), args...)
	if err != nil {
		return nil, err
	}
	scored, halves := candidates[:0], make([]uint16, 0, len(query))
	err = scanRows(found, func() error {
		if n := len(scored); n > 0 && n%readRows == 0 && passed(until) {
			return errEnough
		}
		var id int64
		var embedding sql.RawBytes
		if err := found.Scan(&id, &embedding); err != nil {
			return err
		}
		of, scale, err := appendHalves(halves[:0], embedding, len(query))
		if err != nil {
			return fmt.Errorf("vector %d: %w", id, err)
		}
		scored = append(scored, candidate{toUnits(halfDot(query, of) * scale), rows[id]})
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return scored, err
}

// best returns the best of the remaining candidates that turn out to be live and to pass the filter, as many as there are
// to be. It gives up when more than patience would have to be tried for that, and says how many would have to be. Those
// that score like the last one are tried too, because other things than the score order them.
func (s *SQLite) best(ctx context.Context, q leg.Query, m matrix, remaining *ranking, patience int) (hits []leg.Hit, needed int, err error) {
	scores := map[int64]int32{}
	for tried := 0; len(hits) < q.Depth && needed <= patience && remaining.eligible(q); {
		clear(scores)
		// A few more than are missing, because most namespaces hold some superseded memories, and ever more under a filter.
		n := q.Depth - len(hits) + 8 + tried
		ids := make([]int64, 0, n)
		for remaining.eligible(q) && (len(ids) < n || (*remaining)[0].score == scores[ids[len(ids)-1]]) {
			c := remaining.pop()
			id := m.ids[c.row]
			ids, scores[id] = append(ids, id), c.score
		}
		tried += len(ids)
		var args sqlite.Args
		rows, err := s.db.Read.QueryContext(ctx, fmt.Sprintf(`
			SELECT v.id, m.id, m.importance, m.created_at
			FROM json_each(%s) c CROSS JOIN dense_vectors v ON v.id = c.value
			CROSS JOIN memories m ON m.namespace = v.namespace AND m.id = v.memory_id
			WHERE %s`, args.AddJSON(ids), sqlite.Live(q.Filter, "m", &args)), args...)
		if err != nil {
			return nil, 0, err
		}
		if err := scanRows(rows, func() error {
			var id, created int64
			var hit leg.Hit
			if err := rows.Scan(&id, &hit.ID, &hit.Importance, &created); err != nil {
				return err
			}
			hit.Score, hit.CreatedAt = fromUnits(scores[id]), time.UnixMicro(created).UTC()
			hits = append(hits, hit)
			return nil
		}); err != nil {
			return nil, 0, err
		}
		needed = tried * q.Depth / max(len(hits), 1)
	}
	slices.SortFunc(hits, compareHits)
	return hits[:min(len(hits), q.Depth)], needed, nil
}

// allowed returns the ids of the vectors whose memories pass the filter, ascending.
func (s *SQLite) allowed(ctx context.Context, q leg.Query) ([]int64, error) {
	var args sqlite.Args
	namespace := args.Add(q.Namespace)
	// Materialised, for the filter to be checked before vectors are looked up and not after.
	rows, err := s.db.Read.QueryContext(ctx, fmt.Sprintf(`
		WITH passing AS MATERIALIZED (SELECT m.id FROM memories m WHERE m.namespace = %[1]s AND %[2]s)
		SELECT v.id FROM passing p CROSS JOIN dense_vectors v ON v.namespace = %[1]s AND v.memory_id = p.id AND v.model_id = %[3]s`,
		namespace, sqlite.Live(q.Filter, "m", &args), args.Add(s.model)), args...)
	if err != nil {
		return nil, err
	}
	ids, err := scanIDs(rows)
	slices.Sort(ids)
	return ids, err
}

// stream compares the query with vectors as it reads them.
func (s *SQLite) stream(ctx context.Context, q leg.Query, query []float32) (hits []leg.Hit, reason string, err error) {
	var args sqlite.Args
	rows, err := s.db.Read.QueryContext(ctx, fmt.Sprintf(`
		SELECT v.embedding, m.id, m.importance, m.created_at
		FROM dense_vectors v JOIN memories m ON m.namespace = v.namespace AND m.id = v.memory_id
		WHERE v.namespace = %s AND v.model_id = %s AND %s`,
		args.Add(q.Namespace), args.Add(s.model), sqlite.Live(q.Filter, "m", &args)), args...)
	if err != nil {
		return nil, "", err
	}
	until := share(ctx, 0.9)
	halves := make([]uint16, 0, len(query))
	compared := 0
	err = scanRows(rows, func() error {
		if compared > 0 && compared%readRows == 0 && passed(until) {
			return errEnough
		}
		compared++
		var embedding sql.RawBytes
		var hit leg.Hit
		var created int64
		if err := rows.Scan(&embedding, &hit.ID, &hit.Importance, &created); err != nil {
			return err
		}
		of, scale, err := appendHalves(halves[:0], embedding, len(query))
		if err != nil {
			return fmt.Errorf("vector of memory %s: %w", hit.ID, err)
		}
		hit.Score, hit.CreatedAt = fromUnits(toUnits(halfDot(query, of)*scale)), time.UnixMicro(created).UTC()
		if q.MinScore != nil && hit.Score < *q.MinScore || len(hits) == q.Depth && compareHits(hit, hits[q.Depth-1]) > 0 {
			return nil
		}
		at, _ := slices.BinarySearchFunc(hits, hit, compareHits)
		hits = slices.Insert(hits[:min(len(hits), q.Depth-1)], at, hit)
		return nil
	})
	if errors.Is(err, errEnough) {
		return hits, fmt.Sprintf("only %d vectors were compared in time", compared), nil
	}
	return hits, "", err
}

// Status implements leg.Searcher.
func (s *SQLite) Status(ctx context.Context, namespace string) (leg.Status, error) {
	tasks, err := s.tasks.Status(ctx, indexName, namespace)
	if err != nil {
		return leg.Status{}, err
	}
	var indexed, excluded int64
	err = s.db.Read.QueryRowContext(ctx, `
		SELECT (SELECT coalesce(sum(vectors), 0) FROM dense_state WHERE namespace = ?1 AND model_id = ?2),
			(SELECT count(*) FROM memories WHERE namespace = ?1 AND sensitive
				AND NOT EXISTS (SELECT 1 FROM dense_model_rows WHERE model_id = ?2 AND sensitive))`, namespace, s.model).Scan(&indexed, &excluded)
	return status(s.embedder.Model(), tasks, indexed, excluded), err
}

// errEnough ends a scan of rows early.
var errEnough = errors.New("enough")

// scanRows calls fn for each row until it returns an error, and closes the rows.
func scanRows(rows *sql.Rows, fn func() error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := fn(); err != nil {
			return err
		}
	}
	return rows.Err()
}

func scanIDs(rows *sql.Rows) ([]int64, error) {
	var ids []int64
	err := scanRows(rows, func() error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}
