package dense

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/triskele/triskele/services/leg"
)

// readRows is how many vectors are read at a time; about two milliseconds.
const readRows = 512

// matrix is a view of the vectors of one namespace and model, in the order of their ids. A view does not change: what is
// added later lies behind its end.
type matrix struct {
	ids    []int64
	signs  []uint64  // the first bits of each vector's code
	sizes  []uint64  // the second bits
	spans  []float32 // the span of each code
	halves []uint16  // its components in half precision; none if there is only room for the codes
	scales []float32 // what makes its length 1; none without halves
	readTo int64     // every vector with an id up to this has been read
}

// codeBytes is the memory that a number of codes takes.
func codeBytes(vectors int64, dimensions int) int64 {
	return vectors * int64(8+4+2*8*codeWords(dimensions))
}

// matrixBytes is the memory that a number of vectors takes, with their codes.
func matrixBytes(vectors int64, dimensions int) int64 {
	return codeBytes(vectors, dimensions) + vectors*int64(4+2*dimensions)
}

// bytes is the memory that the matrix takes.
func (m matrix) bytes() int64 {
	return int64(8*cap(m.ids) + 8*cap(m.signs) + 8*cap(m.sizes) + 4*cap(m.spans) + 2*cap(m.halves) + 4*cap(m.scales))
}

// add appends the code of a vector.
func (m *matrix) add(id int64, halves []uint16, queried int) {
	var span float32
	m.signs, m.sizes, span = appendCode(m.signs, m.sizes, halves, queried)
	m.ids, m.spans = append(m.ids, id), append(m.spans, span)
}

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

// score replaces estimates by scores, of all candidates or of those that it gets to before the moment until, and returns
// the latter. query is prepared.
func (m matrix) score(ctx context.Context, candidates []candidate, query []float32, until time.Time) ([]candidate, error) {
	for i := range candidates {
		if i%scoreRows == 0 && i > 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if passed(until) {
				return candidates[:i], nil
			}
		}
		row := int(candidates[i].row)
		candidates[i].score = toUnits(halfDot(query, m.halves[row*len(query):(row+1)*len(query)]) * m.scales[row])
	}
	return candidates, nil
}

// toUnits rounds a cosine to whole units of score.
func toUnits(cosine float32) int32 { return int32(math.RoundToEven(float64(cosine) * scoreUnits)) }

// fromUnits is the inverse of toUnits.
func fromUnits(score int32) float64 { return float64(score) / scoreUnits }

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
	compacted := newMatrix(len(kept), dimensions, m.halves != nil)
	compacted.readTo = m.readTo
	words := codeWords(dimensions)
	for _, r := range kept {
		row := int(r)
		compacted.ids = append(compacted.ids, m.ids[row])
		compacted.signs = append(compacted.signs, m.signs[row*words:(row+1)*words]...)
		compacted.sizes = append(compacted.sizes, m.sizes[row*words:(row+1)*words]...)
		compacted.spans = append(compacted.spans, m.spans[row])
		if m.halves != nil {
			compacted.halves = append(compacted.halves, m.halves[row*dimensions:(row+1)*dimensions]...)
			compacted.scales = append(compacted.scales, m.scales[row])
		}
	}
	return compacted, nil
}

// newMatrix returns an empty matrix with room for a number of vectors, with their components or with codes only.
func newMatrix(vectors, dimensions int, whole bool) matrix {
	words := vectors * codeWords(dimensions)
	m := matrix{ids: make([]int64, 0, vectors), signs: make([]uint64, 0, words), sizes: make([]uint64, 0, words), spans: make([]float32, 0, vectors)}
	if whole {
		m.halves, m.scales = make([]uint16, 0, vectors*dimensions), make([]float32, 0, vectors)
	}
	return m
}

// read returns the matrix with the next vectors added.
func (s *SQLite) read(ctx context.Context, namespace string, m matrix, now state, dimensions int) (matrix, error) {
	whole := matrixBytes(now.vectors, dimensions) <= s.MaxBytes
	if len(m.ids) == 0 {
		readTo := m.readTo
		m = newMatrix(int(now.vectors), dimensions, whole)
		m.readTo = readTo
	} else if !whole {
		m.halves, m.scales = nil, nil // it has outgrown them
	}
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT id, embedding FROM dense_vectors WHERE namespace = ? AND model_id = ? AND id > ? ORDER BY id LIMIT ?`,
		namespace, s.model, m.readTo, readRows)
	if err != nil {
		return matrix{}, err
	}
	n, queried := 0, cmp.Or(s.embedder.Model().QueryDimensions, dimensions)
	spare := make([]uint16, 0, dimensions)
	err = scanRows(rows, func() error {
		var embedding sql.RawBytes
		if err := rows.Scan(&m.readTo, &embedding); err != nil {
			return err
		}
		to := m.halves
		if to == nil {
			to = spare
		}
		halves, scale, err := appendHalves(to, embedding, dimensions)
		if err != nil {
			return fmt.Errorf("vector %d: %w", m.readTo, err)
		}
		if m.halves != nil {
			m.halves, m.scales = halves, append(m.scales, scale)
		}
		m.add(m.readTo, halves[len(halves)-dimensions:], queried)
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
