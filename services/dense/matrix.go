package dense

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
)

// matrix is a view of the vectors of one namespace and model, in the order of their ids. A view does not change: what is
// added later lies behind its end.
type matrix struct {
	ids    []int64   // of SQLite's vectors; on PostgreSQL the transactions that wrote them
	signs  []uint64  // the first bits of each vector's code
	sizes  []uint64  // the second bits
	spans  []float32 // the span of each code
	halves []uint16  // its components in half precision; none if there is only room for the codes
	scales []float32 // what makes its length 1; none without halves
	readTo int64     // every vector with an id up to this has been read, on SQLite

	// On PostgreSQL:
	memories []uuid.UUID
	seenIn             // every vector that is visible in the snapshot has been read; none if it is empty
	readAt   time.Time // since when deleted vectors may be among the others
}

// seenIn is a moment of a PostgreSQL database. Snapshots of different timelines cannot be compared.
type seenIn struct {
	timeline int64
	snapshot string
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
	return int64(8*cap(m.ids) + 8*cap(m.signs) + 8*cap(m.sizes) + 4*cap(m.spans) + 2*cap(m.halves) + 4*cap(m.scales) + 16*cap(m.memories))
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

// newMatrix returns an empty matrix with room for a number of vectors, with their components or with codes only.
func newMatrix(vectors, dimensions int, whole bool) matrix {
	words := vectors * codeWords(dimensions)
	m := matrix{ids: make([]int64, 0, vectors), signs: make([]uint64, 0, words), sizes: make([]uint64, 0, words), spans: make([]float32, 0, vectors)}
	if whole {
		m.halves, m.scales = make([]uint16, 0, vectors*dimensions), make([]float32, 0, vectors)
	}
	return m
}
