package leg

import (
	"bytes"
	"cmp"
	"time"

	"github.com/triskele/triskele/services/store/replica"
)

// CompareHits is the order of hits: by score, importance and creation time, each the highest first, then by id.
func CompareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Importance, a.Importance), b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// CompareRows is the order of hits with equal scores, by row.
func CompareRows(rows *replica.Rows, a, b uint32) int {
	switch {
	case rows.Importance[a] != rows.Importance[b]:
		return cmp.Compare(rows.Importance[b], rows.Importance[a])
	case rows.Created[a] != rows.Created[b]:
		return cmp.Compare(rows.Created[b], rows.Created[a])
	}
	return bytes.Compare(rows.IDs[a][:], rows.IDs[b][:])
}

// HitAt returns the memory of a row as a hit, with a score of its own.
func HitAt(rows *replica.Rows, row uint32, score float64) Hit {
	return Hit{ID: rows.IDs[row], Score: score, Own: score, Importance: rows.Importance[row], CreatedAt: time.UnixMicro(rows.Created[row]).UTC()}
}
