package leg

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/replica"
)

// CompareHits is the order of hits: by score, importance and creation time, each the highest first, then by id.
func CompareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Importance, a.Importance), b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// HitAt returns the memory of a row as a hit, with a score of its own.
func HitAt(rows *replica.Rows, row uint32, score float64) Hit {
	return Scored{row, score, score}.hit(rows)
}

// Scored is a row with its score, and that without what neighbours in its thread lend.
type Scored struct {
	Row        uint32
	Score, Own float64
}

func (a Scored) hit(rows *replica.Rows) Hit {
	return Hit{ID: rows.IDs[a.Row], Score: a.Score, Own: a.Own, Importance: rows.Importance[a.Row], CreatedAt: time.UnixMicro(rows.Created[a.Row]).UTC()}
}

// Compare is CompareHits for rows. It looks at no more than it must.
func (a Scored) Compare(rows *replica.Rows, b Scored) int {
	switch {
	case a.Score != b.Score:
		return cmp.Compare(b.Score, a.Score)
	case rows.Importance[a.Row] != rows.Importance[b.Row]:
		return cmp.Compare(rows.Importance[b.Row], rows.Importance[a.Row])
	case rows.Created[a.Row] != rows.Created[b.Row]:
		return cmp.Compare(rows.Created[b.Row], rows.Created[a.Row])
	}
	return bytes.Compare(rows.IDs[a.Row][:], rows.IDs[b.Row][:])
}

// Least is the least score that a hit may have of its own: MinScore, or 0.
func (q Query) Least() float64 {
	if q.MinScore == nil {
		return 0
	}
	return *q.MinScore
}

// Hits returns the best of the rows that a search has found. It moves these to the front, in the order of hits.
func (q Query) Hits(rows *replica.Rows, found []Scored) []Hit {
	if q.MinScore != nil {
		found = slices.DeleteFunc(found, func(f Scored) bool { return f.Own < *q.MinScore })
	}
	slices.SortFunc(found, func(a, b Scored) int { return a.Compare(rows, b) })
	return slice.Map(found[:min(len(found), q.Depth)], func(f Scored) Hit { return f.hit(rows) })
}

// HitsInSQL returns the hits of a statement that selects ids and scores, and perhaps importances and creation times.
func HitsInSQL(ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]Hit, error) {
	rows, _ := tx.Query(ctx, statement, args...) // the rows have its error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Hit, err error) {
		err = row.Scan([]any{&h.ID, &h.Score, &h.Importance, &h.CreatedAt}[:len(row.FieldDescriptions())]...)
		h.Own, h.CreatedAt = h.Score, h.CreatedAt.UTC()
		return h, err
	})
}
