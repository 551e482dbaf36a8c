package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Surroundings are what stands beside a record in its thread.
type Surroundings struct{ Before, After []record.Record }

// noPosition is behind all positions, as in the index memories_by_thread.
const noPosition = 1 << 53

func positionOf(r record.Record) int64 {
	if r.Position == nil {
		return noPosition
	}
	return *r.Position
}

// sides are the two directions from a record, as SQL has them.
var sides = []struct{ compare, order string }{{"<", "DESC"}, {">", "ASC"}}

// neighbourSQL selects n live neighbours in one direction, the nearest first. Its arguments are placeholders.
func neighbourSQL(columns, table, live, namespace, thread, position, created, id, n string, side int) string {
	return fmt.Sprintf(`SELECT %[1]s FROM %[2]s m WHERE m.namespace = %[3]s AND m.thread = %[4]s AND m.thread <> '' AND %[5]s
			AND NOT m.sensitive AND (coalesce(m.position, 9007199254740992), m.created_at, m.id) %[6]s (%[7]s, %[8]s, %[9]s)
		ORDER BY coalesce(m.position, 9007199254740992) %[10]s, m.created_at %[10]s, m.id %[10]s LIMIT %[11]s`,
		columns, table, namespace, thread, live, sides[side].compare, position, created, id, sides[side].order, n)
}

// put adds the neighbours of one direction.
func (s *Surroundings) put(side int, found []record.Record) {
	if side == 1 {
		s.After = found
		return
	}
	slices.Reverse(found)
	s.Before = found
}

// Surroundings implements Store, in one round trip.
func (s *Postgres) Surroundings(ctx context.Context, namespace string, of []record.Record, n int, filter record.Filter) ([]Surroundings, error) {
	found := make([]Surroundings, len(of))
	batch := &pgx.Batch{}
	for i, r := range of {
		if r.Thread == "" {
			continue
		}
		for side := range sides {
			args := postgres.Args{namespace, r.Thread, positionOf(r), r.CreatedAt, r.ID, n}
			live := postgres.Live(filter, "m", &args)
			batch.Queue(neighbourSQL(postgres.RecordColumns, "memory.memories", live, "$1", "$2", "$3", "$4", "$5", "$6", side), args...).
				Query(func(rows pgx.Rows) error {
					records, err := pgx.CollectRows(rows, postgres.ScanRecord)
					found[i].put(side, records)
					return err
				})
		}
	}
	if batch.Len() == 0 {
		return found, nil
	}
	return found, s.read(ctx, func(pool *pgxpool.Pool) error { return postgres.In(pool, namespace).Send(ctx, batch) })
}

// Surroundings implements Store.
func (s *SQLite) Surroundings(ctx context.Context, namespace string, of []record.Record, n int, filter record.Filter) ([]Surroundings, error) {
	found := make([]Surroundings, len(of))
	for i, r := range of {
		if r.Thread == "" {
			continue
		}
		for side := range sides {
			args := sqlite.Args{namespace, r.Thread, positionOf(r), r.CreatedAt.UnixMicro(), r.ID[:], n}
			live := sqlite.Live(filter, "m", &args)
			records, err := query(ctx, s.db.Read, neighbourSQL(sqlite.RecordColumns, "memories", live, "?1", "?2", "?3", "?4", "?5", "?6", side), args...)
			if err != nil {
				return nil, err
			}
			found[i].put(side, records)
		}
	}
	return found, nil
}
