package dense

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// blockRows rows are kept together: some 40 MB, so that large pages hold them.
const blockRows = 1 << 16

// matrix is a replica.Part: the vectors of a namespace for one model, by row number.
type matrix struct {
	rows   *replica.Rows
	of     stored
	blocks []block
	count  int     // rows with a vector
	exact  bool    // there are no codes: for one question they take longer to make than vectors to compare
	steps  []int16 // of the vector that is being set
	// changes counts vectors that were set or dropped. whitening is of some earlier moment, or nil.
	changes   int
	whitening atomic.Pointer[whitening]
	renewing  sync.Mutex
	renewed   chan struct{} // closed when whitening is that of the last call of renew; nil before the first
}

var _ replica.Part = (*matrix)(nil)

// stored says which vectors a database keeps of a model.
type stored struct {
	model      int64
	dimensions int
	queried    int // queries are zero in the dimensions from here on, so these are not kept
}

// block is the vectors of up to blockRows consecutive rows. A row without a vector has the scale 0.
type block struct {
	codes   []byte    // whole groups
	spans   []float32 // of the codes, for whole groups; noSpan without a vector
	scales  []float32 // factors for unit length, of steps
	vectors []byte    // packed
}

// noSpan makes an estimate that is below every bound.
var noSpan = float32(math.NaN())

// Read implements replica.Part. A vector that cannot be decoded is logged and left out.
func (m *matrix) Read(ctx context.Context, tx replica.Tx, namespace string, ids []uuid.UUID) (apply func(), err error) {
	column, decode := "halfvec_send(embedding)", appendSent
	if tx.IsSQLite() {
		column, decode = "embedding", appendHalves
	}
	statement, args := sqldb.Among(ids, `SELECT memory_id, `+column+` FROM dense.vectors WHERE namespace = $1 AND model_id = $2`,
		` AND memory_id = ANY($3::uuid[])`, namespace, m.of.model)
	var id uuid.UUID
	var raw replica.Raw
	var halves []uint16
	each := func(fn func()) error {
		return tx.Each(ctx, statement, args, []any{&id, &raw}, func() (err error) {
			if halves, err = decode(halves[:0], raw, m.of.dimensions); err != nil {
				slog.WarnContext(ctx, "a stored vector is skipped", "memory", id.String(), "error", err.Error())
				return nil
			}
			fn()
			return nil
		})
	}
	if ids == nil {
		find := m.rows.InOrder()
		err := each(func() {
			if row, known := find(id); known {
				m.set(row, halves)
			}
		})
		if err == nil && m.count >= leastWhitened {
			m.renew(ctx) // the first search will need it
		}
		return nil, err
	}
	found := make(map[uuid.UUID][]uint16, len(ids))
	err = each(func() { found[id] = slices.Clone(halves) })
	return func() { replica.Replace(m.rows, ids, found, m.set, m.Drop) }, err
}

// room returns the block of a row and the row's place in it. A new block gets room for the rows that there are.
func (m *matrix) room(row uint32) (b *block, at int) {
	i, at := int(row)/blockRows, int(row)%blockRows
	for len(m.blocks) <= i {
		m.blocks = append(m.blocks, block{})
	}
	if b = &m.blocks[i]; at >= len(b.scales) {
		rows := min(m.rows.Len()-i*blockRows, blockRows)
		groups := (rows + groupRows - 1) / groupRows
		if m.exact {
			groups = 0
		}
		without := len(b.spans)
		b.codes = lengthened(b.codes, groups*groupBytes(m.of.queried), blockRows/groupRows*groupBytes(m.of.queried))
		b.spans = lengthened(b.spans, groups*groupRows, blockRows)
		for ; without < len(b.spans); without++ {
			b.spans[without] = noSpan
		}
		b.scales = lengthened(b.scales, rows, blockRows)
		b.vectors = lengthened(b.vectors, rows*packedBytes(m.of.queried), blockRows*packedBytes(m.of.queried))
	}
	return b, at
}

// lengthened returns a slice with zeros up to a length, if it is shorter, and with room for more, but for no more than most. It must
// never have been longer.
func lengthened[T any](s []T, length, most int) []T {
	if length <= cap(s) {
		return s[:max(length, len(s))]
	}
	longer := replica.Large[T](length, max(length, min(len(s)+len(s)/4, most)))
	copy(longer, s)
	return longer
}

// set adds or replaces the vector of a row.
func (m *matrix) set(row uint32, halves []uint16) {
	to, at := m.room(row)
	if to.scales[at] == 0 {
		m.count++
	}
	m.changes++
	steps, step, squares := inSteps(m.steps, halves[:m.of.queried])
	m.steps = steps
	pack(to.vector(at, m.of.queried), steps)
	length := float64(squares) * float64(step) * float64(step)
	for _, half := range halves[m.of.queried:] {
		length += float64(moved(half)) * halfScale * float64(moved(half)) * halfScale
	}
	to.scales[at] = float32(float64(step) / math.Sqrt(length))
	if !m.exact {
		to.spans[at] = step * code(to.group(at, m.of.queried), at%groupRows, steps, squares, m.of.queried)
	}
}

// vector returns the packed vector of a row.
func (b *block) vector(at, dimensions int) []byte {
	size := packedBytes(dimensions)
	return b.vectors[at*size:][:size:size]
}

// group returns the codes of a row's group.
func (b *block) group(at, dimensions int) []byte {
	size := groupBytes(dimensions)
	return b.codes[at/groupRows*size:][:size]
}

// Drop implements replica.Part.
func (m *matrix) Drop(row uint32) {
	if !m.has(row) {
		return
	}
	of, at := &m.blocks[row/blockRows], int(row%blockRows)
	of.scales[at] = 0
	clear(of.vector(at, m.of.queried))
	if !m.exact {
		code(of.group(at, m.of.queried), at%groupRows, make([]int16, wholePacks(m.of.queried)), 0, m.of.queried)
		of.spans[at] = noSpan
	}
	m.count--
	m.changes++
}

// has reports whether a row has a vector.
func (m *matrix) has(row uint32) bool {
	b, at := int(row)/blockRows, int(row)%blockRows
	return b < len(m.blocks) && at < len(m.blocks[b].scales) && m.blocks[b].scales[at] != 0
}

// Bytes implements replica.Part.
func (m *matrix) Bytes() (n int64) {
	for _, b := range m.blocks {
		n += int64(cap(b.codes) + 4*cap(b.spans) + 4*cap(b.scales) + cap(b.vectors))
	}
	if w := m.whitening.Load(); w != nil {
		n += int64(4 * len(w.directions))
	}
	return n
}

// score sets scores to the cosines of rows' vectors and a prepared query, in score units. All rows must have vectors.
func (m *matrix) score(rows []uint32, query, scores []float32) {
	var vectors, next [4][]byte
	var scales, nextScales [4]float32
	fetch := func(from int) {
		for i := range next {
			row := rows[min(from+i, len(rows)-1)]
			b, at := &m.blocks[row/blockRows], int(row%blockRows)
			next[i], nextScales[i] = b.vector(at, len(query)), b.scales[at]
		}
	}
	if len(rows) > 0 {
		fetch(0)
	}
	for from := 0; from < len(rows); from += 4 {
		vectors, scales = next, nextScales
		fetch(from + 4)
		for i, product := range products(query, &vectors, &next) {
			if from+i < len(rows) {
				scores[from+i] = toUnits(product * scales[i])
			}
		}
	}
}
