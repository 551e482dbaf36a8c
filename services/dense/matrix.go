package dense

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
)

// matrix holds the vectors of one namespace and model by id. It is an immutable view: later vectors are appended behind
// its end.
type matrix struct {
	ids    []int64   // SQLite's vector ids; on PostgreSQL the writing transactions
	signs  []uint64  // first bits of the codes
	sizes  []uint64  // second bits
	spans  []float32 // spans of the codes
	halves []uint16  // half-precision components; nil if only the codes fit
	scales []float32 // factors for unit length; nil without halves
	readTo int64     // all vectors up to this id are included (SQLite)

	// On PostgreSQL:
	memories []uuid.UUID
	seenIn             // all vectors visible in this snapshot are included; empty if none
	readAt   time.Time // time of the read; later deletions are not applied
}

// seenIn is a snapshot of a PostgreSQL timeline. Timelines are not comparable.
type seenIn struct {
	timeline int64
	snapshot string
}

// codeBytes is the memory of codes.
func codeBytes(vectors int64, dimensions int) int64 {
	return vectors * int64(8+4+2*8*codeWords(dimensions))
}

// matrixBytes is the memory of vectors and their codes.
func matrixBytes(vectors int64, dimensions int) int64 {
	return codeBytes(vectors, dimensions) + vectors*int64(4+2*dimensions)
}

// bytes is the matrix's memory.
func (m matrix) bytes() int64 {
	return int64(8*cap(m.ids) + 8*cap(m.signs) + 8*cap(m.sizes) + 4*cap(m.spans) + 2*cap(m.halves) + 4*cap(m.scales) + 16*cap(m.memories))
}

// add appends a vector's code.
func (m *matrix) add(id int64, halves []uint16, queried int) {
	var span float32
	m.signs, m.sizes, span = appendCode(m.signs, m.sizes, halves, queried)
	m.ids, m.spans = append(m.ids, id), append(m.spans, span)
}

// rows returns the rows of ascending ids.
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

// score replaces estimates by exact scores and returns the candidates scored before until. query must be
// prepared.
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

// toUnits rounds a cosine to score units.
func toUnits(cosine float32) int32 { return int32(math.RoundToEven(float64(cosine) * scoreUnits)) }

// fromUnits is the inverse of toUnits.
func fromUnits(score int32) float64 { return float64(score) / scoreUnits }

// candidate is a row and its score in units.
type candidate struct{ score, row int32 }

// ranking is a binary max-heap of candidates. It is cheap to build and pops only as many as are
// needed.
type ranking []candidate

// newRanking reuses the slice.
func newRanking(candidates []candidate) ranking {
	r := ranking(candidates)
	for i := len(r)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
	return r
}

// eligible reports whether the best candidate reaches the minimum.
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

// newMatrix returns an empty matrix with capacity for vectors, or only codes if not whole.
func newMatrix(vectors, dimensions int, whole bool) matrix {
	words := vectors * codeWords(dimensions)
	m := matrix{ids: make([]int64, 0, vectors), signs: make([]uint64, 0, words), sizes: make([]uint64, 0, words), spans: make([]float32, 0, vectors)}
	if whole {
		m.halves, m.scales = make([]uint16, 0, vectors*dimensions), make([]float32, 0, vectors)
	}
	return m
}
