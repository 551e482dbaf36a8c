package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Surroundings are what stands beside a record in its thread.
type Surroundings struct{ Before, After []record.Record }

func positionOf(r record.Record) int64 {
	if r.Position == nil {
		return replica.NoPosition
	}
	return *r.Position
}

// sides are the two directions from a record, as SQL has them.
var sides = []struct{ compare, order string }{{"<", "DESC"}, {">", "ASC"}}

// Surroundings returns, for each of a namespace's records, up to n neighbours on each side in its thread, in the thread's
// order. Only records that are live, not sensitive and pass the filter count. A record without a thread has none. It
// takes one round trip.
func (s *Store) Surroundings(ctx context.Context, namespace string, of []record.Record, n int, filter record.Filter) ([]Surroundings, error) {
	found := make([]Surroundings, len(of))
	return found, s.read(ctx, func(db sqldb.DB) error {
		clear(found) // of what the primary said before it went away
		var batch sqldb.Batch
		for i, r := range of {
			if r.Thread == "" {
				continue
			}
			for side, to := range []*[]record.Record{&found[i].Before, &found[i].After} {
				args := sqldb.Args{namespace, r.Thread, positionOf(r), r.CreatedAt, r.ID, n}
				batch.Records(to, fmt.Sprintf(`%[1]s AND m.thread = $2 AND m.thread <> '' AND %[2]s
						AND NOT m.sensitive AND (coalesce(m.position, 9007199254740992), m.created_at, m.id) %[3]s ($3, $4, $5)
					ORDER BY coalesce(m.position, 9007199254740992) %[4]s, m.created_at %[4]s, m.id %[4]s LIMIT $6`,
					selectRecords, db.Live(filter, "m", &args), sides[side].compare, sides[side].order), args...)
			}
		}
		err := db.In(namespace).Send(ctx, &batch)
		for i := range found {
			slices.Reverse(found[i].Before) // the nearest were first
		}
		return err
	})
}
