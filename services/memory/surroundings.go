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

// nearest returns conditions on what stands beside a record, with their orders, in which the nearest come first. SQLite finds nothing by
// an index that compares a row with an expression in it, so it is asked for the same place first, and then for the others.
func nearest(db sqldb.DB) []string {
	const place = `coalesce(m.position, 9007199254740992)`
	const order = ` ORDER BY ` + place + ` %[2]s, m.created_at %[2]s, m.id %[2]s`
	if db.SQLite == nil {
		return []string{`(` + place + `, m.created_at, m.id) %[1]s ($3, $4, $5)` + order}
	}
	return []string{place + ` = $3 AND (m.created_at, m.id) %[1]s ($4, $5) ORDER BY m.created_at %[2]s, m.id %[2]s`, place + ` %[1]s $3` + order}
}

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
				where := db.Live(filter, "m", &args)
				for _, which := range nearest(db) {
					batch.Records(to, fmt.Sprintf(`%s AND m.thread = $2 AND m.thread <> '' AND %s AND NOT m.sensitive AND %s LIMIT $6`,
						selectRecords, where, fmt.Sprintf(which, sides[side].compare, sides[side].order)), args...)
				}
			}
		}
		err := db.In(namespace).Send(ctx, &batch)
		for i, f := range found {
			found[i] = Surroundings{f.Before[:min(n, len(f.Before))], f.After[:min(n, len(f.After))]}
			slices.Reverse(found[i].Before) // the nearest were first
		}
		return err
	})
}
