package dense

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/x448/float16"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLite searches dense_vectors. It compares the query with a namespace's codes in memory, then rescores the likeliest
// vectors. It asks the database only for changes and for the live memories among the best. The first search of a
// namespace reads it.
type SQLite struct {
	// MaxBytes is Config.VectorMemory in bytes. Set it before the first search.
	MaxBytes int64

	queue.Follower
	db       *sqlite.DB
	embedder embed.Embedder
	tasks    queue.Store
	model    int64 // id in dense_models
	models   sqliteModels
	cache    cache
	scratch  sync.Pool // of *scratch
}

var (
	_ leg.Searcher   = (*SQLite)(nil)
	_ leg.AsyncIndex = (*SQLite)(nil)
	_ queue.Indexer  = (*SQLite)(nil)
)

// NewSQLite returns a store for the embedder's model. It registers the model if none is active.
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
		MaxBytes: config.bytes(), Follower: queue.Follow(tasks, indexName), db: db, embedder: embedder, tasks: tasks, model: model, models: models,
		scratch: sync.Pool{New: func() any { return new(scratch) }},
	}, nil
}

// Index implements queue.Indexer. It pauses when the model is not active.
func (s *SQLite) Index(ctx context.Context, records []record.Record) error {
	return index(ctx, s.models, s.embedder, s.model, records)
}

// encode returns a vector's stored form.
func encode(vector []float32) []byte {
	b := make([]byte, 0, 2*len(vector))
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(x).Bits())
	}
	return b
}

// state is a row of dense_state.
type state struct{ lastID, vectors int64 }

// Knows implements leg.AsyncIndex.
func (s *SQLite) Knows(ctx context.Context, namespace string, sequence int64) (known, gaveUp bool, err error) {
	return knows(ctx, s.models, s.Follower, s.model, namespace, sequence)
}

// Search implements leg.Searcher. Reading new vectors gets half of the remaining time, comparing half of the
// rest. If vectors remain, the result is TRUNCATED.
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

// inFile asks SQLite for a scan.
type inFile struct {
	*SQLite
	q leg.Query
}

// scan searches the vectors in memory. The reason says what cut it short.
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
	hits, cut, err := scan{inFile{s, q}, q, query, m, work, share(ctx, 0.5), len(m.ids) / listShare}.run(ctx)
	return hits, cmp.Or(cut, reason), err
}

// score is matrix.score, or reads the vectors from the file. It skips deleted ones.
func (f inFile) score(ctx context.Context, m matrix, candidates []candidate, query []float32, until time.Time) ([]candidate, error) {
	if m.halves != nil {
		return m.score(ctx, candidates, query, until)
	}
	ids, rows := make([]int64, len(candidates)), make(map[int64]int32, len(candidates))
	for i, c := range candidates {
		ids[i] = m.ids[c.row]
		rows[ids[i]] = c.row
	}
	var args sqlite.Args
	found, err := f.db.Read.QueryContext(ctx, fmt.Sprintf(`
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

func (f inFile) live(ctx context.Context, m matrix, candidates []candidate) ([]leg.Hit, error) {
	ids, scores := make([]int64, len(candidates)), make(map[int64]int32, len(candidates))
	for i, c := range candidates {
		ids[i] = m.ids[c.row]
		scores[ids[i]] = c.score
	}
	var args sqlite.Args
	rows, err := f.db.Read.QueryContext(ctx, fmt.Sprintf(`
		SELECT v.id, m.id, m.importance, m.created_at
		FROM json_each(%s) c CROSS JOIN dense_vectors v ON v.id = c.value
		CROSS JOIN memories m ON m.namespace = v.namespace AND m.id = v.memory_id
		WHERE %s`, args.AddJSON(ids), sqlite.Live(f.q.Filter, "m", &args)), args...)
	if err != nil {
		return nil, err
	}
	hits := make([]leg.Hit, 0, len(candidates))
	err = scanRows(rows, func() error {
		var id, created int64
		var hit leg.Hit
		if err := rows.Scan(&id, &hit.ID, &hit.Importance, &created); err != nil {
			return err
		}
		hit.Score, hit.CreatedAt = fromUnits(scores[id]), time.UnixMicro(created).UTC()
		hits = append(hits, hit)
		return nil
	})
	return hits, err
}

func (f inFile) allowed(ctx context.Context, m matrix) ([]int32, error) {
	var args sqlite.Args
	namespace := args.Add(f.q.Namespace)
	// Materialized, so that the filter runs before vectors are looked up.
	rows, err := f.db.Read.QueryContext(ctx, fmt.Sprintf(`
		WITH passing AS MATERIALIZED (SELECT m.id FROM memories m WHERE m.namespace = %[1]s AND %[2]s)
		SELECT v.id FROM passing p CROSS JOIN dense_vectors v ON v.namespace = %[1]s AND v.memory_id = p.id AND v.model_id = %[3]s`,
		namespace, sqlite.Live(f.q.Filter, "m", &args), args.Add(f.model)), args...)
	if err != nil {
		return nil, err
	}
	ids, err := scanIDs(rows)
	slices.Sort(ids)
	return m.rows(ids), err
}

// stream compares vectors while reading them.
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

// errEnough stops scanRows early.
var errEnough = errors.New("enough")

// scanRows calls fn for each row until an error and closes the rows.
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
