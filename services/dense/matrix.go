package dense

import (
	"container/list"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/triskele/triskele/services/leg"
)

const (
	// readRows is how many vectors are read at a time; about two milliseconds.
	readRows = 512
	// blockRows is how many vectors are compared between looks at the clock.
	blockRows = 2048
)

// matrix is a view of the vectors of one namespace and model, in the order of their ids. A view does not change: what is
// added later lies behind its end.
type matrix struct {
	ids     []int64
	vectors []float32 // one row per id, each of length 1
	readTo  int64     // every vector with an id up to this has been read
}

// matrixBytes is the memory that a number of vectors takes.
func matrixBytes(vectors int64, dimensions int) int64 { return vectors * int64(8+4*dimensions) }

// rows returns the rows that ids, which ascend, are in.
func (m matrix) rows(ids []int64) []int32 {
	rows := make([]int32, 0, len(ids))
	for row, id := range m.ids {
		for len(ids) > 0 && ids[0] < id {
			ids = ids[1:]
		}
		if len(ids) == 0 {
			break
		}
		if ids[0] == id {
			rows = append(rows, int32(row))
		}
	}
	return rows
}

// compare scores the vectors, all of them or those that it gets to before the moment until, in the order of their rows.
// It uses the buffer's memory.
func (m matrix) compare(ctx context.Context, buffer []candidate, query []float32, until time.Time) ([]candidate, error) {
	candidates := slices.Grow(buffer[:0], len(m.ids))
	for row := range m.ids {
		if row%blockRows == 0 && row > 0 {
			if err := ctx.Err(); err != nil {
				return buffer, err
			}
			if passed(until) {
				break
			}
		}
		start := row * len(query)
		candidates = append(candidates, candidate{toUnits(dot(query, m.vectors[start:start+len(query)])), int32(row)})
	}
	return candidates, nil
}

// toUnits rounds a cosine to whole units of score.
func toUnits(cosine float32) int32 { return int32(math.RoundToEven(float64(cosine) * scoreUnits)) }

// fromUnits is the inverse of toUnits.
func fromUnits(score int32) float64 { return float64(score) / scoreUnits }

// dot is the inner product of vectors of equal length. The partial sums do not wait for one another.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3) + ((s4 + s5) + (s6 + s7))
}

// candidate is a row and its score in units.
type candidate struct{ score, row int32 }

// ranking is a binary heap of candidates, the best at the top: it costs little to fill and gives out, in order, as many
// as turn out to be needed.
type ranking []candidate

// newRanking takes over the candidates.
func newRanking(candidates []candidate) ranking {
	r := ranking(candidates)
	for i := len(r)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
	return r
}

// only takes over the ranking and returns, in any order, its candidates that are among rows.
func (r ranking) only(rows []int32) []candidate {
	return slices.DeleteFunc(r, func(c candidate) bool {
		_, among := slices.BinarySearch(rows, c.row)
		return !among
	})
}

// eligible says whether there is a candidate left that scores enough.
func (r ranking) eligible(q leg.Query) bool {
	return len(r) > 0 && (q.MinScore == nil || fromUnits(r[0].score) >= *q.MinScore)
}

// pop removes and returns the best candidate.
func (r *ranking) pop() candidate {
	h := *r
	best, last := h[0], len(h)-1
	h[0] = h[last]
	*r = h[:last]
	r.sink(0)
	return best
}

func (r ranking) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(r) {
			return
		}
		if child+1 < len(r) && r[child+1].score > r[child].score {
			child++
		}
		if r[i].score >= r[child].score {
			return
		}
		r[i], r[child] = r[child], r[i]
		i = child
	}
}

// cache keeps matrices by namespace. Its zero value is empty.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry
	recent  list.List // of *entry, the one used last in front
}

// entry is the matrix of a namespace.
type entry struct {
	namespace string
	element   *list.Element
	turn      chan struct{} // holds a token while someone brings the matrix up to date; unlike a mutex, waiting for it can end
	matrix    matrix        // guarded by cache.mu
}

// use returns the entry of a namespace and its matrix.
func (c *cache) use(namespace string) (*entry, matrix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[namespace]
	if e == nil {
		if c.entries == nil {
			c.entries = map[string]*entry{}
		}
		e = &entry{namespace: namespace, turn: make(chan struct{}, 1)}
		e.element = c.recent.PushFront(e)
		c.entries[namespace] = e
	}
	c.recent.MoveToFront(e.element)
	return e, e.matrix
}

// put sets an entry's matrix and drops the namespaces used least recently until the rest fits.
func (c *cache) put(e *entry, m matrix, maxBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.matrix = m
	var total int64
	for element := c.recent.Front(); element != nil; {
		next := element.Next()
		other := element.Value.(*entry)
		total += int64(8*cap(other.matrix.ids) + 4*cap(other.matrix.vectors))
		if total > maxBytes && other != e {
			c.remove(other)
		}
		element = next
	}
}

// drop forgets a namespace.
func (c *cache) drop(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[namespace]; e != nil {
		c.remove(e)
	}
}

func (c *cache) remove(e *entry) {
	c.recent.Remove(e.element)
	delete(c.entries, e.namespace)
}

// view returns the matrix of an entry.
func (c *cache) view(e *entry) matrix {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.matrix
}

// refresh returns the vectors of a namespace up to the state now or, if half of the time that ctx leaves does not
// suffice, as many as have been read. What was read stays for the next search, so a large namespace is ready after some.
func (s *SQLite) refresh(ctx context.Context, namespace string, now state, dimensions int) (matrix, error) {
	e, m := s.cache.use(namespace)
	if m.readTo >= now.lastID && !mostlyDeleted(m, now) {
		return m, nil
	}
	until := share(ctx, 0.5)
	var timeout <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-timeout:
		return s.cache.view(e), nil
	case <-ctx.Done():
		return matrix{}, ctx.Err()
	}
	m = s.cache.view(e) // as whoever had the turn before left it
	if mostlyDeleted(m, now) {
		var err error
		if m, err = s.compact(ctx, namespace, m, now, dimensions); err != nil {
			return matrix{}, err
		}
		s.cache.put(e, m, s.MaxBytes)
	}
	for m.readTo < now.lastID && !passed(until) {
		var err error
		if m, err = s.read(ctx, namespace, m, now, dimensions); err != nil {
			return matrix{}, err
		}
		s.cache.put(e, m, s.MaxBytes)
	}
	return m, nil
}

// mostlyDeleted says whether a matrix should be compacted. Deleted vectors do no harm until then: they are never
// returned, because the database no longer knows them.
func mostlyDeleted(m matrix, now state) bool {
	return int64(len(m.ids))-now.vectors > max(1024, int64(len(m.ids))/4)
}

// compact returns the matrix without the vectors that have been deleted.
func (s *SQLite) compact(ctx context.Context, namespace string, m matrix, now state, dimensions int) (matrix, error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT id FROM dense_vectors WHERE namespace = ? AND model_id = ? AND id <= ? ORDER BY id`,
		namespace, s.model, m.readTo)
	if err != nil {
		return matrix{}, err
	}
	ids, err := scanIDs(rows)
	if err != nil {
		return matrix{}, err
	}
	kept := m.rows(ids)
	compacted := matrix{
		ids: make([]int64, 0, len(kept)), vectors: make([]float32, 0, len(kept)*dimensions), readTo: m.readTo,
	}
	for _, row := range kept {
		start := int(row) * dimensions
		compacted.ids = append(compacted.ids, m.ids[row])
		compacted.vectors = append(compacted.vectors, m.vectors[start:start+dimensions]...)
	}
	return compacted, nil
}

// read returns the matrix with the next vectors added.
func (s *SQLite) read(ctx context.Context, namespace string, m matrix, now state, dimensions int) (matrix, error) {
	if len(m.ids) == 0 {
		m.ids = make([]int64, 0, now.vectors)
		m.vectors = make([]float32, 0, int(now.vectors)*dimensions)
	}
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT id, embedding FROM dense_vectors WHERE namespace = ? AND model_id = ? AND id > ? ORDER BY id LIMIT ?`,
		namespace, s.model, m.readTo, readRows)
	if err != nil {
		return matrix{}, err
	}
	n := 0
	err = scanRows(rows, func() error {
		var embedding sql.RawBytes
		if err := rows.Scan(&m.readTo, &embedding); err != nil {
			return err
		}
		vectors, err := appendDecoded(m.vectors, embedding, dimensions)
		if err != nil {
			return fmt.Errorf("vector %d: %w", m.readTo, err)
		}
		m.ids, m.vectors = append(m.ids, m.readTo), vectors
		n++
		return nil
	})
	if err != nil {
		return matrix{}, err
	}
	if n < readRows {
		m.readTo = max(m.readTo, now.lastID) // the vectors in between have been deleted
	}
	return m, nil
}
